// Deliberate defects in the dashboard: its connection, and what it draws of logs and metrics. Each is named by the head that states its
// invariant, and has the tests that must notice it. The defects of what only a browser lays out have tests in a browser.

import { single, type TestedMutant } from "./mutants.ts";

const LOG_LINES = "test/dashboard/log-lines.test.ts > ";
const RUN_LOG = "test/dashboard/run-log.test.ts > ";
const METRICS = "test/dashboard/metrics.test.ts > ";
const early = single("early", "dashboard/src/early.ts", ["test/dashboard/feed.test.ts > An early answer"]);
const feed = single("feed", "dashboard/src/feed.ts", ["test/dashboard/feed.test.ts"]);
const pane = single("log pane", "dashboard/src/run/log/log-pane.ts", []);
const scroll = single("log scroll", "dashboard/src/run/log/log-scroll.ts", []);
const source = single("log source", "dashboard/src/run/log/log-source.ts", []);
const curves = single("curves", "dashboard/src/run/metrics/curves.ts", []);

export const DASHBOARD_MUTANTS: readonly TestedMutant[] = [
  early("E1: an early answer is used again", "left = others;", "void others;"),
  early("E1: early answers are used after the connection has opened", "void (left = {});", "void left;"),
  feed("F1: a lost connection is not resumed", 'if (resumed) address.searchParams.set("since", String(since));', ""),
  feed("F1: an event that was heard is heard again", "if (since !== null && event.seq <= since) return;", ""),
  feed(
    "F2: the first connection asks for the whole history",
    "let since: number | null = null;",
    "let since: number | null = 0;",
  ),
  feed(
    "F3: a socket that died in a sleep stays",
    "(gap > SLEPT_MS && !document.hidden)",
    "(gap < 0 && !document.hidden)",
  ),
  feed("F4: a connection that does not open is waited for", "if (stuck || (gap", "if ((stuck && gap < 0) || (gap"),
  pane(
    "D1: rows are placed from the beginning of the log, and not at the scroll bar",
    "translateY(${bar + (first - top) * rowPx}px)",
    "translateY(${first * rowPx * Math.sign(bar + top + 1)}px)",
    [`${RUN_LOG}scrolls to any of a million lines`],
  ),
  pane(
    "D2: each row is drawn again",
    "const good = index >= first && index < last && row === this.#source.row(index);",
    "const good = index >= last && row === this.#source.row(first);",
    [`${RUN_LOG}stops following when the user scrolls up`],
  ),
  pane(
    "D3: with wrapping, the row at the top of the log is drawn at the top of the view wherever it is",
    "const share = topMax === 0 ? 0 : top / topMax;",
    "const share = 0 * topMax;",
    [`${RUN_LOG}begins with the first row at the top`],
  ),
  pane(
    "D4: with wrapping, the first visible row moves when those above it change",
    "this.#putBar(this.#following ? height - viewPx : (this.#drawn[row]?.element.offsetTop ?? 0) - px);",
    "if (this.#following) this.#putBar(height - viewPx + 0 * row * px);",
    [`${RUN_LOG}can be read to its end line by line`],
  ),
  scroll(
    "P1: the position is a whole line",
    "this.top = bar / this.rowPx;",
    "this.top = Math.floor(bar / this.rowPx);",
    [`${LOG_LINES}equals the scroll bar's`],
  ),
  scroll(
    "P2: the area is lower than a log that fits",
    "return Math.min(this.rows * this.rowPx, SPACE_MAX_PX);",
    "return Math.min((this.rows * this.rowPx) / 2, SPACE_MAX_PX);",
    [`${LOG_LINES}equals the scroll bar's`],
  ),
  scroll(
    "P3: a small movement goes to the share that it points to",
    "else if (Math.abs(by) <= 3 * this.viewPx) this.top += by / this.rowPx;",
    "else if (Math.abs(by) < 0) this.top += by / this.rowPx;",
    [`${LOG_LINES}reaches each line of a log`],
  ),
  scroll(
    "P3: the bar is not moved back after small movements",
    "if (this.#exact || Math.abs(this.bar - this.#bar) < 1) return null;",
    "if (this.#exact || this.#bar >= 0) return null;",
    [`${LOG_LINES}reaches each line of a log`],
  ),
  scroll(
    "P4: the end of the bar is not the end of the log",
    "else if (bar >= this.#barMax - 1) this.top = this.topMax;",
    "",
    [`${LOG_LINES}is an end of the log`],
  ),
  source("R1: a row is asked for as the line before it", "{ from: Number(from) + 1 }", "{ from: Number(from) }", [
    `${LOG_LINES}are counted from 0`,
  ]),
  source(
    "R2: the last row of an open log is not read again",
    "if (this.rows !== null && rows > this.rows) this.#forget(",
    "if (this.rows !== null && rows < this.rows) this.#forget(",
    [`${LOG_LINES}follow a growing log`],
  ),
  source(
    "R3: a page is asked for twice at the same time",
    "if (this.#asked.has(page) || this.#resting.has(page) || this.#gone.signal.aborted) return;",
    "if (this.#gone.signal.aborted) return;",
    [`${LOG_LINES}are loaded by pages on demand`],
  ),
  source(
    "R3: a page that has left the view is still asked for",
    "if (page < first || page > last) asked.abort();",
    "if (page < first && page > last) asked.abort();",
    [`${LOG_LINES}are no longer asked for`],
  ),
  curves(
    "M1: a line goes back where its run resumed",
    "const into = step < until ? line : old;",
    "const into = step < Infinity ? line : old;",
    [`${METRICS}continue over a rank's attempts`],
  ),
  curves(
    "M1: several processes of one rank count as attempts",
    "return found.length > ATTEMPTS_MAX ?",
    "return found.length > 99 * ATTEMPTS_MAX ?",
    [`${METRICS}treat steps that fall back`],
  ),
  curves(
    "M2: the first value weighs more than the others",
    "return mean / (1 - left);",
    "return mean / (1 - 0 * left);",
    [`${METRICS}is the mean weighted by`],
  ),
  curves("M2: a value that is not finite ends the smoothing", "if (!Number.isFinite(value)) return value;", "", [
    `${METRICS}skips values that are not finite`,
  ]),
  curves(
    "M3: the least of a pixel's points is not drawn",
    "if (low < 0 || value < (y[low] ?? 0)) low = i;",
    "if (low < 0) low = i;",
    [`${METRICS}keeps every spike`],
  ),
];
