/**
 * Remembers recent events for as long as they count. In memory: a restart loses it, which costs an attempt, not money.
 */
export class Recent {
  private readonly until = new Map<string, number>();
  private readonly keepMs: number;
  private readonly now: () => number;

  constructor(keepMs: number, now: () => number) {
    this.keepMs = keepMs;
    this.now = now;
  }

  add(key: string): void {
    for (const old of this.until.keys()) if (!this.has(old)) this.until.delete(old);
    this.until.set(key, this.now() + this.keepMs);
  }

  remove(key: string): void {
    this.until.delete(key);
  }

  has(key: string): boolean {
    const leftMs = (this.until.get(key) ?? -Infinity) - this.now();
    // More than the initial time: the clock was set back.
    return leftMs > 0 && leftMs <= this.keepMs;
  }
}
