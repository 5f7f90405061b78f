// Labels the marks of an axis. Close marks near a large value need more digits than usual: no two labels may be equal.

import { duration, isBytes, isMib, perSecond } from "../../format.ts";

type Mark = number | null;

/** Maximum of extra digits to make the labels differ. */
const MORE_MAX = 6;

function apart(marks: readonly Mark[], say: (value: number, more: number) => string): string[] {
  let said: string[] = [];
  for (let more = 0; more <= MORE_MAX; more++) {
    said = marks.map((value) => (value === null ? "" : say(value, more)));
    const shown = said.filter((words) => words !== "");
    if (new Set(shown).size === shown.length) break;
  }
  return said;
}

/** Times since the run began, in seconds. */
export const timeMarks = (marks: readonly Mark[]): string[] => apart(marks, span);

/** Steps are whole numbers. */
export const stepMarks = (marks: readonly Mark[]): string[] =>
  apart(marks, (value, more) => (Number.isInteger(value) ? short(value, more) : ""));

/** Values of a metric, in the unit that its name implies. */
export function valueMarks(name: string, marks: readonly Mark[]): string[] {
  const unit = perSecond(name);
  if (isBytes(name)) return apart(marks, (value, more) => (value === 0 ? "0" : inBytes(value, more) + unit));
  return apart(marks, isMib(name) ? (value, more) => (value === 0 ? "0" : `${short(value, more)} MiB`) : short);
}

function span(seconds: number, more: number): string {
  if (seconds === 0) return "0";
  if (seconds < 1) return duration(seconds * 1000);
  if (seconds < 60) return `${Number(seconds.toPrecision(3 + more))} s`;
  if (more === 0) return duration(seconds * 1000).replace(/ 0+ (s|min)$/, "");
  const whole = Number(seconds.toFixed(more - 1));
  const [h, m] = [Math.floor(whole / 3_600), Math.floor(whole / 60) % 60];
  return `${h > 0 ? `${h} h ` : ""}${m} min ${(whole % 60).toFixed(more - 1)} s`;
}

const UNITS = ["kB", "MB", "GB", "TB"];

function inBytes(value: number, more: number): string {
  const power = Math.min(UNITS.length, Math.floor(Math.log10(Math.max(1, value)) / 3));
  if (power === 0) return `${short(value, more)} B`;
  return `${Number((value / 1_000 ** power).toPrecision(4 + more))} ${UNITS[power - 1]}`;
}

function short(value: number, more: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return Number(value.toPrecision(2 + more)).toExponential();
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3 + more))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3 + more))}k`;
  if (size > 0 && size < 1e-3) return Number(value.toPrecision(2 + more)).toExponential();
  return String(Number(value.toPrecision(6 + more)));
}
