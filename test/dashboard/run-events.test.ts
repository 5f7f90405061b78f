// The events of one run, without a browser: its socket and its frames are those of this test.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { eventsOf } from "../../dashboard/src/run/run-events.ts";

class Socket {
  static readonly CONNECTING = 0;
  static all: Socket[] = [];
  readonly readyState = 1;
  onmessage: ((message: { data: string }) => void) | null = null;
  readonly since: string | null;

  constructor(address: URL) {
    this.since = address.searchParams.get("since");
    Socket.all.push(this);
  }
  event(seq: number): void {
    this.onmessage?.({ data: JSON.stringify({ seq, type: "notice", job_id: "j1", at: "", data: {} }) });
  }
  close(): void {
    this.onmessage = null;
  }
}

let frames: Map<number, () => void>;
const frame = (): void => {
  const due = [...frames.values()];
  frames.clear();
  for (const draw of due) draw();
};

beforeEach(() => {
  Socket.all = [];
  frames = new Map();
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("location", { href: "http://127.0.0.1:8780/runs/j1" });
  vi.stubGlobal("requestAnimationFrame", (draw: () => void) => frames.set(frames.size + 1, draw).size);
  vi.stubGlobal("cancelAnimationFrame", (id: number) => frames.delete(id));
});
afterEach(() => vi.unstubAllGlobals());

it("Events that arrive in the frame in which the page closes are there when it is opened again", () => {
  const events = eventsOf("j1");
  const told = vi.fn();
  const leave = events.subscribe(told);
  Socket.all[0]?.event(1);
  frame();
  Socket.all[0]?.event(2);
  leave();
  frame();
  expect(told).toHaveBeenCalledTimes(1);

  const leaveAgain = events.subscribe(told);
  expect(events.list().map((event) => event.seq)).toEqual([1, 2]);
  expect(Socket.all[1]?.since).toBe("2");
  Socket.all[1]?.event(3);
  frame();
  expect(events.list().map((event) => event.seq)).toEqual([1, 2, 3]);
  leaveAgain();
});
