// Reads the durations and moments that people type: `10m`, `14:03`, `2026-11-26T14:03:00Z`. Commands with --since,
// --until, --around or --timeout use it.

import { usage } from "./argv.ts";

export const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};

/** Milliseconds of `90s`, `10m`, `1h30m`, `2d`, `1w`; null for other text. */
export function spanMs(text: string): number | null {
  if (!/^(?:[0-9]{1,9}[smhdw]){1,5}$/.test(text)) return null;
  let ms = 0;
  for (const [, count, unit = ""] of text.matchAll(/([0-9]+)([smhdw])/g)) ms += Number(count) * (UNIT_MS[unit] ?? 0);
  return ms;
}

/** A duration flag. Throws `usage`. */
export function spanOf(flag: string, text: string): number {
  const ms = spanMs(text);
  if (ms === null)
    throw usage(`${flag} must be a duration, not \`${text}\`.`, `Write a number and s, m, h, d or w: ${flag} 30m.`);
  return ms;
}

const CLOCK = /^([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(\.[0-9]{1,3})?)?$/;
const DATE =
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?$/;

/**
 * The moment that the text names, in milliseconds since the epoch: a duration means that long ago, a time of day its
 * last occurrence on this computer's clock, and a date without an offset is local. Null for other text.
 */
export function momentMs(text: string, now: number = Date.now()): number | null {
  const ago = spanMs(text);
  if (ago !== null) return now - ago;
  const clock = CLOCK.exec(text);
  if (clock) {
    const [, hours = "0", minutes = "0", seconds = "0", fraction = "0"] = clock;
    const day = new Date(now);
    day.setHours(Number(hours), Number(minutes), Number(seconds), Math.round(Number(fraction) * 1_000));
    if (day.getTime() > now) day.setDate(day.getDate() - 1);
    return day.getTime();
  }
  if (!DATE.test(text)) return null;
  // `new Date("2026-11-26")` would be midnight in UTC.
  const ms = Date.parse(text.length === 10 ? `${text}T00:00` : text.replace(" ", "T"));
  return Number.isNaN(ms) ? null : ms;
}

/** A flag that names a moment. Throws `usage`. */
export function momentOf(flag: string, text: string): number {
  const ms = momentMs(text);
  if (ms === null)
    throw usage(
      `${flag} must be a time, not \`${text}\`.`,
      `Write how long ago it was, a time of day or a date: ${flag} 10m, ${flag} 14:03, ${flag} 2026-11-26T14:03:00Z.`,
    );
  return ms;
}
