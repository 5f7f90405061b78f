// A queue of due times: a binary heap over rows that are durable elsewhere. Losing it loses nothing.

export interface Due {
  at: number;
  /** Breaks ties, so that the order is the same in every run. */
  key: string;
  fire: () => void;
}

const before = (a: Due, b: Due): boolean => a.at < b.at || (a.at === b.at && a.key < b.key);

export class TimerQueue {
  readonly #heap: Due[] = [];

  get nextAt(): number | null {
    return this.#heap[0]?.at ?? null;
  }

  add(due: Due): void {
    const heap = this.#heap;
    let i = heap.push(due) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !before(due, above)) break;
      heap[i] = above;
      i = parent;
    }
    heap[i] = due;
  }

  /** Removes and returns everything due at `now`, in order. */
  take(now: number): Due[] {
    const out: Due[] = [];
    for (let top = this.#heap[0]; top !== undefined && top.at <= now; top = this.#heap[0]) {
      out.push(top);
      this.#removeTop();
    }
    return out;
  }

  /** Removes and returns the due time of this key, however far away it is. */
  pull(key: string): Due | undefined {
    const found = this.#heap.findIndex((due) => due.key === key);
    const due = this.#heap[found];
    if (due === undefined) return undefined;
    const rest = this.#heap.splice(0).filter((one) => one !== due);
    for (const one of rest) this.add(one);
    return due;
  }

  #removeTop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let i = 0;
    for (;;) {
      const left = 2 * i + 1;
      const l = heap[left];
      if (l === undefined) break;
      const r = heap[left + 1];
      const [child, at] = r !== undefined && before(r, l) ? [r, left + 1] : [l, left];
      if (!before(child, last)) break;
      heap[i] = child;
      i = at;
    }
    heap[i] = last;
  }
}
