// What "it is not there" means. Answers about a machine that is young may come from places that have not heard of it yet, or that
// others have, so that it shows in one and not in the next.
//
// S1. Older than any answer lags: it is gone.
// S2. Young, seen, and the provider has taken the wish to end it, or the answer to that wish was lost: it is gone.
// S3. Young, and one of both: it is gone once every look for a minute has missed it. Seen is also what another process has seen, which
//     has left its address.
// S4. Young, and neither: it is not shown yet.

import { SvcError } from "../errors/index.ts";
import { mayHaveBeenSent } from "./http.ts";

const MISSING_MS = 60_000;

interface Sighting {
  seen: boolean;
  /** The provider has taken the wish to end it, as far as is known. */
  ending: boolean;
  /** When a look first missed it, of looks in a row. */
  missedAt: number | null;
}

/** What this process remembers of machines, by a key of the provider's. A restart forgets it, which costs time, not money. */
export class Sightings {
  readonly #known = new Map<string, Sighting>();
  readonly #lagMs: number;
  readonly #now: () => number;

  constructor(lagMs: number, now: () => number) {
    this.#lagMs = lagMs;
    this.#now = now;
  }

  seen(key: string): void {
    Object.assign(this.#of(key), { seen: true, missedAt: null });
  }

  wasSeen(key: string): boolean {
    return this.#known.get(key)?.seen === true;
  }

  /** @param taken false where what was begun has failed */
  ending(key: string, taken: boolean): void {
    this.#of(key).ending = taken;
  }

  /** Asks for its end, by `ask`, which tells whether the provider took the wish. One whose answer was lost may well have been taken. */
  async endingBy(key: string, ask: () => Promise<boolean>): Promise<void> {
    try {
      if (await ask()) this.ending(key, true);
    } catch (e) {
      if (e instanceof SvcError && e.code === "provider_unreachable" && mayHaveBeenSent(e)) this.ending(key, true);
      throw e;
    }
  }

  /**
   * After a look that missed it: why that does not mean that it is gone; null where it does.
   * @param madeAt by this computer's clock, or when it was found; null where it is old
   */
  doubt(
    key: string,
    madeAt: number | null,
    handle: { address: string | null; ssh?: readonly unknown[] },
  ): string | null {
    const sighting = this.#of(key);
    const now = this.#now();
    sighting.missedAt = Math.min(sighting.missedAt ?? now, now);
    if (madeAt === null || now - madeAt >= this.#lagMs) return null;
    const seen = sighting.seen || handle.address !== null || (handle.ssh ?? []).length > 0;
    if (!seen && !sighting.ending) return "the provider does not show it yet";
    if (seen && sighting.ending) return null;
    if (now - sighting.missedAt >= MISSING_MS) return null;
    return "the provider does not show it any more, which counts once it has lasted for a minute";
  }

  #of(key: string): Sighting {
    const known = this.#known.get(key) ?? { seen: false, ending: false, missedAt: null };
    this.#known.set(key, known);
    return known;
  }
}
