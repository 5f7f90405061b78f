// Virtual time. Every event of a simulation happens here, one after the other, in an order that the seed decides.
//
// W1. One seed, one history: all chance comes from `rng`, all time from `now`.
// W2. Events of a dead process never happen. Events of the world do.
// W3. Between two events every promise that can continue has continued.

/** Small fast counter (sfc32), seeded through splitmix: neighbouring seeds have nothing in common. */
export class Rng {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(seed: number) {
    let s = seed >>> 0;
    const mix = (): number => {
      s = (s + 0x9e3779b9) >>> 0;
      let z = s;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return (z ^ (z >>> 15)) >>> 0;
    };
    [this.#a, this.#b, this.#c] = [mix(), mix(), mix()];
    for (let i = 0; i < 12; i++) this.next();
  }

  /** In [0, 1). */
  next(): number {
    const t = (this.#a + this.#b + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    return (t >>> 0) / 0x1_0000_0000;
  }
  /** A whole number, both ends included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }
  chance(p: number): boolean {
    return p > 0 && this.next() < p;
  }
  pick<T>(of: readonly [T, ...T[]]): T {
    return of[this.int(0, of.length - 1)] ?? of[0];
  }
}

/** Something that can die: its events then never happen. */
export interface Life {
  readonly alive: boolean;
}

interface Happening {
  at: number;
  tie: number;
  label: string;
  life: Life | null;
  fn: () => void;
}

export interface Cancel {
  cancel(): void;
}

const START = Date.UTC(2030, 0, 1);

export class World {
  readonly rng: Rng;
  now = START;
  events = 0;
  /** The last lines, or all lines on request. */
  readonly lines: string[] = [];
  readonly #keep: boolean;
  readonly #pending: Happening[] = [];
  #hash = 0x811c9dc5;
  #hash2 = 0x9747b28c;

  constructor(seed: number, keepTrace: boolean) {
    this.rng = new Rng(seed);
    this.#keep = keepTrace;
  }

  get elapsed(): number {
    return this.now - START;
  }

  /** Two histories are the same when their hashes are. */
  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, "0") + (this.#hash2 >>> 0).toString(16).padStart(8, "0");
  }

  say(text: string): void {
    const line = `${(this.elapsed / 1000).toFixed(3)} ${text}`;
    for (let i = 0; i < line.length; i++) {
      this.#hash = Math.imul(this.#hash ^ line.charCodeAt(i), 0x01000193);
      this.#hash2 = Math.imul(this.#hash2 ^ line.charCodeAt(i), 0x5bd1e995) ^ (this.#hash2 >>> 13);
    }
    if (this.#keep) this.lines.push(line);
  }

  schedule(delayMs: number, label: string, life: Life | null, fn: () => void): Cancel {
    const happening: Happening = {
      at: this.now + Math.max(0, Math.round(delayMs)),
      tie: this.rng.next(),
      label,
      life,
      fn,
    };
    this.#pending.push(happening);
    return {
      cancel: () => {
        const i = this.#pending.indexOf(happening);
        if (i >= 0) this.#pending.splice(i, 1);
      },
    };
  }

  /** Runs until `over` returns true, no event is left, or `eventsMax` is reached (then false). */
  async run(over: () => boolean, eventsMax: number): Promise<boolean> {
    while (!over()) {
      const next = this.#take();
      if (!next) return true;
      if (next.life?.alive === false) continue;
      if (++this.events > eventsMax) return false;
      this.now = Math.max(this.now, next.at);
      next.fn();
      await new Promise((resolve) => setImmediate(resolve));
    }
    return true;
  }

  #take(): Happening | undefined {
    let best = 0;
    for (let i = 1; i < this.#pending.length; i++) {
      const a = this.#pending[i];
      const b = this.#pending[best];
      if (a && b && (a.at < b.at || (a.at === b.at && a.tie < b.tie))) best = i;
    }
    const taken = this.#pending[best];
    const last = this.#pending.pop();
    if (taken && last && taken !== last) this.#pending[best] = last;
    return taken;
  }
}
