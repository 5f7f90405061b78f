import { abortReason } from "../domain/abort-reason.ts";
/**
 * A memory budget that parts in flight share, first come, first served; a part larger than the whole budget runs alone.
 */
export class ByteBudget {
  readonly #max: number;
  #lent = 0;
  readonly #queue: { bytes: number; go: () => void }[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  async lend<T>(wanted: number, signal: AbortSignal, fn: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const bytes = Math.min(wanted, this.#max);
    await this.#take(bytes, signal);
    try {
      return await fn();
    } finally {
      this.#lent -= bytes;
      this.#serve();
    }
  }

  #take(bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const entry = {
        bytes,
        go: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = (): void => {
        this.#queue.splice(this.#queue.indexOf(entry), 1);
        reject(abortReason(signal));
        this.#serve();
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.push(entry);
      this.#serve();
    });
  }

  #serve(): void {
    for (let next = this.#queue[0]; next && this.#lent + next.bytes <= this.#max; next = this.#queue[0]) {
      this.#queue.shift();
      this.#lent += next.bytes;
      next.go();
    }
  }
}
