/** What happened lately, for as long as it counts. Held in memory: a restart forgets it, which costs a try, not money. */
export class Recent {
  private readonly until = new Map<string, number>();
  private readonly keepMs: number;
  private readonly now: () => number;

  constructor(keepMs: number, now: () => number) {
    this.keepMs = keepMs;
    this.now = now;
  }

  add(key: string): void {
    for (const [old, until] of this.until) if (until <= this.now()) this.until.delete(old);
    this.until.set(key, this.now() + this.keepMs);
  }

  remove(key: string): void {
    this.until.delete(key);
  }

  has(key: string): boolean {
    return (this.until.get(key) ?? -Infinity) > this.now();
  }
}
