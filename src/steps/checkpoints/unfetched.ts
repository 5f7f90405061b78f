// Measures what a scan still has to download and how fast the downloads are; the budget keeps money for the rest. Called by the collector.

import type { Unfetched } from "../../domain/budget.ts";

interface Sized {
  path: string;
  size: number;
}

/** A batch that took less says more about latency than about speed. */
const MEASURED_MS_MIN = 200;

export class UnfetchedMeter {
  readonly #now: () => number;
  readonly #tell: (seen: Unfetched) => void;
  #bytes = 0;
  #bytesPerSecond: number | null = null;
  #sinceMs = 0;

  constructor(now: () => number, tell: (seen: Unfetched) => void = () => undefined) {
    this.#now = now;
    this.#tell = tell;
  }

  /** @param changing paths of the listing that a later scan downloads. */
  found(listing: readonly Sized[], ready: readonly Sized[], changing: readonly string[]): void {
    const later = new Set(changing);
    const rest = listing.filter(({ path }) => later.has(path));
    this.#bytes = [...ready, ...rest].reduce((sum, { size }) => sum + size, 0);
    this.#sinceMs = this.#now();
    this.#say();
  }

  fetched(saved: readonly { size: number }[]): void {
    const bytes = saved.reduce((sum, { size }) => sum + size, 0);
    const tookMs = this.#now() - this.#sinceMs;
    if (bytes > 0 && tookMs >= MEASURED_MS_MIN) this.#bytesPerSecond = (bytes / tookMs) * 1_000;
    this.#sinceMs = this.#now();
    this.#bytes = Math.max(0, this.#bytes - bytes);
    this.#say();
  }

  #say(): void {
    this.#tell({ bytes: this.#bytes, bytesPerSecond: this.#bytesPerSecond });
  }
}
