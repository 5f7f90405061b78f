// By how much the clock of a machine is ahead of this computer's. Young machines boot with clocks that are hours off.

/** Less than this is the way of an answer, and no wrong clock. */
const NOTED_MS = 2_000;

/** One value for as long as it fits, so that times which are corrected by it keep their order. */
export class MachineClock {
  #aheadMs = 0;

  /** @param machineNowMs what the machine's clock showed when it sent the answer that has just come. */
  ahead(machineNowMs: number, nowMs = Date.now()): number {
    const seen = machineNowMs - nowMs;
    if (Math.abs(seen - this.#aheadMs) > NOTED_MS) this.#aheadMs = Math.abs(seen) > NOTED_MS ? seen : 0;
    return this.#aheadMs;
  }
}
