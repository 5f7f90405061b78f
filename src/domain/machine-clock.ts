// Measures by how much a machine's clock is ahead of this computer's. Newly started machines boot with clocks that are
// hours off.

/** Smaller differences come from network latency, not from a wrong clock. */
const NOTED_MS = 2_000;

/** Keeps one value as long as it fits, so that corrected times keep their order. */
export class MachineClock {
  #aheadMs = 0;

  /** @param machineNowMs the machine's clock at the moment it sent the answer that has just arrived. */
  ahead(machineNowMs: number, nowMs = Date.now()): number {
    const seen = machineNowMs - nowMs;
    if (Math.abs(seen - this.#aheadMs) > NOTED_MS) this.#aheadMs = Math.abs(seen) > NOTED_MS ? seen : 0;
    return this.#aheadMs;
  }
}
