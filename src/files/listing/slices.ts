import { setImmediate } from "node:timers/promises";

/** How long work may hold the event loop before it lets others go on. */
const SLICE_MS = 8;

/** For loops over many files: `pauseIfLong` in each round. */
export class Slices {
  #ends = performance.now() + SLICE_MS;

  async pauseIfLong(): Promise<void> {
    if (performance.now() < this.#ends) return;
    await setImmediate();
    this.#ends = performance.now() + SLICE_MS;
  }
}
