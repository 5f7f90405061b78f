/** How long a step waits between looks that find nothing new: short at first, longer as it lasts. A restart begins anew. */
export class Pace {
  readonly #looks = new Map<number, number>();
  readonly #o: { minMs: number; maxMs: number; factor: number };

  constructor(options: { minMs: number; maxMs: number; factor: number }) {
    this.#o = options;
  }

  /** Milliseconds until the next look of this effect. */
  next(effectId: number): number {
    const { minMs, maxMs, factor } = this.#o;
    const n = this.#looks.get(effectId) ?? 0;
    this.#looks.set(effectId, n + 1);
    return Math.round(Math.min(maxMs, minMs * factor ** n));
  }

  over(effectId: number): void {
    this.#looks.delete(effectId);
  }
}
