// Every event of one run, from its first: replayed by the server, then live, without gaps and duplicates.

import { useMemo, useSyncExternalStore } from "react";
import type { FeedEvent } from "../../../src/schemas/job.ts";
import { onHint } from "../sync.ts";

const AGAIN_MS = 2_000;
const EVENTS_MAX = 20_000;
const RECENT_MAX = 8;

class RunEvents {
  #events: readonly FeedEvent[] = [];
  readonly #id: string;
  readonly #listeners = new Set<() => void>();
  #socket: WebSocket | null = null;
  #waiting: FeedEvent[] = [];
  #frame = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void = () => undefined;

  constructor(id: string) {
    this.#id = id;
  }

  readonly list = (): readonly FeedEvent[] => this.#events;
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      this.#connect();
      // After a sleep this socket, too, may look open and be dead.
      this.#stop = onHint((hint) => hint.type === "opened" && this.#again());
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#close();
    };
  };

  #again(): void {
    if (this.#socket?.readyState !== WebSocket.CONNECTING) this.#connect();
  }

  #connect(): void {
    this.#drop();
    const since = this.#waiting.at(-1)?.seq ?? this.#events.at(-1)?.seq ?? 0;
    const address = new URL("/v1/events", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.search = new URLSearchParams({ job_id: this.#id, since: String(since) }).toString();
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.onmessage = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as FeedEvent;
      const last = this.#waiting.at(-1)?.seq ?? this.#events.at(-1)?.seq ?? 0;
      if (!("seq" in event) || event.job_id !== this.#id || event.seq <= last) return;
      this.#waiting.push(event);
      if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#tell());
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#retry = setTimeout(() => this.#connect(), AGAIN_MS);
    };
  }

  #tell(): void {
    this.#frame = 0;
    this.#take();
    for (const listener of this.#listeners) listener();
  }

  #take(): void {
    if (this.#waiting.length === 0) return;
    this.#events = [...this.#events, ...this.#waiting].slice(-EVENTS_MAX);
    this.#waiting = [];
  }

  #drop(): void {
    clearTimeout(this.#retry);
    const old = this.#socket;
    this.#socket = null;
    if (!old) return;
    old.onmessage = null;
    // A browser reports an error if a socket is closed before it has opened.
    if (old.readyState === WebSocket.CONNECTING) old.onopen = () => old.close();
    else old.close();
  }

  #close(): void {
    this.#stop();
    this.#drop();
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    // The next socket resumes after these.
    this.#take();
  }
}

/** The runs that were viewed last: all viewers of a run share its events. */
const recent = new Map<string, RunEvents>();
export function eventsOf(id: string): RunEvents {
  const known = recent.get(id) ?? new RunEvents(id);
  recent.delete(id);
  recent.set(id, known);
  const [oldest] = recent.keys();
  if (recent.size > RECENT_MAX && oldest !== undefined) recent.delete(oldest);
  return known;
}

export function useRunEvents(id: string): readonly FeedEvent[] {
  const events = useMemo(() => eventsOf(id), [id]);
  return useSyncExternalStore(events.subscribe, events.list);
}
