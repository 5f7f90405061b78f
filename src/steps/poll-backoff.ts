/**
 * The delay of a step between polls that find nothing new: short at first, longer with time. A restart begins with
 * short delays again.
 */
export class Pace {
  readonly #looks = new Map<number, number>();
  readonly #o: { minMs: number; maxMs: number; factor: number };

  constructor(options: { minMs: number; maxMs: number; factor: number }) {
    this.#o = options;
  }

  /** Milliseconds until the next poll of this effect. */
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
