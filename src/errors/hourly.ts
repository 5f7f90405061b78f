/**
 * A price as people read it: `$0.40/h`. Cents, and finer only where cents would say nothing, or the same as the price it stands beside.
 * @param usd per hour
 */
export function hourly(usd: number, beside = Number.NaN): string {
  for (let digits = 2; ; digits++) {
    const text = usd.toFixed(digits);
    const same = usd !== beside && text === beside.toFixed(digits);
    if (digits === 6 || usd === 0 || (Number(text) > 0 && !same)) return `$${text}/h`;
  }
}
