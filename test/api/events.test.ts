import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { FeedEvent } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

/** A socket that keeps all received messages. */
class Reader {
  readonly socket: WebSocket;
  readonly messages: any[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;
  readonly opened: Promise<void>;

  constructor(port: number, query = "") {
    this.socket = new WebSocket(`ws://127.0.0.1:${port}/v1/events${query}`);
    this.socket.on("message", (data) => this.messages.push(JSON.parse((data as Buffer).toString())));
    this.socket.on("error", () => undefined);
    this.opened = new Promise((resolve) => this.socket.once("open", () => resolve()));
    this.closed = new Promise((resolve) =>
      this.socket.once("close", (code, reason) => resolve({ code, reason: String(reason) })),
    );
  }

  get seqs(): number[] {
    return this.messages.filter((m) => "seq" in m).map((m: FeedEvent) => m.seq);
  }

  async heard(count: number): Promise<void> {
    await expect.poll(() => this.seqs.length, { timeout: DEADLINE_MS, interval: 10 }).toBeGreaterThanOrEqual(count);
  }
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("GET /v1/events", () => {
  it("sends only new events without a seq", async () => {
    const { plane, server } = await serve();
    plane.emit(null);
    const reader = new Reader(server.port);
    await reader.opened;
    await expect.poll(() => plane.listeners.size).toBe(1);
    plane.emit(null);
    plane.hint({ type: "log.advanced", job_id: "job000001", bytes: 5 });
    await expect.poll(() => reader.messages.length).toBe(2);
    expect(reader.messages).toMatchObject([{ seq: 2 }, { type: "log.advanced", job_id: "job000001", bytes: 5 }]);
    reader.socket.close();
    await reader.closed;
    await expect.poll(() => plane.listeners.size).toBe(0);
  });

  it("replays and continues live without gap or repetition while events keep arriving", async () => {
    const { plane, server } = await serve();
    for (let i = 0; i < 1_500; i++) plane.emit(`job${i % 3}`, "notice", { text: "x".repeat(200) });
    const readers = [0, 0, 700, 1_499, 1_500].map((since) => ({
      since,
      reader: new Reader(server.port, `?since=${since}`),
    }));
    const filtered = new Reader(server.port, "?since=10");
    // Emitted in the middle of handshakes and replays, in bursts of every size.
    for (let total = 1_500, burst = 1; total < 4_000; total += burst, burst = (burst * 7) % 61) {
      for (let i = 0; i < burst; i++) plane.emit(`job${i % 3}`);
      await nextTurn();
    }
    const last = plane.feed.length;
    for (const { since, reader } of readers) {
      await reader.heard(last - since);
      expect(reader.seqs).toEqual(upTo(last, since + 1));
    }
    await filtered.heard(last - 10);
    expect(filtered.seqs).toEqual(upTo(last, 11));
    for (const { reader } of [...readers, { reader: filtered }]) reader.socket.terminate();
  });

  it("neither loses nor repeats an event that occurs in the middle of a replay, or is reported late", async () => {
    const { plane, server } = await serve();
    for (let i = 0; i < 1_000; i++) plane.emit(null);
    const read = plane.reads.eventsSince;
    const late: FeedEvent[] = [];
    plane.reads.eventsSince = (since, options) => {
      const batch = read(since, options);
      if (batch.length > 0 && plane.feed.length < 1_020) {
        // One event is reported at once, during the replay; one is already in the store but reported later.
        plane.emit(null);
        const event = { seq: plane.feed.length + 1, job_id: null, at: plane.startedAt, type: "notice", data: {} };
        if (late.length < 3) late.push(plane.feed[plane.feed.push(event) - 1] as FeedEvent);
      }
      return batch;
    };
    const reader = new Reader(server.port, "?since=0");
    await expect.poll(() => reader.seqs.at(-1)).toBe(1_020);
    for (const event of late) for (const listener of plane.listeners) listener(event);
    plane.emit(null);
    await reader.heard(plane.feed.length);
    expect(reader.seqs).toEqual(upTo(plane.feed.length));
    reader.socket.terminate();
  });

  it("sends only one job's events on request, replayed and live", async () => {
    const { plane, server } = await serve();
    const [a, b] = [plane.addJob(), plane.addJob()];
    for (let i = 0; i < 500; i++) plane.emit(i % 2 ? a.id : b.id);
    const reader = new Reader(server.port, `?since=0&job_id=${a.id}`);
    await reader.heard(250);
    plane.hint({ type: "metrics.advanced", job_id: b.id });
    plane.emit(b.id);
    plane.emit(null);
    plane.emit(a.id);
    await reader.heard(251);
    expect(reader.messages).toHaveLength(251);
    expect(new Set(reader.messages.map((m) => m.job_id))).toEqual(new Set([a.id]));
    reader.socket.terminate();
  });

  it("still sends new events to a reader whose seq belongs to a lost store", async () => {
    const { plane, server } = await serve();
    plane.emit(null);
    const reader = new Reader(server.port, "?since=999");
    await expect.poll(() => plane.listeners.size).toBe(1);
    plane.emit(null);
    await reader.heard(1);
    expect(reader.seqs).toEqual([2]);
    reader.socket.terminate();
  });

  it("closes a slow reader with 1013; it resumes where it was", async () => {
    const { plane, server } = await serve({ limits: { socketBufferBytesMax: 256 * 1024, socketStallMs: 8_000 } });
    const slow = new Reader(server.port, "?since=0");
    const quick = new Reader(server.port, "?since=0");
    await Promise.all([slow.opened, quick.opened]);
    await expect.poll(() => plane.listeners.size).toBe(2);
    slow.socket.pause();
    // The kernel takes a few MB before anything is left unread here.
    for (let i = 0; i < 4_000 && plane.listeners.size === 2; i++) {
      plane.emit(null, "notice", { text: "y".repeat(16 * 1024) });
      await nextTurn();
    }
    expect(plane.listeners.size).toBe(1);
    const rss = process.memoryUsage().rss;
    for (let i = 0; i < 100; i++) plane.emit(null);
    slow.socket.resume();
    expect((await slow.closed).code).toBe(1013);
    expect(process.memoryUsage().rss - rss).toBeLessThan(200 * 1024 * 1024);
    const had = slow.seqs.at(-1) ?? 0;
    expect(slow.seqs).toEqual(upTo(had));
    const resumed = new Reader(server.port, `?since=${had}`);
    await resumed.heard(plane.feed.length - had);
    expect([...slow.seqs, ...resumed.seqs]).toEqual(upTo(plane.feed.length));
    await quick.heard(plane.feed.length);
    expect(quick.seqs).toEqual(upTo(plane.feed.length));
    for (const reader of [quick, resumed]) reader.socket.terminate();
  });

  it("drops hints of a reader that is behind, and no event, and sends it hints again once it has caught up", async () => {
    const { plane, server } = await serve({ limits: { socketBufferBytesMax: 256 * 1024 * 1024 } });
    const reader = new Reader(server.port);
    await reader.opened;
    await expect.poll(() => plane.listeners.size).toBe(1);
    reader.socket.pause();
    // Far more than the kernel takes.
    for (let i = 0; i < 2_000; i++) {
      plane.emit(null, "notice", { text: "y".repeat(16 * 1024) });
      if (i % 100 === 0) await nextTurn();
    }
    plane.hint({ type: "log.advanced", job_id: "job000001", bytes: 1 });
    reader.socket.resume();
    await reader.heard(2_000);
    plane.hint({ type: "log.advanced", job_id: "job000001", bytes: 2 });
    const hints = () => reader.messages.filter((message) => !("seq" in message)).map(({ bytes }) => bytes);
    await expect.poll(() => hints().includes(2), { timeout: DEADLINE_MS }).toBe(true);
    expect(hints()).toEqual([2]);
    expect(reader.seqs).toEqual(upTo(2_000));
    reader.socket.terminate();
  });

  it("cuts a reader that accepts nothing of its replay", async () => {
    const { plane, server } = await serve({ limits: { socketStallMs: 300 } });
    for (let i = 0; i < 1_500; i++) plane.emit(null, "notice", { text: "z".repeat(16 * 1024) });
    const stuck = new Reader(server.port, "?since=0");
    await stuck.opened;
    stuck.socket.pause();
    await expect.poll(() => plane.listeners.size, { timeout: DEADLINE_MS }).toBe(0);
    stuck.socket.terminate();
  });

  it("cuts a reader that no longer answers pings", async () => {
    const { plane, server } = await serve({ limits: { pingMs: 500 } });
    const live = new Reader(server.port);
    const dead = new WebSocket(`ws://127.0.0.1:${server.port}/v1/events`, { autoPong: false });
    const gone = new Promise<number>((resolve) => dead.once("close", resolve));
    expect(await gone).toBe(1006);
    expect(live.socket.readyState).toBe(WebSocket.OPEN);
    await expect.poll(() => plane.listeners.size).toBe(1);
    live.socket.terminate();
  });

  it("refuses messages beyond its bounds", async () => {
    const { plane, server } = await serve();
    const big = new Reader(server.port);
    await big.opened;
    big.socket.send("x".repeat(64 * 1024 + 1));
    expect((await big.closed).code).toBe(1009);
    const crumbs = new Reader(server.port);
    await crumbs.opened;
    for (let i = 0; i < 1_000; i++) crumbs.socket.send("", { fin: false });
    expect([1006, 1008, 1009]).toContain((await crumbs.closed).code);
    await expect.poll(() => plane.listeners.size).toBe(0);
  });

  it("reports an invalid request before it becomes a socket", async () => {
    const { plane, server } = await serve();
    const refusal = (query: string): Promise<[number, string]> =>
      new Promise((resolve) => {
        const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/events${query}`);
        socket.on("error", () => undefined);
        socket.on("unexpected-response", (_request, response) => {
          let text = "";
          response.on("data", (part: Buffer) => (text += String(part)));
          response.on("end", () => resolve([response.statusCode ?? 0, JSON.parse(text).code]));
        });
      });
    expect(await refusal("?since=x")).toEqual([400, "invalid_request"]);
    expect(await refusal("?sinse=1")).toEqual([400, "invalid_request"]);
    expect(await refusal("?job_id=nope")).toEqual([404, "job_not_found"]);
    const plain = await ask({ port: server.port, path: "/v1/events" });
    expect([plain.status, plain.json.code]).toEqual([426, "upgrade_required"]);
    expect(plane.listeners.size).toBe(0);
  });

  it("closes with 1001 when the control plane ends", async () => {
    const { plane, server } = await serve();
    const reader = new Reader(server.port);
    await reader.opened;
    await server.close();
    expect((await reader.closed).code).toBe(1001);
    await expect.poll(() => plane.listeners.size).toBe(0);
  });
});
