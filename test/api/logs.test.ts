import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

describe("GET /jobs/{id}/logs", () => {
  it("sends raw bytes, from an offset or the last lines", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    plane.appendLog(id, "one\ntwo\nthree\n");
    const get = (query: string): ReturnType<typeof ask> => ask({ port: server.port, path: `/jobs/${id}/logs${query}` });
    const whole = await get("");
    expect(whole.headers).toMatchObject({
      "content-type": "text/plain; charset=utf-8",
      "content-length": "14",
      "x-content-type-options": "nosniff",
    });
    expect([
      whole.text,
      (await get("?offset=4")).text,
      (await get("?offset=14")).text,
      (await get("?offset=999")).text,
    ]).toEqual(["one\ntwo\nthree\n", "two\nthree\n", "", ""]);
    const tail = await get("?tail=2");
    expect([tail.text, tail.headers["svc-log-offset"], (await get("?tail=0")).text]).toEqual(["two\nthree\n", "4", ""]);
    const bytes = Buffer.from([0x61, 0xff, 0xfe, 0x1b, 0x5b, 0x31, 0x6d, 0x0a]);
    const other = plane.addJob().id;
    plane.appendLog(other, bytes);
    const reply = await fetch(`${server.url}/jobs/${other}/logs`);
    expect(Buffer.from(await reply.arrayBuffer()).equals(bytes)).toBe(true);
  });

  it("sends only the lines of one rank, at any length, also with their times", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const long = `[rank3] ${"x".repeat(200_000)}`;
    plane.appendLog(id, `svc: words\n[rank0] a\n${long}\n[node1] [rank3] b\n[rank33] c\n\r[rank3] 1/2`);
    const get = async (query: string): Promise<string> =>
      (await ask({ port: server.port, path: `/jobs/${id}/logs?${query}` })).text;
    expect(await get("rank=3")).toBe(`${long}\n[node1] [rank3] b\n\r[rank3] 1/2`);
    expect(await get("rank=0")).toBe("[rank0] a\n");
    expect(await get("rank=7")).toBe("");
    expect(await get("rank=0&timestamps=1")).toMatch(/^\d{4}-\S+Z \[rank0\] a\n$/);
    expect((await ask({ port: server.port, path: `/jobs/${id}/logs?rank=x` })).status).toBe(400);
  });

  it("follows until the job has ended and its last byte is delivered", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob({ status: "provisioning" });
    plane.appendLog(id, "before\n");
    const reply = await fetch(`${server.url}/jobs/${id}/logs?follow=1`);
    const reader = (reply.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let text = "";
    const more = async (): Promise<boolean> => {
      const { done, value } = await reader.read();
      text += decoder.decode(value, { stream: true });
      return !done;
    };
    await more();
    expect(text).toBe("before\n");
    plane.appendLog(id, "during é");
    while (!text.includes("é")) await more();
    plane.end(id, "terminating");
    plane.appendLog(id, "\nlast words");
    plane.end(id, "succeeded");
    while (await more());
    expect(text).toBe("before\nduring é\nlast words");
    expect(plane.listeners.size).toBe(0);
    expect(await (await fetch(`${server.url}/jobs/${id}/logs?follow=1&tail=1`)).text()).toBe("last words");
  });

  it("answers a follower of a silent job at once, and drops one that leaves", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const leave = new AbortController();
    const reply = await fetch(`${server.url}/jobs/${id}/logs?follow=1`, { signal: leave.signal });
    expect(reply.status).toBe(200);
    expect(plane.listeners.size).toBe(1);
    leave.abort();
    await expect.poll(() => plane.listeners.size).toBe(0);
  });

  it("releases followers when the control plane ends", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    plane.appendLog(id, "begun\n");
    const reply = await fetch(`${server.url}/jobs/${id}/logs?follow=1`);
    const text = reply.text().then(
      () => "whole",
      () => "cut",
    );
    await server.close();
    expect(await text).toBe("cut");
    await expect.poll(() => plane.listeners.size).toBe(0);
  });

  it("lets a slow follower delay only itself", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const log = Buffer.alloc(64 * 1024 * 1024, "0123456789abcde\n");
    plane.appendLog(id, log);
    let taken = 0;
    const read = plane.reads.readLog;
    plane.reads.readLog = (job, offset, max) => {
      const part = read(job, offset, max);
      taken = Math.max(taken, offset + part.length);
      return part;
    };
    const socket = await new Promise<Socket>((resolve) => {
      const opened = connect(server.port, "127.0.0.1", () => resolve(opened));
    });
    socket.pause();
    socket.write(
      `GET /jobs/${id}/logs?follow=1 HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nConnection: close\r\n\r\n`,
    );
    // Reading stops when the kernel's buffers are full: two looks then find the same position.
    let seen = -1;
    await expect
      .poll(() => (taken > 0 && taken === seen) || ((seen = taken), false), { interval: 200, timeout: DEADLINE_MS })
      .toBe(true);
    expect(taken).toBeLessThan(log.length / 2);
    expect((await ask({ port: server.port })).status).toBe(200);
    plane.end(id, "failed");
    let bytes = 0;
    let last = "";
    await new Promise<void>((resolve) => {
      socket.on("data", (part: Buffer) => {
        bytes += part.length;
        last = part.toString("latin1").slice(-20);
      });
      socket.on("close", () => resolve());
      socket.resume();
    });
    expect(bytes).toBeGreaterThan(log.length);
    expect(last).toMatch(/0\r\n\r\n$/);
  });

  it("puts the time before each line, even if a line spans two reads", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob({ status: "succeeded" });
    plane.appendLog(id, "a\nb", 1_000);
    plane.appendLog(id, "b\n", 2_000);
    plane.appendLog(id, `${"c".repeat(70_000)}\n`, 3_000);
    plane.appendLog(id, "d", 4_000);
    const get = async (query: string): Promise<string> =>
      (await ask({ port: server.port, path: `/jobs/${id}/logs?timestamps=1${query}` })).text;
    const at = (s: number): string => `1970-01-01T00:00:0${s}.000Z `;
    const long = `${at(3)}${"c".repeat(70_000)}\n${at(4)}d`;
    expect(await get("")).toBe(`${at(1)}a\n${at(1)}bb\n${long}`);
    expect(await get("&follow=1")).toBe(`${at(1)}a\n${at(1)}bb\n${long}`);
    expect(await get("&offset=3")).toBe(`b\n${long}`);
    expect(await get("&tail=1")).toBe(`${at(4)}d`);
  });
});
