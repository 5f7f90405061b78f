// Job ids: twelve characters of a–z and 0–9, so safe in a host name, a file name and a URL. The first eight are the
// milliseconds since the epoch in base 36, so ids sort by creation (until the year 2059); four random ones follow.

import { customAlphabet } from "nanoid";

const TIME_CHARS = 8;
const RANDOM_CHARS = 4;

const randomChars = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", RANDOM_CHARS);

export class JobIds {
  readonly #now: () => number;
  readonly #random: () => string;
  #last = 0;

  /** `random` returns four characters of a–z and 0–9. */
  constructor(now: () => number = Date.now, random: () => string = randomChars) {
    this.#now = now;
    this.#random = random;
  }

  /**
   * Strictly greater than every id this object returned before, also within a millisecond and when the clock is set
   * back.
   */
  next(): string {
    this.#last = Math.max(Math.floor(this.#now()), this.#last + 1);
    return this.#last.toString(36).padStart(TIME_CHARS, "0") + this.#random();
  }
}
