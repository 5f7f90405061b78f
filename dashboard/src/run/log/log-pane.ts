// Draws a log outside of React: only the rows in view are in the document, however long the log is. log-scroll.ts keeps
// the scroll position, log-source.ts the loaded lines.
//
// D1. Rows are placed relative to the scroll bar's position, so that a browser that scrolls before this code runs shows
//     no hole.
// D2. A row that stays in view stays the same element: a selection in it survives.
// D3. With wrapping, rows differ in height: the row at the share `f` of the log is drawn at the share `f` of the view, which is
//     the first row at the top and the last at the bottom.
// D4. With wrapping, a log of at most WHOLE_MAX rows is drawn whole. When rows above the first visible one change, that row stays
//     where it is.

import { ansiNodes, parseAnsi } from "./ansi.ts";
import { LogScroll } from "./log-scroll.ts";
import { LogSource, type Ask, type LogRow } from "./log-source.ts";
import { asProblem } from "../../api.ts";
import { timeOfDay } from "../../format.ts";

export const ROW_PX = 19;
const ROWS_AROUND = 12;
const REFRESH_EVERY_MS = 120;
const SETTLE_MS = 250;
/** D4. */
const WHOLE_MAX = 500;

export interface LogLook {
  wrap: boolean;
  times: boolean;
  numbers: boolean;
  /** Text to highlight at every occurrence; empty for none. */
  mark: string;
  /** The line that the address names. */
  picked: number | null;
}

export interface LogState {
  phase: "loading" | "ready" | "failed";
  message: string;
  following: boolean;
  rows: number;
  totalLines: number;
  capped: boolean;
  /** Rows that arrived since the user stopped following. */
  fresh: number;
  tags: readonly string[];
}

interface Drawn {
  index: number;
  row: LogRow | null;
  element: HTMLElement;
}

const SEAM = /^svc: placement \d+ on /;

export class LogPane {
  readonly #view: HTMLElement;
  readonly #tell: (state: LogState) => void;
  readonly #space = document.createElement("div");
  readonly #rows = document.createElement("div");
  readonly #scroll = new LogScroll(ROW_PX);
  readonly #source: LogSource;
  readonly #resized: ResizeObserver;
  #look: LogLook = { wrap: false, times: false, numbers: true, mark: "", picked: null };
  #drawn: Drawn[] = [];
  #following = true;
  #leftAt = 0;
  /** The row to go to once the number of rows is known. */
  #goal: number | null = null;
  #failure = "";
  #frame = 0;
  #settle: ReturnType<typeof setTimeout> | undefined;
  #refreshing = false;
  #again = false;
  #gone = false;
  /** The scroll position that this code set: its scroll event does not come from the user. */
  #put = -1;
  /** D4. The last position of the bar, and the row that stays `px` below the upper edge. */
  #whole = false;
  #bar = 0;
  #stays = { row: 0, px: 0 };
  /** The view was moved to that row, and the user has not scrolled since. */
  #aimed = false;

  constructor(view: HTMLElement, ask: Ask, tell: (state: LogState) => void) {
    this.#view = view;
    this.#tell = tell;
    this.#source = new LogSource(ask, (error) => {
      this.#failure = error === null ? "" : asProblem(error).detail;
      this.draw();
    });
    this.#space.className = "log-space";
    this.#rows.className = "log-rows";
    this.#space.append(this.#rows);
    view.replaceChildren(this.#space);
    view.addEventListener("scroll", this.#scrolled, { passive: true });
    this.#resized = new ResizeObserver(() => this.draw());
    this.#resized.observe(view);
    void this.refresh();
  }

  close(): void {
    this.#gone = true;
    this.#source.close();
    this.#resized.disconnect();
    clearTimeout(this.#settle);
    cancelAnimationFrame(this.#frame);
    this.#view.removeEventListener("scroll", this.#scrolled);
    this.#view.replaceChildren();
    highlight([]);
  }

  /** Call it when there may be more to read. Calls during a refresh lead to one more. */
  async refresh(): Promise<void> {
    this.#again = true;
    if (this.#refreshing) return;
    this.#refreshing = true;
    try {
      while (this.#again && !this.#gone) {
        this.#again = false;
        await this.#source.refresh(this.#following || this.#source.rows === null);
        await new Promise((resolve) => setTimeout(resolve, REFRESH_EVERY_MS));
      }
    } catch (error) {
      if (this.#gone) return;
      this.#failure = asProblem(error).detail;
      this.draw();
    } finally {
      this.#refreshing = false;
    }
  }

  /** Changes the appearance; the position stays. */
  look(look: LogLook): void {
    const { wrap, times, numbers } = this.#look;
    if (wrap !== look.wrap && !this.#aimed) this.#keep();
    this.#look = look;
    this.#view.classList.toggle("log-wrap", look.wrap);
    // Rows contain their number and time: they are redrawn only when those settings change.
    if (wrap !== look.wrap || times !== look.times || numbers !== look.numbers) this.#clear();
    this.draw();
  }

  follow(): void {
    this.#following = true;
    this.#goal = null;
    this.draw();
    void this.refresh();
  }

  /** Brings a row (counted from 0) into view, a third from the top. */
  goTo(row: number): void {
    if (this.#gone) return;
    const { rows } = this.#source;
    this.#goal = rows === null ? row : null;
    if (rows === null) return;
    this.#following = false;
    this.#leftAt = rows;
    this.#resize();
    this.#stays = { row, px: this.#view.clientHeight / 3 };
    this.#aimed = true;
    this.#putBar(this.#scroll.goTo(row - this.#view.clientHeight / ROW_PX / 3));
    this.draw();
  }

  /** The row at the upper edge. */
  get top(): number {
    if (!this.#whole) return Math.floor(this.#scroll.top);
    const { scrollTop } = this.#view;
    const at = this.#drawn.find(({ element }) => element.offsetTop + element.offsetHeight > scrollTop);
    return at?.index ?? 0;
  }
  get rows(): number | null {
    return this.#source.rows;
  }
  rowAt(index: number): LogRow | null {
    return this.#source.row(index);
  }

  readonly #scrolled = () => {
    const bar = this.#view.scrollTop;
    if (Math.abs(bar - this.#put) < 2) return;
    this.#put = -1;
    this.#aimed = false;
    if (this.#whole) {
      this.#scrolledWhole(bar);
      return;
    }
    // A growing view moves its scroll bar by itself: judged by the old height, that would look like a user scrolling
    // up.
    this.#scroll.resize(this.#scroll.rows, this.#view.clientHeight);
    const before = this.#scroll.top;
    this.#scroll.moved(bar);
    if (this.#scroll.atEnd) this.#following = true;
    else if (this.#scroll.top < before - 0.05 && this.#following) {
      this.#following = false;
      this.#leftAt = this.#source.rows ?? 0;
    }
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => {
      const better = this.#scroll.settled();
      if (better !== null) this.#putBar(better);
      this.draw();
    }, SETTLE_MS);
    this.#paintNow();
  };

  /** D4. */
  #scrolledWhole(bar: number): void {
    const up = bar < this.#bar - 1;
    this.#bar = bar;
    if (bar >= this.#view.scrollHeight - this.#view.clientHeight - ROW_PX / 2) this.#following = true;
    else if (up && this.#following) {
      this.#following = false;
      this.#leftAt = this.#source.rows ?? 0;
    }
    this.#keep();
    this.#report();
  }

  /** The row at the upper edge stays in place. */
  #keep(): void {
    const row = this.top;
    const at = this.#whole ? this.#drawn[row]?.element.offsetTop : undefined;
    this.#stays = { row, px: at === undefined ? 0 : at - this.#view.scrollTop };
  }

  #putBar(bar: number): void {
    if (Math.abs(this.#view.scrollTop - bar) < 0.5) return;
    this.#view.scrollTop = bar;
    this.#put = this.#view.scrollTop;
  }

  draw(): void {
    if (this.#frame !== 0 || this.#gone) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paintNow(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#paint();
  }

  #resize(): void {
    const { clientHeight } = this.#view;
    this.#scroll.resize(this.#source.rows ?? 0, clientHeight);
    if (!this.#whole) this.#space.style.height = `${this.#scroll.spacePx}px`;
    const prefix = (this.#look.numbers ? 9 : 0) + (this.#look.times ? 11 : 0);
    this.#space.style.minWidth = this.#look.wrap ? "" : `${Math.min(this.#source.longest, 4_020) + prefix + 2}ch`;
  }

  #paint(): void {
    if (this.#gone) return;
    if (this.#goal !== null) this.goTo(this.#goal);
    this.#resize();
    const whole = this.#look.wrap && this.#scroll.rows <= WHOLE_MAX;
    const left = this.#whole && !whole;
    this.#whole = whole;
    if (whole) {
      this.#paintWhole();
      return;
    }
    if (left && !this.#following)
      this.#putBar(this.#scroll.goTo(this.#stays.row - Math.max(0, this.#stays.px) / ROW_PX));
    if (this.#following) this.#putBar(this.#scroll.goTo(this.#scroll.topMax));
    const { top, rows } = this.#scroll;
    const seen = Math.ceil(this.#scroll.viewPx / ROW_PX);
    const first = Math.max(0, Math.floor(top) - ROWS_AROUND);
    const last = Math.min(rows, Math.floor(top) + seen + ROWS_AROUND);
    this.#source.want(first - 2 * seen, last + 2 * seen);
    // Read before rows are inserted, so that the browser lays them out once.
    const bar = this.#view.scrollTop;
    this.#show(first, last);
    this.#place(first, bar);
    this.#mark();
    this.#report();
  }

  /** D4. */
  #paintWhole(): void {
    const { rows, viewPx } = this.#scroll;
    this.#source.want(0, rows);
    this.#show(0, rows);
    this.#rows.style.transform = "";
    const height = this.#rows.offsetHeight;
    this.#space.style.height = `${height}px`;
    const { row, px } = this.#stays;
    this.#putBar(this.#following ? height - viewPx : (this.#drawn[row]?.element.offsetTop ?? 0) - px);
    this.#bar = this.#view.scrollTop;
    this.#mark();
    this.#report();
  }

  #mark(): void {
    if (this.#look.mark) highlight(rangesOf(this.#drawn, this.#look.mark));
    else highlight([]);
  }

  /** D1, D3. */
  #place(first: number, bar: number): void {
    const { top, topMax, viewPx, rowPx, rows } = this.#scroll;
    if (!this.#look.wrap) {
      this.#rows.style.transform = `translateY(${bar + (first - top) * rowPx}px)`;
      return;
    }
    const share = topMax === 0 ? 0 : top / topMax;
    const focus = Math.min(rows - 0.001, top + share * (viewPx / rowPx));
    const at = this.#drawn.find((each) => each.index === Math.floor(focus))?.element;
    const y = at ? at.offsetTop + (focus % 1) * at.offsetHeight : 0;
    this.#rows.style.transform = `translateY(${bar + share * viewPx - y}px)`;
  }

  /** D2. */
  #show(first: number, last: number): void {
    const stays = this.#drawn.filter(({ index, row, element }) => {
      const good = index >= first && index < last && row === this.#source.row(index);
      if (!good) element.remove();
      return good;
    });
    const known = new Map(stays.map((each) => [each.index, each]));
    this.#drawn = [];
    let next: ChildNode | null = this.#rows.firstChild;
    for (let index = first; index < last; index++) {
      const drawn = known.get(index) ?? this.#make(index);
      if (drawn.element === next) next = next.nextSibling;
      else this.#rows.insertBefore(drawn.element, next);
      const picked = drawn.row !== null && drawn.row.line === this.#look.picked;
      if (drawn.element.classList.contains("log-picked") !== picked)
        drawn.element.classList.toggle("log-picked", picked);
      this.#drawn.push(drawn);
    }
  }

  #make(index: number): Drawn {
    const row = this.#source.row(index);
    const element = document.createElement("div");
    element.className = row === null ? "log-row log-row-missing" : "log-row";
    // The line that svc writes between the output of two placements.
    if (row !== null && SEAM.test(row.text)) element.classList.add("log-row-seam");
    if (this.#look.numbers) {
      const number = document.createElement("a");
      number.className = "log-number";
      number.textContent = row === null ? "" : String(row.line);
      if (row !== null) {
        number.dataset["line"] = String(row.line);
        number.href = "#";
        number.tabIndex = -1;
      }
      element.append(number);
    }
    if (row !== null) {
      if (this.#look.times) {
        const time = document.createElement("span");
        time.className = "log-time";
        time.textContent = row.at_ms > 0 ? timeOfDay(row.at_ms) : "";
        element.append(time);
      }
      const text = document.createElement("span");
      text.className = "log-text";
      text.append(...ansiNodes(parseAnsi(row.text, row.style).pieces));
      if (row.cut > 0) {
        const more = document.createElement("span");
        more.className = "log-cut";
        more.textContent = ` … ${row.cut.toLocaleString("en-US")} more characters`;
        text.append(more);
      }
      element.append(text);
    }
    return { index, row, element };
  }

  #clear(): void {
    for (const { element } of this.#drawn) element.remove();
    this.#drawn = [];
  }

  #report(): void {
    const rows = this.#source.rows;
    this.#tell({
      phase: this.#failure ? "failed" : rows === null ? "loading" : "ready",
      message: this.#failure,
      following: this.#following,
      rows: rows ?? 0,
      totalLines: this.#source.totalLines,
      capped: this.#source.capped,
      fresh: this.#following ? 0 : Math.max(0, (rows ?? 0) - this.#leftAt),
      tags: this.#source.tags,
    });
  }
}

/** The occurrences of the text in the drawn rows, also across colours. */
function rangesOf(drawn: readonly Drawn[], mark: string): Range[] {
  const any = mark === mark.toLowerCase();
  const ranges: Range[] = [];
  for (const { element } of drawn) {
    const text = element.querySelector(".log-text");
    if (!text) continue;
    const whole = text.textContent ?? "";
    const searched = any ? whole.toLowerCase() : whole;
    // If lower case has another length, positions would be wrong: then highlight none.
    if (searched.length !== whole.length || !searched.includes(mark)) continue;
    const nodes = textNodes(text);
    for (let at = searched.indexOf(mark); at >= 0; at = searched.indexOf(mark, at + mark.length)) {
      const range = rangeOver(nodes, at, at + mark.length);
      if (range) ranges.push(range);
    }
  }
  return ranges;
}

interface Placed {
  node: Text;
  from: number;
}

function textNodes(root: Element): Placed[] {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes: Placed[] = [];
  let from = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    nodes.push({ node: node as Text, from });
    from += (node as Text).length;
  }
  return nodes;
}

function rangeOver(nodes: readonly Placed[], from: number, to: number): Range | null {
  const start = nodes.findLast((each) => each.from <= from);
  const end = nodes.findLast((each) => each.from < to);
  if (!start || !end) return null;
  const range = document.createRange();
  range.setStart(start.node, from - start.from);
  range.setEnd(end.node, to - end.from);
  return range;
}

/** The browser highlights without extra nodes; if it cannot, the count and the marked line still show the matches. */
function highlight(ranges: Range[]): void {
  if (typeof CSS === "undefined" || !("highlights" in CSS)) return;
  if (ranges.length === 0) CSS.highlights.delete("log-find");
  else CSS.highlights.set("log-find", new Highlight(...ranges));
}
