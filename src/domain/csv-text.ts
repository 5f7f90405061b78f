// One text in a table of comma-separated values. The costs and the curves of the dashboard use it.

/** The beginning of a formula, at the beginning of a text or of what a spreadsheet with another separator takes for a cell. */
const FORMULA = /(^|[;\t\r\n])(?= *[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** A text that a spreadsheet would take for a formula is marked as text. */
export function csvText(text: string): string {
  const marked = text.replace(FORMULA, "$1'");
  const plain = /^[\t\r]/.test(marked) ? `'${marked}` : marked;
  return /[",;\t\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
