// Decides what a miss means. Answers about a young machine may come from replicas that do not know it yet, so that it
// shows in one answer and not in the next.
//
// S1. Older than the lag of any answer: it is gone.
// S2. Young, seen, and the provider has accepted its termination, or the answer to that was lost: it is gone.
// S3. Young, and only one of both: it is gone after a minute of misses. A stored address also counts as seen, because
//     another process saw the machine.
// S4. Young, and neither: it is not listed yet.
// S5. Young, seen, and svc's own connection to it, which had worked, fails for as long: it is gone after SILENT_MS and SILENT_MISSES. Two
//     witnesses that know nothing of each other agree. If both are wrong, the next sweep finds the machine by its mark and ends it.

import { SvcError } from "../errors/index.ts";
import { mayHaveBeenSent } from "./http.ts";

const MISSING_MS = 60_000;
/** Longer than a restart of a container takes, and than svc has seen a young machine be absent from an answer. */
const SILENT_MS = 20_000;
const SILENT_MISSES = 3;
/** Attempts to connect are at most half as far apart; after longer, the connection may have worked in between. */
const SILENCE_GAP_MS = 60_000;

interface Sighting {
  seen: boolean;
  /** The provider has accepted its termination, as far as is known. */
  ending: boolean;
  /** When the first of several consecutive polls missed it. */
  missedAt: number | null;
  /** Attempts to connect in a row that failed, while polls missed it. */
  silence: { since: number; last: number; misses: number } | null;
}

/** This process's memory of machines, by a key of the provider. A restart loses it, which costs time, not money. */
export class Sightings {
  readonly #known = new Map<string, Sighting>();
  readonly #lagMs: number;
  readonly #now: () => number;

  constructor(lagMs: number, now: () => number) {
    this.#lagMs = lagMs;
    this.#now = now;
  }

  seen(key: string): void {
    Object.assign(this.#of(key), { seen: true, missedAt: null, silence: null });
  }

  wasSeen(key: string): boolean {
    return this.#known.get(key)?.seen === true;
  }

  /** svc's own connection to it, which had worked, has just failed. */
  silent(key: string): void {
    const sighting = this.#of(key);
    const now = this.#now();
    const { silence } = sighting;
    const goesOn = silence !== null && now >= silence.last && now - silence.last < SILENCE_GAP_MS;
    sighting.silence = goesOn ? { ...silence, last: now } : { since: now, last: now, misses: 0 };
  }

  /** @param taken false if the termination has failed */
  ending(key: string, taken: boolean): void {
    this.#of(key).ending = taken;
  }

  /**
   * Terminates it by `ask`, which returns whether the provider accepted. A request without an answer may well have been
   * accepted.
   */
  async endingBy(key: string, ask: () => Promise<boolean>): Promise<void> {
    try {
      if (await ask()) this.ending(key, true);
    } catch (e) {
      if (e instanceof SvcError && e.code === "provider_unreachable" && mayHaveBeenSent(e)) this.ending(key, true);
      throw e;
    }
  }

  /**
   * After a miss: why it does not prove that the machine is gone; null if it does.
   * @param madeAt by this computer's clock, or when it was found; null for an old machine
   */
  doubt(
    key: string,
    madeAt: number | null,
    handle: { address: string | null; ssh?: readonly unknown[] },
  ): string | null {
    const sighting = this.#of(key);
    const now = this.#now();
    sighting.missedAt = Math.min(sighting.missedAt ?? now, now);
    const { silence } = sighting;
    if (silence !== null) silence.misses++;
    if (madeAt === null || now - madeAt >= this.#lagMs) return null;
    const seen = sighting.seen || handle.address !== null || (handle.ssh ?? []).length > 0;
    if (!seen && !sighting.ending) return "the provider does not show it yet";
    if (seen && sighting.ending) return null;
    if (now - sighting.missedAt >= MISSING_MS) return null;
    if (seen && silence !== null && silence.misses >= SILENT_MISSES && now - silence.since >= SILENT_MS) return null;
    return "the provider does not show it any more, which counts once it has lasted for a minute";
  }

  #of(key: string): Sighting {
    const known = this.#known.get(key) ?? { seen: false, ending: false, missedAt: null, silence: null };
    this.#known.set(key, known);
    return known;
  }
}
