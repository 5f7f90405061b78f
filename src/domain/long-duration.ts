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
