/** An amount of bytes for people, by powers of 1024. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  const power = Math.min(4, Math.floor(Math.log2(n) / 10));
  return `${(n / 1024 ** power).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}
