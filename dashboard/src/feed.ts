// The live connection.
//
// F1. A socket resumes after the last `seq` that arrived, so that no event is missed or repeated.
// F2. The first connection requests no history; components read the state once the socket is open. Every later change
//     arrives as an event.
// F3. After a laptop's sleep the socket looks open but is dead: a gap in the page's own clock replaces the socket.
// F4. A connection that neither opens nor fails would block for ever: it times out and is made again.

import type { HubPullHint } from "../../src/schemas/hub.ts";
import type { FeedEvent, FeedHint } from "../../src/schemas/job.ts";

export type FeedState = "connecting" | "live" | "reconnecting" | "offline";

export interface FeedListener {
  /**
   * A connection was made: read the shown data again. `resumed`: every event since the last received one will follow.
   */
  opened(resumed: boolean): void;
  event(event: FeedEvent): void;
  hint(hint: FeedHint | HubPullHint): void;
  state(state: FeedState, sinceMs: number): void;
}

/** The control plane is on this computer, so retries are cheap. */
const BACKOFF_MS = [250, 500, 1_000, 2_000, 4_000];
const OFFLINE_AFTER_MS = 8_000;
const CLOCK_MS = 2_000;
const SLEPT_MS = 15_000;
const OPENING_MS = 10_000;

/** Keeps one socket to `/v1/events` open for the life of the page. Returns a function that retries at once. */
export function openFeed(listener: FeedListener): () => void {
  let socket: WebSocket | null = null;
  let since: number | null = null;
  let failures = 0;
  let lostAt: number | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let state: FeedState = "connecting";
  let clock = Date.now();
  let askedAt = Date.now();

  const tell = (next: FeedState) => {
    if (next !== state || next === "live") listener.state(next, lostAt ?? Date.now());
    state = next;
  };

  const connect = () => {
    clearTimeout(retry);
    const address = new URL("/v1/events", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const resumed = since !== null;
    if (resumed) address.searchParams.set("since", String(since));
    const mine = new WebSocket(address);
    socket = mine;
    askedAt = Date.now();
    mine.onopen = () => {
      if (socket !== mine) return;
      failures = 0;
      lostAt = null;
      tell("live");
      listener.opened(resumed);
    };
    mine.onmessage = ({ data }) => {
      if (socket !== mine) return;
      let message: unknown;
      try {
        message = JSON.parse(String(data));
      } catch {
        return;
      }
      if (message === null || typeof message !== "object" || !("type" in message)) return;
      if ("seq" in message) {
        const event = message as FeedEvent;
        if (since !== null && event.seq <= since) return;
        since = event.seq;
        listener.event(event);
      } else {
        listener.hint(message as FeedHint | HubPullHint);
      }
    };
    mine.onclose = () => {
      if (socket === mine) lost();
    };
  };

  const lost = () => {
    socket = null;
    lostAt ??= Date.now();
    tell(Date.now() - lostAt > OFFLINE_AFTER_MS ? "offline" : "reconnecting");
    const wait = BACKOFF_MS[Math.min(failures++, BACKOFF_MS.length - 1)] ?? 15_000;
    clearTimeout(retry);
    retry = setTimeout(connect, wait * (0.8 + 0.4 * Math.random()));
  };

  const again = () => {
    const old = socket;
    socket = null;
    old?.close();
    failures = 0;
    lostAt ??= Date.now();
    connect();
  };

  setInterval(() => {
    const now = Date.now();
    const gap = now - clock;
    clock = now;
    const stuck = socket?.readyState === WebSocket.CONNECTING && now - askedAt > OPENING_MS;
    if (stuck || (gap > SLEPT_MS && !document.hidden)) again();
    else if (state === "reconnecting" && lostAt !== null && now - lostAt > OFFLINE_AFTER_MS) tell("offline");
  }, CLOCK_MS);
  const wake = () => {
    if (document.hidden) return;
    const slept = Date.now() - clock > SLEPT_MS;
    clock = Date.now();
    if (slept || socket === null) again();
  };
  document.addEventListener("visibilitychange", wake);
  addEventListener("online", wake);
  addEventListener("pageshow", (event) => {
    if (event.persisted) again();
  });
  connect();
  return () => {
    if (state !== "live") again();
  };
}
