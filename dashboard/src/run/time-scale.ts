// Maps instants to positions on the axis. Lengths are true, with one exception: if a single stretch without any step's
// start or end leaves almost no space for the rest, as in a run that trained for a day and started in a minute, that
// stretch can be shortened so that the rest is visible.

export interface Gap {
  from: number;
  to: number;
  /** Its edges on the axis, from 0 to 1. */
  left: number;
  right: number;
}

export interface TimeScale {
  from: number;
  to: number;
  gaps: Gap[];
  /** The position of an instant, from 0 to 1. */
  at(ms: number): number;
  /** The instant at a position. */
  when(place: number): number;
}

const QUIET_SHARE = 0.95;
const QUIET_MS = 20_000;
/** The longest stretch stays the longest, even when it is shortened. */
const DRAWN_SHARE = 0.5;

/** @param instants the times at which something began or ended */
export function timeScale(
  instants: readonly number[],
  from: number,
  to: number,
  { collapse }: { collapse: boolean },
): TimeScale {
  const length = Math.max(1, to - from);
  const stops = [...new Set([from, ...instants.filter((at) => at > from && at < to), from + length])].sort(
    (a, b) => a - b,
  );
  const parts = stops.slice(1).map((end, i) => {
    const begin = stops[i] ?? from;
    const ms = end - begin;
    const quiet = collapse && ms > QUIET_MS && ms > QUIET_SHARE * length;
    return { begin, end, ms, quiet };
  });
  const busyMs = parts.reduce((sum, part) => sum + (part.quiet ? 0 : part.ms), 0);
  const room = 1 - parts.reduce((sum, part) => sum + (part.quiet ? DRAWN_SHARE : 0), 0);
  let place = 0;
  const placed = parts.map((part) => {
    const left = place;
    // If the stretch is all there is, it takes the whole axis.
    place += busyMs === 0 ? 1 / parts.length : part.quiet ? DRAWN_SHARE : (part.ms / busyMs) * room;
    return { ...part, left, right: place };
  });
  return {
    from,
    to: from + length,
    gaps: placed
      .filter((part) => part.quiet)
      .map(({ begin, end, left, right }) => ({ from: begin, to: end, left, right })),
    at(ms) {
      const part = placed.find((each) => ms < each.end) ?? placed.at(-1);
      if (!part) return 0;
      const share = Math.max(0, Math.min(1, (ms - part.begin) / part.ms));
      return part.left + share * (part.right - part.left);
    },
    when(at) {
      const part = placed.find((each) => at < each.right) ?? placed.at(-1);
      if (!part) return from;
      const share = Math.max(0, Math.min(1, (at - part.left) / Math.max(1e-9, part.right - part.left)));
      return part.begin + share * part.ms;
    },
  };
}
