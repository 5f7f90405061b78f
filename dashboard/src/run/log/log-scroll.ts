// Keeps the position in a log. A browser draws boxes of at most some ten million pixels, but a log of a million lines
// is higher.
//
// P1. The position is a line with a fraction: `top`. The scroll bar represents it.
// P2. While all lines fit into SPACE_MAX_PX, a pixel of the bar is a pixel of the log.
// P3. Beyond, a small movement (wheel, keys) moves the log by as many pixels, a large one (the bar was dragged) goes to
//     that share of it. After small ones the bar is moved back to its proper position, which `settled` returns.
// P4. The ends of the bar are the ends of the log.

export const SPACE_MAX_PX = 12_000_000;

export class LogScroll {
  readonly rowPx: number;
  /** Rows, and pixels of the view. */
  rows = 0;
  viewPx = 0;
  /** The row at the upper edge. */
  top = 0;
  #bar = 0;

  constructor(rowPx: number) {
    this.rowPx = rowPx;
  }

  /** Height of the area that the scroll bar represents. */
  get spacePx(): number {
    return Math.min(this.rows * this.rowPx, SPACE_MAX_PX);
  }
  /** The row at the upper edge when the view is at the end. */
  get topMax(): number {
    return Math.max(0, this.rows - this.viewPx / this.rowPx);
  }
  get #barMax(): number {
    return Math.max(0, this.spacePx - this.viewPx);
  }
  get #exact(): boolean {
    return this.rows * this.rowPx <= SPACE_MAX_PX;
  }
  get atEnd(): boolean {
    return this.top >= this.topMax - 0.5;
  }

  /** The proper position of the bar. */
  get bar(): number {
    if (this.#exact) return Math.min(this.top * this.rowPx, this.#barMax);
    return this.topMax === 0 ? 0 : (this.top / this.topMax) * this.#barMax;
  }

  /** The view or the log has another size. */
  resize(rows: number, viewPx: number): void {
    this.rows = rows;
    this.viewPx = viewPx;
    this.top = Math.max(0, Math.min(this.top, this.topMax));
  }

  /** Goes to a row; returns the new position of the bar. */
  goTo(top: number): number {
    this.top = Math.max(0, Math.min(top, this.topMax));
    this.#bar = this.bar;
    return this.#bar;
  }

  /** The bar has been moved to `bar`. */
  moved(bar: number): void {
    const by = bar - this.#bar;
    this.#bar = bar;
    if (this.#exact) this.top = bar / this.rowPx;
    else if (bar <= 0) this.top = 0;
    else if (bar >= this.#barMax - 1) this.top = this.topMax;
    else if (Math.abs(by) <= 3 * this.viewPx) this.top += by / this.rowPx;
    else this.top = (bar / this.#barMax) * this.topMax;
    this.top = Math.max(0, Math.min(this.top, this.topMax));
  }

  /** Call it when nothing has moved for a while: returns the new position of the bar, or null if it is right. */
  settled(): number | null {
    if (this.#exact || Math.abs(this.bar - this.#bar) < 1) return null;
    this.#bar = this.bar;
    return this.#bar;
  }
}
