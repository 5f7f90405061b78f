/**
 * An amount for people: `$0.40`. Cents, and more digits below one cent, or if cents would show the same amount as
 * `beside`.
 */
export function dollars(usd: number, beside = Number.NaN): string {
  for (let digits = usd > 0 && usd < 0.01 ? 3 : 2; ; digits++) {
    const text = usd.toFixed(digits);
    const same = usd !== beside && text === beside.toFixed(digits);
    if (digits === 6 || usd === 0 || (Number(text) > 0 && !same)) return `$${text}`;
  }
}

/** A price per hour: `$0.40/h`. */
export const hourly = (usd: number, beside?: number): string => `${dollars(usd, beside)}/h`;
