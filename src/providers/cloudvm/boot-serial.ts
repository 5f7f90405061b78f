// A machine that the provider calls running and that cannot boot: its serial console says so, and nothing else does.
//
// S1. Only words after which no machine comes up end the wait. What installs a driver or runs a start script may print anything: whether
//     the GPU works is asked of the machine itself.
// S2. A console that cannot be read says nothing: a key may lack the right (compute.instances.getSerialPortOutput).
// S3. Only a young machine is looked at: one that has booted goes on to write there.

import type { ComputeClient } from "./client.ts";
import { instancePath, type Place } from "./place.ts";
import { plainText, SerialOutput } from "./wire.ts";

const FIRST_LOOK_MS = 20_000;
const LOOK_MS = 15_000;
/** After a console that could not be read. */
const LOOK_MS_UNREAD = 60_000;
/** From the first look at a machine; older ones have booted, or their login is waited for in vain. */
const YOUNG_MS = 5 * 60_000;
const CHARACTERS_MAX = 200_000;

const CANNOT_BOOT =
  /kernel panic - not syncing|no bootable device|not a bootable disk|unable to mount root fs|you are in (emergency|rescue) mode|entering rescue mode|cannot open access to console, the root account is locked/i;

interface Seen {
  since: number;
  nextLookAt: number;
  verdict: string | null;
}

export class BootSerial {
  readonly #now: () => number;
  readonly #seen = new Map<string, Seen>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * The line that says that the machine cannot boot; null where none does.
   * @param read the text of its console; null where it cannot be had
   */
  async verdict(key: string, read: () => Promise<string | null>): Promise<string | null> {
    const now = this.#now();
    const seen = this.#seen.get(key) ?? { since: now, nextLookAt: now + FIRST_LOOK_MS, verdict: null };
    this.#seen.set(key, seen);
    if (seen.verdict !== null || now < seen.nextLookAt || now - seen.since > YOUNG_MS) return seen.verdict;
    seen.nextLookAt = now + LOOK_MS;
    const text = await read().catch(() => null);
    if (text === null) seen.nextLookAt = now + LOOK_MS_UNREAD;
    const lines = (text ?? "").slice(-CHARACTERS_MAX).split(/[\r\n]+/);
    const line = lines.find((one) => CANNOT_BOOT.test(one));
    if (line !== undefined) seen.verdict = plainText(line, 300);
    return seen.verdict;
  }

  over(key: string): void {
    this.#seen.delete(key);
  }
}

/** What the machine has written on its serial console; null where that cannot be had. */
export async function serialOutput(
  client: ComputeClient,
  place: Place,
  name: string,
  signal: AbortSignal,
): Promise<string | null> {
  const path = `${instancePath(place, name)}/serialPort`;
  const reply = await client.once({ method: "GET", path, query: { port: 1 }, signal });
  const read = reply.ok ? SerialOutput.safeParse(reply.body) : null;
  return read?.success ? read.data.contents : null;
}
