// How wide text is on a terminal.

/** Columns that text takes: two for East Asian wide characters and emoji, none for combining marks. */
export function width(text: string): number {
  let n = 0;
  for (const c of text) {
    const p = c.codePointAt(0) ?? 0;
    if (p < 0x300) n += 1;
    else if (/\p{Mn}|\p{Me}|\p{Cf}/u.test(c)) n += 0;
    else n += isWide(p) ? 2 : 1;
  }
  return n;
}

const isWide = (p: number): boolean =>
  (p >= 0x1100 && p <= 0x115f) ||
  (p >= 0x2e80 && p <= 0xa4cf) ||
  (p >= 0xac00 && p <= 0xd7a3) ||
  (p >= 0xf900 && p <= 0xfaff) ||
  (p >= 0xfe30 && p <= 0xfe6f) ||
  (p >= 0xff00 && p <= 0xff60) ||
  (p >= 0xffe0 && p <= 0xffe6) ||
  (p >= 0x1f300 && p <= 0x1faff) ||
  (p >= 0x20000 && p <= 0x3fffd);

/** As much of the text as fits into so many columns. */
export function take(text: string, columns: number): string {
  let out = "";
  let n = 0;
  for (const c of text) {
    n += width(c);
    if (n > columns) break;
    out += c;
  }
  return out;
}
