// Detects machines that the provider calls running but that cannot boot: only the serial console shows that.
//
// S1. Only messages after which no machine ever comes up end the wait. A driver installation or a start script may
//     print anything: the machine itself tells whether the GPU works.
// S2. An unreadable console proves nothing: a key may lack the permission (compute.instances.getSerialPortOutput).
// S3. Only a young machine is checked: a booted machine keeps writing there.

import { lastChars } from "../../domain/terminal-text.ts";
import type { BootVerdict } from "../boot-words.ts";
import type { ComputeClient } from "./client.ts";
import { instancePath, type Place } from "./place.ts";
import { plainText, SerialOutput } from "./wire.ts";

const FIRST_LOOK_MS = 20_000;
const LOOK_MS = 15_000;
/** Delay after a console that could not be read. */
const LOOK_MS_UNREAD = 60_000;
/** From the first poll of a machine; older ones have booted, or will never accept a login. */
const YOUNG_MS = 5 * 60_000;
const CHARACTERS_MAX = 200_000;

/** The disk cannot be booted: every machine of this image would fail in the same way. */
const OF_IMAGE =
  /no bootable device|not a bootable disk|unable to mount root fs|you are in (emergency|rescue) mode|entering rescue mode|cannot open access to console, the root account is locked/i;
/** Any other panic may come from the hardware. */
const CANNOT_BOOT = new RegExp(`kernel panic - not syncing|${OF_IMAGE.source}`, "i");

interface Seen {
  since: number;
  nextLookAt: number;
  verdict: BootVerdict | null;
}

export class BootSerial {
  readonly #now: () => number;
  readonly #seen = new Map<string, Seen>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * The line that says that the machine cannot boot; null if there is none.
   * @param read returns the text of its console; null if it cannot be read
   */
  async verdict(key: string, read: () => Promise<string | null>): Promise<BootVerdict | null> {
    const now = this.#now();
    const seen = this.#seen.get(key) ?? { since: now, nextLookAt: now + FIRST_LOOK_MS, verdict: null };
    this.#seen.set(key, seen);
    if (seen.verdict !== null || now < seen.nextLookAt || now - seen.since > YOUNG_MS) return seen.verdict;
    seen.nextLookAt = now + LOOK_MS;
    const text = await read().catch(() => null);
    if (text === null) seen.nextLookAt = now + LOOK_MS_UNREAD;
    const lines = lastChars(text ?? "", CHARACTERS_MAX).split(/[\r\n]+/);
    const line = lines.find((one) => CANNOT_BOOT.test(one));
    if (line !== undefined)
      seen.verdict = { why: plainText(line, 300), elsewhere: !lines.some((one) => OF_IMAGE.test(one)) };
    return seen.verdict;
  }

  over(key: string): void {
    this.#seen.delete(key);
  }
}

/** The output on the machine's serial console; null if it cannot be read. */
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
