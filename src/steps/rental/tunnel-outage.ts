// Machines that nobody can be asked about: a notebook's runtime is only known by its tunnel. A tunnel that answers and lets nobody
// through, for minutes, has no runtime behind it any more. One that does not answer proves nothing: this computer may have no
// network, or have slept.

const MINUTE_MS = 60_000;
/** For so long the way has to have been closed. */
export const CLOSED_MINUTES = 5;
/** A longer pause between two tries begins the count anew. */
const GAP_MS = 3 * MINUTE_MS;

export class TunnelOutages {
  readonly #now: () => number;
  readonly #closed = new Map<string, { since: number; last: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The machine was reached, or nothing answered at all. */
  open(machine: string): void {
    this.#closed.delete(machine);
  }

  /** One more try that was turned away. True once that has been so for long enough. */
  closed(machine: string): boolean {
    const now = this.#now();
    const before = this.#closed.get(machine);
    const since = before !== undefined && now - before.last <= GAP_MS ? before.since : now;
    this.#closed.set(machine, { since, last: now });
    return now - since >= CLOSED_MINUTES * MINUTE_MS;
  }
}
