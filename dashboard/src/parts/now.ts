import { useSyncExternalStore } from "react";
import { useData } from "../store.ts";

// One timer for every ticking number on the page; it runs only while one is shown.
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}
const never = () => () => undefined;

/**
 * Milliseconds since the epoch, growing each second while `ticking`. It stops while the control plane does not answer,
 * because later changes are unknown.
 */
export function useNow(ticking = true): number {
  const { state, sinceMs } = useData((data) => data.connection);
  const lost = state === "reconnecting" || state === "offline";
  const here = useSyncExternalStore(ticking && !lost ? subscribe : never, () => now);
  return lost ? sinceMs : here;
}
