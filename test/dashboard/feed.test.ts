// The live connection and the early answers, without a browser: its sockets, clock and page are those of this test.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openFeed, type FeedState } from "../../dashboard/src/feed.ts";

class Socket {
  static readonly CONNECTING = 0;
  static all: Socket[] = [];
  readyState = Socket.CONNECTING;
  onopen: () => void = () => undefined;
  onmessage: (message: { data: string }) => void = () => undefined;
  onclose: () => void = () => undefined;
  readonly since: string | null;

  constructor(address: URL) {
    this.since = address.searchParams.get("since");
    Socket.all.push(this);
  }
  open(): void {
    this.readyState = 1;
    this.onopen();
  }
  event(seq: number): void {
    this.onmessage({ data: JSON.stringify({ seq, type: "notice", job_id: null, at: "", data: {} }) });
  }
  /** Also what the connection does when it is lost. */
  close(): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose();
  }
}

const last = (): Socket => Socket.all.at(-1) as Socket;
let heard: number[];
let opened: boolean[];
let states: FeedState[];

beforeEach(() => {
  vi.useFakeTimers();
  [Socket.all, heard, opened, states] = [[], [], [], []];
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("location", { href: "http://127.0.0.1:8780/runs", protocol: "http:" });
  vi.stubGlobal("document", { hidden: false, addEventListener: () => undefined });
  vi.stubGlobal("addEventListener", () => undefined);
  openFeed({
    opened: (resumed) => void opened.push(resumed),
    event: ({ seq }) => void heard.push(seq),
    hint: () => undefined,
    state: (state) => void states.push(state),
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("The feed asks for no history at first, and after a lost connection for what follows the last event, each once", () => {
  expect(last().since).toBeNull();
  last().open();
  for (const seq of [41, 42]) last().event(seq);
  last().close();
  vi.advanceTimersByTime(1_000);
  expect(Socket.all.map(({ since }) => since)).toEqual([null, "42"]);
  last().open();
  for (const seq of [42, 43]) last().event(seq);
  expect([heard, opened]).toEqual([
    [41, 42, 43],
    [false, true],
  ]);
});

it("The feed asks for no history either when its first connection was lost before any event", () => {
  last().open();
  last().close();
  vi.advanceTimersByTime(1_000);
  last().open();
  expect(Socket.all.map(({ since }) => since)).toEqual([null, null]);
  expect(opened, "the page reads its data again").toEqual([false, false]);
});

it("The feed replaces a socket that looks open after the computer slept, and no other one", () => {
  last().open();
  last().event(5);
  vi.advanceTimersByTime(60_000);
  expect(Socket.all).toHaveLength(1);
  vi.setSystemTime(Date.now() + 3_600_000);
  vi.advanceTimersByTime(2_000);
  expect(Socket.all.map(({ since, readyState }) => [since, readyState])).toEqual([
    [null, 3],
    ["5", 0],
  ]);
});

it("The feed gives up a connection that neither opens nor fails, and makes another", () => {
  vi.advanceTimersByTime(8_000);
  expect(Socket.all).toHaveLength(1);
  vi.advanceTimersByTime(6_000);
  expect(Socket.all).toHaveLength(2);
  last().open();
  vi.advanceTimersByTime(60_000);
  expect([Socket.all.length, states.at(-1)]).toEqual([2, "live"]);
});

it("An early answer is used once, and none after the live connection has opened", async () => {
  vi.resetModules();
  vi.stubGlobal("svcEarly", { "/jobs/a": Promise.resolve("a"), "/jobs/b": Promise.resolve("b") });
  const { forgetEarly, takeEarly } = await import("../../dashboard/src/early.ts");
  expect(await takeEarly("/jobs/a")).toBe("a");
  expect(takeEarly("/jobs/a")).toBeNull();
  forgetEarly();
  expect(takeEarly("/jobs/b")).toBeNull();
});
