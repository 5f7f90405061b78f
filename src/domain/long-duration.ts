/** A time of seconds exactly, and a longer one as `longDuration`: `0.63 s`, `7.2 s`, `45 s`, `3 min 20 s`. */
export function shortDuration(ms: number): string {
  const s = Math.max(0, ms) / 1_000;
  if (s < 59.95) return `${s < 9.995 ? s.toFixed(s < 1 ? 2 : 1) : Math.round(s)} s`;
  return longDuration(Math.round(s));
}

/**
 * `20 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`.
 * @param s whole seconds
 */
export function longDuration(s: number): string {
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${String(Math.floor((s % 3_600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}
