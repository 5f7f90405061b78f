// Declares a notebook's runtime gone. It is only known by its tunnel, and has no provider to ask. A tunnel that answers
// but refuses every login for minutes has no runtime behind it any more. A silent tunnel proves nothing: this computer
// may have no network, or have slept.

const MINUTE_MS = 60_000;
/** The tunnel must have refused logins for this long. */
export const CLOSED_MINUTES = 5;
/** A longer pause between two tries restarts the count. */
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

  /** Records another refused login. True once that has lasted long enough. */
  closed(machine: string): boolean {
    const now = this.#now();
    const before = this.#closed.get(machine);
    const since = before !== undefined && now - before.last <= GAP_MS ? before.since : now;
    this.#closed.set(machine, { since, last: now });
    return now - since >= CLOSED_MINUTES * MINUTE_MS;
  }
}
