/** An agent's messages, frame by frame, after its greeting. */
export class Frames {
  /** Number of signs of life; `late` has the ids of calls that had one after their answer. */
  alive = 0;
  readonly late: number[] = [];
  readonly #answered = new Set<number>();
  #rest = Buffer.alloc(0);
  #skip = 0;

  take(data: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, data]);
    for (;;) {
      const skipped = Math.min(this.#skip, this.#rest.length);
      this.#skip -= skipped;
      this.#rest = this.#rest.subarray(skipped);
      const end = this.#rest.indexOf(0x0a);
      if (end < 0) return;
      const line = this.#rest.toString("utf8", 0, end);
      this.#rest = this.#rest.subarray(end + 1);
      if (!line.startsWith("{")) continue;
      const { id, alive, bytes } = JSON.parse(line) as { id: number; alive?: true; bytes?: number };
      this.#skip = bytes ?? 0;
      if (alive !== true) this.#answered.add(id);
      else {
        this.alive++;
        if (this.#answered.has(id)) this.late.push(id);
      }
    }
  }
}
