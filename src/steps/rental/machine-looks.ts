// When the provider was last asked about each machine, by any step. A node whose step is done waits for the other
// nodes of its run. Only their steps ask about its machine while it waits.

/** Somewhat longer than the interval at which a step asks about its own machine. */
const UNWATCHED_MS = 45_000;

export class MachineLooks {
  readonly #now: () => number;
  /** By machine, the earliest first. */
  readonly #askedAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  asked(machine: string): void {
    const now = this.#now();
    this.#askedAt.delete(machine);
    this.#askedAt.set(machine, now);
    for (const [earliest, at] of this.#askedAt) {
      if (Math.abs(now - at) < UNWATCHED_MS) break;
      this.#askedAt.delete(earliest);
    }
  }

  isWatched(machine: string): boolean {
    const at = this.#askedAt.get(machine);
    return at !== undefined && Math.abs(this.#now() - at) < UNWATCHED_MS;
  }
}
