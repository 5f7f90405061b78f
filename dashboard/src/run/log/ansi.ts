// Turns terminal colours into DOM text nodes. Log text is untrusted: it never becomes markup, and every escape sequence
// that is not a colour (titles, links, cursor moves) is dropped.

export interface Style {
  fg: string | null;
  bg: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
}

export const PLAIN: Style = {
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
};

export interface Piece {
  text: string;
  style: Style;
}

// CSI sequences; OSC, DCS, PM, APC, SOS strings up to their end; other two-character escapes; a sequence cut off by the line's end.
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const ESCAPE =
  /\u001b\[([0-9;:]*)m|[\u001b]\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]?|\u001b/g;
// eslint-disable-next-line no-control-regex -- as above; tabs stay
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Splits one line into pieces of one style each; `style` is the style at the end of the line before. */
export function parseAnsi(line: string, style: Style): { pieces: Piece[]; style: Style } {
  if (!line.includes("\u001b")) return { pieces: [{ text: line.replace(CONTROL, ""), style }], style };
  const pieces: Piece[] = [];
  let current = style;
  let at = 0;
  const push = (text: string) => {
    const clean = text.replace(CONTROL, "");
    if (clean) pieces.push({ text: clean, style: current });
  };
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1] !== undefined) current = withCodes(current, match[1]);
  }
  push(line.slice(at));
  return { pieces, style: current };
}

/** The style at the end of a line, without building its pieces. */
export const styleAfter = (line: string, style: Style): Style =>
  line.includes("\u001b") ? parseAnsi(line, style).style : style;

function withCodes(before: Style, list: string): Style {
  const codes = list.split(/[;:]/).map(Number);
  let style = { ...before };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code >= 30 && code <= 37) style.fg = named(code - 30);
    else if (code >= 90 && code <= 97) style.fg = named(code - 82);
    else if (code >= 40 && code <= 47) style.bg = named(code - 40);
    else if (code >= 100 && code <= 107) style.bg = named(code - 92);
    else if (code === 39) style.fg = null;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const { colour, used } = extended(codes.slice(i + 1));
      i += used;
      if (code === 38) style.fg = colour;
      else style.bg = colour;
    }
  }
  return style;
}

const named = (index: number) => `var(--ansi-${index})`;

function extended(rest: number[]): { colour: string | null; used: number } {
  const byte = (n: number | undefined) => Math.min(255, Math.max(0, Math.trunc(n ?? 0) || 0));
  if (rest[0] === 2) return { colour: `rgb(${byte(rest[1])} ${byte(rest[2])} ${byte(rest[3])})`, used: 4 };
  if (rest[0] !== 5) return { colour: null, used: rest.length };
  const n = byte(rest[1]);
  if (n < 16) return { colour: named(n), used: 2 };
  if (n >= 232) return { colour: `rgb(${8 + (n - 232) * 10} ${8 + (n - 232) * 10} ${8 + (n - 232) * 10})`, used: 2 };
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  const cube = n - 16;
  return {
    colour: `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`,
    used: 2,
  };
}

/** The pieces as nodes. Styles are set through the DOM, which the page's policy allows; text stays text. */
export function ansiNodes(pieces: readonly Piece[]): Node[] {
  return pieces.map(({ text, style }) => {
    if (style === PLAIN) return document.createTextNode(text);
    const span = document.createElement("span");
    span.textContent = text;
    const [fg, bg] = style.inverse
      ? [style.bg ?? "var(--log-bg)", style.fg ?? "var(--log-text)"]
      : [style.fg, style.bg];
    if (fg) span.style.color = fg;
    if (bg) span.style.backgroundColor = bg;
    if (style.bold) span.style.fontWeight = "600";
    if (style.dim) span.style.opacity = "0.7";
    if (style.italic) span.style.fontStyle = "italic";
    if (style.underline) span.style.textDecoration = "underline";
    return span;
  });
}
