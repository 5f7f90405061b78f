// The characters that a terminal obeys instead of showing, and the functions by which svc prints text from other
// programs and people. Every line for a terminal is built with this file. Python has the same set in
// python/svc/_errors.py: a test compares the two.

/** Stands where a text was cut: in place of its beginning, or of its end. */
export const CUT = "…";

/** Marks and controls that change the direction of neighbouring text, as the inside of a character class. */
const DIRECTION = String.raw`\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069`;

/**
 * Every character that a terminal may obey, as the inside of a character class: C0, DEL and C1 controls, line and
 * paragraph separators, and the controls of text direction.
 */
export const OBEYED = String.raw`\u0000-\u001f\u007f-\u009f\u2028\u2029${DIRECTION}`;

const EACH = new RegExp(`[${OBEYED}]`, "g");
const RUNS = new RegExp(`[${OBEYED}]+`, "g");
const EACH_DIRECTION = new RegExp(`[${DIRECTION}]`, "g");

/** A character as its code: `\x1b`, `\u202e`. */
export const visible = (code: number): string =>
  code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;

/** Text for one field of one line: each character that a terminal obeys is shown as its code. */
export const safeField = (text: string): string => text.replace(EACH, (c) => visible(c.charCodeAt(0)));

/** Like `safeField`, but line feeds and tabs stay. */
export const safeText = (text: string): string =>
  text.replace(EACH, (c) => (c === "\n" || c === "\t" ? c : safeField(c)));

/** For receivers that read `&`, `<` and `>` as markup: Slack, some desktops. */
export const withoutMarkup = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** For receivers that read Markdown, in which `[the log](https://…)` would hide an address: Discord. */
export const withoutMarkdown = (text: string): string => text.replace(/[\\`*_~|[\]<>#]/g, String.raw`\$&`);

/**
 * For a page: shows characters that change the text direction as their codes. `\u202Etp.exe` must not be read as
 * `exe.pt`.
 */
export const inOrder = (text: string): string => text.replace(EACH_DIRECTION, (c) => visible(c.charCodeAt(0)));

/**
 * Text from another program or computer as one line of a message: a space replaces each character that a terminal
 * obeys, `…` marks the cut.
 */
export const oneLine = (text: string, charsMax = Number.POSITIVE_INFINITY): string =>
  firstChars(text.replace(RUNS, " ").trim(), charsMax);

/** The beginning of a text; `…` marks the cut, so that no half of a secret there is shown (redaction.ts, R5). */
export const firstChars = (text: string, charsMax: number): string =>
  // Half a character would hide the half of a secret that it belongs to.
  text.length > charsMax ? `${text.slice(0, charsMax).replace(/[\ud800-\udbff]$/, "")}${CUT}` : text;

/** The end of a text; `…` marks the cut. */
export const lastChars = (text: string, charsMax: number): string =>
  text.length > charsMax ? `${CUT}${text.slice(-charsMax).replace(/^[\udc00-\udfff]/, "")}` : text;

/** The same for bytes of UTF-8, with the mark no more than `bytesMax`. */
export function lastBytes(bytes: Buffer, bytesMax: number): Buffer {
  if (bytes.length <= bytesMax) return bytes;
  const mark = Buffer.from(CUT);
  let from = bytes.length - bytesMax + mark.length;
  while ((bytes[from] ?? 0) >> 6 === 0b10) from++;
  return Buffer.concat([mark, bytes.subarray(from)]);
}

/** JSON that is safe to print on a terminal. The escapes are JSON's own, so it parses to the same value. */
export function toJson(value: unknown, indent?: number): string {
  // JSON.stringify leaves DEL, C1, separators and direction controls unescaped; the only raw line feeds are its own.
  return JSON.stringify(value, null, indent).replace(EACH, (c) =>
    c === "\n" ? c : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
