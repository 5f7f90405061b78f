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

const DIGITS_MAX = 6;

/** How many digits show an amount exactly, to the micro-dollar. */
function digitsOf(usd: number): number {
  for (let digits = 2; ; digits++)
    if (digits === DIGITS_MAX || Number(usd.toFixed(digits)) === Number(usd.toFixed(DIGITS_MAX))) return digits;
}

/** An amount that a user gave, as given: `$2.00`, `$0.0095`. */
export const exactDollars = (usd: number): string => `$${usd.toFixed(digitsOf(usd))}`;

/**
 * Parts of a given amount: with the digits of `whole`, and more while a part would show as nothing or as the whole.
 * They are rounded so that they add up as the exact ones do.
 */
export function dollarParts(whole: number, parts: readonly number[]): string[] {
  // The page of the catalogue has names in place of numbers, which do not add up.
  if (!parts.every(Number.isFinite)) return parts.map(exactDollars);
  for (let digits = digitsOf(whole); ; digits++) {
    const shown = rounded(parts, digits);
    const isClear = shown.every((text, i) => {
      const part = parts[i] ?? 0;
      return (part === 0 || Number(text) > 0) && (part === whole || Number(text) !== whole);
    });
    if (isClear || digits >= DIGITS_MAX) return shown.map((text) => `$${text}`);
  }
}

/** Rounds down, and then up those that lose most, until the sum is that of the exact amounts. */
function rounded(parts: readonly number[], digits: number): string[] {
  const exact = parts.map((part) => Number((part * 10 ** digits).toFixed(DIGITS_MAX)));
  const units = exact.map(Math.floor);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
  const most = exact.map((each, i) => ({ i, lost: each - Math.floor(each) })).toSorted((a, b) => b.lost - a.lost);
  for (const { i } of most.slice(0, Math.round(sum(exact)) - sum(units))) units[i] = (units[i] ?? 0) + 1;
  return units.map((each) => (each / 10 ** digits).toFixed(digits));
}

/** A price per hour: `$0.40/h`. */
export const hourly = (usd: number, beside?: number): string => `${dollars(usd, beside)}/h`;
