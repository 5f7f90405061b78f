/** Formats an amount of bytes for people, by powers of 1000, with at least two digits. */
export function bytes(n: number): string {
  if (n < 1_000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = n / 1_000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit++;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
