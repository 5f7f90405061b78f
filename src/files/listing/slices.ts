import { setImmediate } from "node:timers/promises";

/** How long work may hold the event loop before it yields. */
const SLICE_MS = 8;
/** Rounds of a loop between two checks of the clock. */
const ROUNDS = 16;

/** For loops over many files: `if (slices.areLong()) await slices.pause()` in each round. An `await` in each would cost more than the work. */
export class Slices {
  #ends = performance.now() + SLICE_MS;
  #round = 0;

  areLong(): boolean {
    return ++this.#round % ROUNDS === 0 && performance.now() >= this.#ends;
  }

  async pause(): Promise<void> {
    await setImmediate();
    this.#ends = performance.now() + SLICE_MS;
  }
}
