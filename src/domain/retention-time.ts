// Decides how much of the time that a clock shows may count as the age of a run. A wrong clock must not remove runs that are not old, and a
// removal cannot be undone (ADR 0037).
//
// A gap is time that the clock shows and that no control plane has counted: the computer was off or asleep, or somebody set the clock. Both
// look the same, so a gap counts only once svc has run for a day after it and the clock has not gone back. A gap of more than a year counts
// only once the rule is saved again.

export interface Gap {
  from: number;
  to: number;
  /** The part of it that nobody counted. */
  ms: number;
  /** For how long svc has run since. */
  ran_ms: number;
}

export interface SeenTime {
  /** The newest time at which svc has looked. */
  seen_at: number;
  gaps: readonly Gap[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Nights and restarts are shorter. */
const GAP_MS_MIN = DAY_MS;
const TRUSTED_AFTER_MS = DAY_MS;
const GAP_MS_MAX = 366 * DAY_MS;
/** Smaller steps back come from a time server. */
const BACK_MS_MIN = 60_000;

/**
 * What is known after a further look.
 * @param ranMs for how long this process has run since its look before; 0 for its first
 */
export function seenNow(before: SeenTime, now: number, ranMs: number): SeenTime & { isBehind: boolean } {
  const refuted = before.gaps.find(({ to }) => now < to - BACK_MS_MIN);
  // The clock was ahead, and is right again: that gap never was.
  if (refuted !== undefined)
    return seenNow({ seen_at: refuted.from, gaps: before.gaps.filter(({ to }) => to < refuted.to) }, now, 0);
  if (now < before.seen_at - BACK_MS_MIN) return { ...before, isBehind: true };
  const gaps = before.gaps.map((gap) => ({ ...gap, ran_ms: gap.ran_ms + ranMs })).filter((gap) => !isTrusted(gap));
  const ms = now - before.seen_at - ranMs;
  if (ms > GAP_MS_MIN) gaps.push({ from: before.seen_at, to: now, ms, ran_ms: 0 });
  return { seen_at: Math.max(before.seen_at, now), gaps, isBehind: false };
}

const isTrusted = ({ ms, ran_ms }: Gap): boolean => ran_ms >= TRUSTED_AFTER_MS && ms <= GAP_MS_MAX;

const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
const days = (ms: number): string => {
  const n = Math.round(ms / DAY_MS);
  return n === 1 ? "1 day" : `${n.toLocaleString("en-US")} days`;
};

/** Why the rule removes less than the dates say, or nothing; null if it does what they say. */
export function doubtWords({ seen_at, gaps }: SeenTime, now: number): string | null {
  const last = gaps.at(-1);
  if (now < seen_at - BACK_MS_MIN && last === undefined)
    return `The computer's clock shows ${day(now)}, and svc has already seen ${day(seen_at)}. The rule removes nothing until the clock is past that day again. If it is right now, save the rule again.`;
  if (last === undefined) return null;
  const ms = gaps.reduce((sum, gap) => sum + gap.ms, 0);
  const until = gaps.some((gap) => gap.ms > GAP_MS_MAX)
    ? "once you save the rule again"
    : `after svc has run for ${Math.max(1, Math.ceil((TRUSTED_AFTER_MS - last.ran_ms) / HOUR_MS))} more hours, or once you save the rule again`;
  return `svc did not run for ${days(ms)} until ${day(last.to)}, or the computer's clock was set. This time counts as age ${until}.`;
}
