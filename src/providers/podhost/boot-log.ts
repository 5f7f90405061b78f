// Detects pods that cannot come up. Their status is the same for a running and for a refused pull: only the pod's log
// shows the failure, or an address that stays private. Both are checked while a pod starts, and end the wait.
//
// B1. Only a pod whose container does not run is judged by its log: a running program may write anything.
// B2. An unavailable log proves nothing.

import { boundedJson } from "../../domain/bounded-json.ts";
import { lastChars } from "../../domain/terminal-text.ts";
import { bootVerdict, type BootVerdict } from "../boot-words.ts";
import type { Pod } from "./wire.ts";

/** A pull of seconds requires no check of its log. */
const FIRST_LOOK_MS = 15_000;
const LOOK_MS = 15_000;
/** Interval if the log is not served, or not to this key. */
const LOOK_MS_UNSERVED = 60_000;
/** How long port 22 may be listed without a public address. */
const PRIVATE_MS = 60_000;
const CHARACTERS_MAX = 200_000;

/** Lines of the container's runtime, in a log that also has lines of the container. */
const OF_RUNTIME =
  /error (response|pulling|creating|starting)|failed to (create|pull|start|resolve|register)|pull (access|rate)|manifest|daemon|nvidia-container-cli|toomanyrequests|image_pull|cuda_version/i;

interface Seen {
  since: number;
  nextLookAt: number;
  privateSince: number | null;
}

export class BootLog {
  readonly #read: (id: string, signal: AbortSignal) => Promise<string | null>;
  readonly #now: () => number;
  readonly #seen = new Map<string, Seen>();

  /** @param read returns the text of a pod's log; null if it is not served */
  constructor(read: (id: string, signal: AbortSignal) => Promise<string | null>, now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  /** The reason why a starting pod will not become ready; null if nothing indicates that. */
  async verdict(pod: Pod, signal: AbortSignal): Promise<BootVerdict | null> {
    if (pod.id === null) return null;
    const now = this.#now();
    const seen = this.#seen.get(pod.id) ?? { since: now, nextLookAt: now + FIRST_LOOK_MS, privateSince: null };
    this.#seen.set(pod.id, seen);
    const said = bootVerdict(pod.lastChange);
    if (said !== null) return said;
    seen.privateSince = pod.privateOnly ? Math.min(seen.privateSince ?? now, now) : null;
    if (seen.privateSince !== null && now - seen.privateSince >= PRIVATE_MS)
      return {
        why: "its container runs, but port 22 has no public address, because its host has none",
        elsewhere: true,
      };
    if (pod.up || now < seen.nextLookAt) return null;
    seen.nextLookAt = now + LOOK_MS;
    const text = await this.#read(pod.id, signal).catch(() => null);
    signal.throwIfAborted();
    if (text === null) seen.nextLookAt = now + LOOK_MS_UNSERVED;
    return text === null ? null : bootVerdict(runtimeLines(text));
  }

  over(id: string): void {
    this.#seen.delete(id);
  }
}

/** The log is text, or JSON with the runtime's lines under `system` (both seen, 2025 and 2026). */
function runtimeLines(text: string): string {
  const tail = lastChars(text, CHARACTERS_MAX);
  const json = boundedJson(text);
  if (typeof json === "object" && json !== null) {
    const { system } = json as { system?: unknown };
    return stringsIn(system === undefined ? json : system)
      .filter((line) => system !== undefined || OF_RUNTIME.test(line))
      .join("\n");
  }
  return tail
    .split(/[\r\n]+/)
    .filter((line) => OF_RUNTIME.test(line))
    .join("\n");
}

function stringsIn(value: unknown, depth = 0): string[] {
  if (typeof value === "string") return lastChars(value, CHARACTERS_MAX).split(/[\r\n]+/);
  if (typeof value !== "object" || value === null || depth > 4) return [];
  return Object.values(value)
    .slice(-2_000)
    .flatMap((one) => stringsIn(one, depth + 1));
}
