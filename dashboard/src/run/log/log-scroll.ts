// Where in a log one is. A browser draws boxes of some ten million pixels and no more, a log of a million lines is higher.
//
// P1. The place is a line, with a fraction: `top`. The scroll bar stands for it.
// P2. As long as all lines fit into SPACE_MAX_PX, a pixel of the bar is a pixel of the log.
// P3. Beyond, a small movement (wheel, keys) moves the log by as many pixels, a large one (the bar was dragged) goes to that share of
//     it. After small ones the bar is put back to where it belongs, which `settled` tells.
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

  /** Height of what the scroll bar stands for. */
  get spacePx(): number {
    return Math.min(this.rows * this.rowPx, SPACE_MAX_PX);
  }
  /** The row at the upper edge when one is at the end. */
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

  /** Where the bar belongs. */
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

  /** Goes to a row; returns where to put the bar. */
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

  /** Nothing has moved for a while: where to put the bar, or null where it stands well. */
  settled(): number | null {
    if (this.#exact || Math.abs(this.bar - this.#bar) < 1) return null;
    this.#bar = this.bar;
    return this.#bar;
  }
}
