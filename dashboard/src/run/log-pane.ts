// Draws a log outside of React: only the rows in view are in the document, however long the log is.

import { api, asProblem } from "../api.ts";
import { ansiNodes, parseAnsi } from "./ansi.ts";
import { LogLines } from "./log-lines.ts";

export const ROW_PX = 19;
/** Above the first row and below the last, as the style sheet has it. */
const PADDING_PX = 6;
const ROWS_AROUND = 20;
const TAIL_LINES = 2_000;
const PULL_BYTES = 1 << 20;
const EARLIER_BYTES = 1 << 18;
/** After so many full pulls in a row the log grows faster than it is read: go on from its end. */
const FULL_PULLS_MAX = 8;
const PULL_EVERY_MS = 150;

export interface LogState {
  phase: "loading" | "ready" | "failed";
  message: string;
  following: boolean;
  /** Whether there are bytes before the first line shown. */
  earlier: boolean;
  lines: number;
}

export class LogPane {
  readonly #id: string;
  readonly #view: HTMLElement;
  readonly #tell: (state: LogState) => void;
  readonly #space = document.createElement("div");
  readonly #rows = document.createElement("div");
  readonly #gone = new AbortController();
  #log: LogLines | null = null;
  #following = true;
  #lastTop = 0;
  #pulling = false;
  #again = false;
  #loadingEarlier = false;
  #frame = 0;
  #failure = "";
  readonly #resized: ResizeObserver;

  constructor(id: string, view: HTMLElement, tell: (state: LogState) => void) {
    this.#id = id;
    this.#view = view;
    this.#tell = tell;
    this.#space.className = "log-space";
    this.#rows.className = "log-rows";
    this.#space.append(this.#rows);
    view.replaceChildren(this.#space);
    view.addEventListener("scroll", this.#scrolled, { passive: true });
    this.#resized = new ResizeObserver(() => this.#draw());
    this.#resized.observe(view);
    void this.pull();
  }

  close(): void {
    this.#gone.abort();
    this.#resized.disconnect();
    cancelAnimationFrame(this.#frame);
    this.#view.removeEventListener("scroll", this.#scrolled);
    this.#view.replaceChildren();
  }

  /** There may be more to read. Calls while a pull is under way lead to one more pull. */
  async pull(): Promise<void> {
    if (this.#pulling) {
      this.#again = true;
      return;
    }
    this.#pulling = true;
    try {
      let full = 0;
      do {
        this.#again = false;
        const got = await this.#pullOnce();
        full = got >= PULL_BYTES ? full + 1 : 0;
        if (full > FULL_PULLS_MAX && this.#following) {
          this.#log = null;
          full = 0;
        }
        this.#failure = "";
        this.#draw();
        if (full > 0) this.#again = true;
        else await new Promise((resolve) => setTimeout(resolve, PULL_EVERY_MS));
      } while (this.#again && !this.#gone.signal.aborted);
    } catch (error) {
      if (this.#gone.signal.aborted) return;
      this.#failure = asProblem(error).detail;
      this.#report();
    } finally {
      this.#pulling = false;
    }
  }

  async #pullOnce(): Promise<number> {
    const { signal } = this.#gone;
    if (this.#log === null) {
      const tail = await api.logTail(this.#id, TAIL_LINES, signal);
      if (tail !== null) {
        const log = new LogLines(tail.offset);
        log.append(tail.bytes);
        this.#log = log;
        return 0;
      }
      this.#log = new LogLines(0);
    }
    const log = this.#log;
    const part = await api.logFrom(this.#id, log.end, PULL_BYTES, signal);
    if (part.bytes.length > 0) log.append(part.bytes);
    return part.bytes.length;
  }

  /** Reads what lies before the first line and keeps the lines in view where they are. */
  async loadEarlier(): Promise<void> {
    const log = this.#log;
    if (log === null || log.start === 0 || this.#loadingEarlier) return;
    this.#loadingEarlier = true;
    try {
      for (let size = EARLIER_BYTES; ; size *= 4) {
        const offset = Math.max(0, log.start - size);
        const part = await api.logFrom(this.#id, offset, log.start - offset, this.#gone.signal);
        const added = log.prepend(part.bytes, offset);
        if (added > 0 || offset === 0) {
          this.#following = false;
          this.#resize();
          this.#view.scrollTop += added * ROW_PX;
          this.#lastTop = this.#view.scrollTop;
          break;
        }
      }
      this.#paint();
    } catch (error) {
      if (this.#gone.signal.aborted) return;
      this.#failure = asProblem(error).detail;
      this.#report();
    } finally {
      this.#loadingEarlier = false;
    }
  }

  jumpToEnd(): void {
    this.#following = true;
    this.#draw();
  }

  readonly #scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = this.#view;
    if (scrollTop + clientHeight >= scrollHeight - ROW_PX) this.#following = true;
    else if (scrollTop < this.#lastTop - 1) this.#following = false;
    this.#lastTop = scrollTop;
    this.#draw();
  };

  get #count(): number {
    return this.#log === null ? 0 : this.#log.lines.length + (this.#log.open ? 1 : 0);
  }

  #draw(): void {
    if (this.#frame !== 0 || this.#gone.signal.aborted) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#resize();
      if (this.#following) {
        this.#view.scrollTop = this.#view.scrollHeight;
        this.#lastTop = this.#view.scrollTop;
      }
      this.#paint();
    });
  }

  #resize(): void {
    this.#space.style.height = `${this.#count * ROW_PX + 2 * PADDING_PX}px`;
    this.#space.style.minWidth = `${Math.min(this.#log?.longest ?? 0, 4_100) + 2}ch`;
  }

  #paint(): void {
    const log = this.#log;
    if (log !== null) {
      const first = Math.max(0, Math.floor(this.#view.scrollTop / ROW_PX) - ROWS_AROUND);
      const last = Math.min(this.#count, first + Math.ceil(this.#view.clientHeight / ROW_PX) + 2 * ROWS_AROUND);
      const rows: HTMLElement[] = [];
      for (let i = first; i < last; i++) {
        const line = log.lines[i] ?? log.open;
        if (!line) break;
        const row = document.createElement("div");
        row.className = "log-row";
        row.append(...ansiNodes(parseAnsi(line.text, line.style).pieces));
        rows.push(row);
      }
      this.#rows.style.transform = `translateY(${first * ROW_PX}px)`;
      if (!this.#sameRows(rows)) this.#rows.replaceChildren(...rows);
    }
    this.#report();
  }

  /** Rows that have not changed stay, so that a selection made in them lives on. */
  #sameRows(rows: HTMLElement[]): boolean {
    if (rows.length !== this.#rows.childElementCount) return false;
    return rows.every((row, i) => this.#rows.children[i]?.isEqualNode(row));
  }

  #report(): void {
    if (this.#gone.signal.aborted) return;
    this.#tell({
      phase: this.#failure ? "failed" : this.#log === null ? "loading" : "ready",
      message: this.#failure,
      following: this.#following,
      earlier: (this.#log?.start ?? 0) > 0,
      lines: this.#count,
    });
  }
}
