// Redaction. Known secrets, and the forms in which programs commonly print them, become a marker before anything is stored.
//
// R1. Bytes in, bytes out: a log need not be UTF-8, and a secret may be split across two reads.
// R2. Every byte that a form covers is removed, and overlapping findings become one marker: no secret uncovers the end
//     of another that begins at the same place or within it. Only a chain of overlapping findings that is
//     CHAIN_BYTES_MAX long stops growing.
// R3. Nothing is remembered between calls. Bytes that may still become a secret are not consumed; the caller presents
//     them again with the bytes that follow. So a cursor alone is enough to continue after a crash.
// R4. The result does not depend on how the stream was cut.
// R5. Text of other programs is often cut where no secret is known. A cut bears CUT, and half a secret next to it counts as one
//     in a whole text (redactText, redactValue).
//
// The search is Wu and Manber's: a table over pairs of bytes says how far a window may jump. A secret of 20 bytes lets
// most windows jump by nearly its length, so a few dozen forms cost about as much as one.

import { CUT } from "./terminal-text.ts";

/** The marker that replaces a secret. */
export const REDACTED = "***redacted***";
/** Secrets shorter than this are ignored: redacting "1" or "yes" would destroy the log and protect nothing. */
export const SECRET_BYTES_MIN = 4;
/** Encoded forms and single lines of a secret shorter than this are ignored: they would match ordinary text. */
export const FORM_BYTES_MIN = 6;

/** The last four characters of a credential are shown on purpose. */
const END_BYTES_MIN = 6;

/** A shorter end of base64 would match other text. */
const BASE64_LINE_MIN = 12;

/** Text that overlaps with itself without end, such as a secret of one letter repeated, must not be held back for ever. */
const CHAIN_BYTES_MAX = 16_384;

const MARKER = Buffer.from(REDACTED);
const CUT_BYTES = Buffer.from(CUT);

/**
 * Decides which findings count in a text that was joined from pieces (log-stream.ts, S6). If `tail(start)` is false, no
 * match that begins there and ends in bytes yet to come may count either.
 */
export interface SpanRule {
  /** A form found at `[start, end)`. */
  match(start: number, end: number): boolean;
  /** The text from `start` to its end may grow into a form. */
  tail(start: number): boolean;
}

export class Redactor {
  /** Every form looked for, longest first. */
  readonly #forms: readonly Buffer[];
  /** KMP borders of each form, to find the tail of a text that may grow into it. */
  readonly #borders: readonly Int32Array[];
  /** The first four bytes of each form. */
  readonly #heads: ReadonlySet<number>;
  /** One bit for each pair of bytes that a form contains. */
  readonly #pairs: Uint8Array;
  /** Whether a form contains CUT itself. */
  readonly #holdCut: boolean;
  readonly #window: number;
  readonly #shift: Uint8Array;
  readonly #buckets = new Map<number, Buffer[]>();

  constructor(secrets: readonly string[]) {
    const forms = new Map<string, Buffer>();
    for (const secret of secrets) for (const form of formsOf(secret)) forms.set(form.toString("latin1"), form);
    this.#forms = [...forms.values()].sort((a, b) => b.length - a.length || Buffer.compare(a, b));
    this.#borders = this.#forms.map(bordersOf);
    this.#heads = new Set(this.#forms.map((form) => form.readUInt32LE(0)));
    this.#pairs = new Uint8Array(this.#forms.length === 0 ? 0 : 8_192);
    for (const form of this.#forms)
      for (let i = 1; i < form.length; i++)
        this.#pairs[form[i]! * 32 + (form[i - 1]! >> 3)]! |= 1 << (form[i - 1]! & 7);
    this.#holdCut = this.#forms.some((form) => form.includes(CUT_BYTES));
    this.#window = Math.min(255, this.#forms.at(-1)?.length ?? 0);
    this.#shift = new Uint8Array(this.#forms.length === 0 ? 0 : 65_536).fill(this.#window - 1);
    for (const form of this.#forms) this.#enter(form);
  }

  /** Whether there is nothing to look for. */
  get empty(): boolean {
    return this.#forms.length === 0;
  }

  /**
   * Replaces every secret in `bytes`. `consumed` says how many bytes of the input are decided; the rest, a tail that is
   * the beginning of some form, with the finding that it begins in, is must be presented again before the next bytes.
   * `final` consumes everything; "cut" does so too, and takes half a secret at the end for a whole one.
   */
  redact(bytes: Buffer, final: boolean | "cut", rule?: SpanRule): { out: Buffer; consumed: number } {
    if (this.empty || bytes.length === 0) return { out: bytes, consumed: bytes.length };
    if (final === "cut") {
      const { out, consumed } = this.redact(bytes, false, rule);
      const rest = bytes.subarray(consumed);
      // So short a beginning proves nothing, and is nearly always ordinary text.
      return {
        out: Buffer.concat([out, rest.length < SECRET_BYTES_MIN ? rest : MARKER]),
        consumed: bytes.length,
      };
    }
    const parts: Buffer[] = [];
    const tails = final ? [] : this.#tails(bytes, rule);
    let at = 0;
    let tail = 0;
    for (;;) {
      while (tail < tails.length && tails[tail]! < at) tail++;
      const undecided = tails[tail] ?? bytes.length;
      const covered = this.#covered(bytes, at, undecided, rule);
      if (covered === null || covered.open) {
        const consumed = covered?.start ?? undecided;
        if (parts.length === 0) return { out: bytes.subarray(0, consumed), consumed };
        parts.push(bytes.subarray(at, consumed));
        return { out: Buffer.concat(parts), consumed };
      }
      parts.push(bytes.subarray(at, covered.start), MARKER);
      at = covered.end;
    }
  }

  /** The longest text that a match can be, in bytes. */
  get longest(): number {
    return this.#forms[0]?.length ?? 0;
  }

  /** Replaces each byte of a secret by an asterisk and keeps the length: for text that others address by offset. */
  cover(bytes: Buffer): Buffer {
    if (this.empty) return bytes;
    let out = bytes;
    for (let at = 0; ;) {
      const covered = this.#covered(bytes, at, bytes.length);
      if (covered === null) return out;
      if (out === bytes) out = Buffer.from(bytes);
      out.fill("*", covered.start, covered.end);
      at = covered.end;
    }
  }

  /** Redacts a whole text: a name, a message, an error. */
  redactText(text: string): string {
    if (this.empty) return text;
    const bytes = Buffer.from(text);
    const out = text.includes(CUT) ? this.#aroundCuts(bytes) : this.redact(bytes, true).out;
    // Without a secret the text keeps characters that UTF-8 cannot carry.
    return out.equals(bytes) ? text : out.toString();
  }

  /** The same for a text whose end is missing, because only so much of it was read: half a secret at its end counts as one. */
  redactCut(text: string): string {
    if (this.empty) return text;
    return this.redact(Buffer.from(text), "cut").out.toString();
  }

  /** Redacts every string and every key of a JSON value, at any depth. Other values pass. */
  redactValue<T>(value: T): T {
    if (this.empty) return value;
    return this.#value(value) as T;
  }

  /** R5. */
  #aroundCuts(bytes: Buffer): Buffer {
    const whole = this.#holdCut ? this.redact(bytes, true).out : bytes;
    const out: Buffer[] = [];
    for (let at = 0, next = 0; next >= 0; at = next + CUT_BYTES.length) {
      next = whole.indexOf(CUT_BYTES, at);
      const part = whole.subarray(at, next < 0 ? whole.length : next);
      const after = at === 0 ? 0 : this.#endOfSecret(part, next >= 0);
      const rest = part.subarray(after);
      if (after > 0) out.push(MARKER);
      out.push(this.redact(rest, next >= 0 && this.#mayEndInHalf(rest) ? "cut" : true).out);
      if (next >= 0) out.push(CUT_BYTES);
    }
    return Buffer.concat(out);
  }

  /** How many of the first bytes of a text whose beginning is missing are the end, or the middle, of a secret. */
  headOfCut(bytes: Buffer): number {
    return this.#endOfSecret(bytes, true);
  }

  /** How many of the first bytes are the end of a secret, or, if the text is cut again, its middle. */
  #endOfSecret(bytes: Buffer, isCutAgain: boolean): number {
    if (bytes.length < END_BYTES_MIN) return 0;
    const head = bytes.subarray(0, END_BYTES_MIN);
    // The usual case, and quick to see.
    for (let i = 1; i < END_BYTES_MIN; i++)
      if ((this.#pairs[head[i]! * 32 + (head[i - 1]! >> 3)]! & (1 << (head[i - 1]! & 7))) === 0) return 0;
    let longest = 0;
    for (const form of this.#forms) {
      for (let at = form.indexOf(head, 1); at > 0; at = form.indexOf(head, at + 1)) {
        const length = Math.min(form.length - at, bytes.length);
        if (length <= longest || form.compare(bytes, 0, length, at, at + length) !== 0) continue;
        if (at + length === form.length || isCutAgain) longest = length;
      }
    }
    return longest;
  }

  /** False if no form begins near the end: the usual case, and quick to see. */
  #mayEndInHalf(bytes: Buffer): boolean {
    for (let at = Math.max(0, bytes.length - this.longest); at + SECRET_BYTES_MIN <= bytes.length; at++)
      if (this.#heads.has(bytes.readUInt32LE(at))) return true;
    return false;
  }

  #value(value: unknown): unknown {
    if (typeof value === "string") return this.redactText(value);
    if (Array.isArray(value)) {
      // Columns of numbers are long and hold no text except NaN and the infinities.
      if (typeof value[0] === "number" && value.every((v) => typeof v !== "string" && typeof v !== "object"))
        return value;
      return value.map((v) => this.#value(v));
    }
    if (value === null || typeof value !== "object") return value;
    // fromEntries defines own properties: a key `__proto__` stays a key.
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [this.redactText(k), this.#value(v)]));
  }

  #enter(form: Buffer): void {
    const m = this.#window;
    for (let i = 1; i < m; i++) {
      const pair = form[i - 1]! | (form[i]! << 8);
      this.#shift[pair] = Math.min(this.#shift[pair]!, m - 1 - i);
    }
    const last = form[m - 2]! | (form[m - 1]! << 8);
    const bucket = this.#buckets.get(last);
    if (bucket) bucket.push(form);
    else this.#buckets.set(last, [form]);
  }

  /**
   * The first stretch from `from` on that overlapping matches cover. `open`: the possible match at `undecided` may
   * extend it.
   */
  #covered(
    bytes: Buffer,
    from: number,
    undecided: number,
    rule?: SpanRule,
  ): { start: number; end: number; open: boolean } | null {
    let match = this.#next(bytes, from, undecided, rule);
    if (match === null) return null;
    const { start } = match;
    let { end } = match;
    while (match !== null && end - start < CHAIN_BYTES_MAX) {
      match = this.#next(bytes, match.start + 1, Math.min(end, undecided), rule);
      end = Math.max(end, match?.end ?? 0);
    }
    return { start, end, open: end > undecided && end - start < CHAIN_BYTES_MAX };
  }

  /** The leftmost match that starts in `[from, before)`, the longest there. */
  #next(bytes: Buffer, from: number, before: number, rule?: SpanRule): { start: number; end: number } | null {
    const m = this.#window;
    const shift = this.#shift;
    const stop = Math.min(bytes.length, before + m - 1);
    let i = from + m - 1;
    while (i < stop) {
      const pair = bytes[i - 1]! | (bytes[i]! << 8);
      const jump = shift[pair]!;
      if (jump > 0) {
        i += jump;
        continue;
      }
      const start = i - m + 1;
      for (const form of this.#buckets.get(pair) ?? []) {
        const end = start + form.length;
        if (bytes[start] !== form[0] || end > bytes.length) continue;
        if (bytes.compare(form, 0, form.length, start, end) === 0 && (!rule || rule.match(start, end))) {
          return { start, end };
        }
      }
      i++;
    }
    return null;
  }

  /** Ascending positions from which the rest of `bytes` is a proper prefix of some form. */
  #tails(bytes: Buffer, rule?: SpanRule): number[] {
    const found = new Set<number>();
    const n = bytes.length;
    this.#forms.forEach((form, index) => {
      const borders = this.#borders[index]!;
      let matched = 0;
      for (let i = Math.max(0, n - form.length + 1); i < n; i++) {
        const byte = bytes[i]!;
        while (matched > 0 && form[matched] !== byte) matched = borders[matched - 1]!;
        if (form[matched] === byte) matched++;
      }
      for (; matched > 0; matched = borders[matched - 1]!) found.add(n - matched);
    });
    const tails = [...found].sort((a, b) => a - b);
    return rule ? tails.filter((start) => rule.tail(start)) : tails;
  }
}

/** For each prefix of `form`, the length of its longest proper prefix that is also its suffix. */
function bordersOf(form: Buffer): Int32Array {
  const borders = new Int32Array(form.length);
  for (let i = 1, k = 0; i < form.length; i++) {
    while (k > 0 && form[i] !== form[k]) k = borders[k - 1]!;
    if (form[i] === form[k]) k++;
    borders[i] = k;
  }
  return borders;
}

/** The secret itself and the ways in which it commonly appears. docs/internals/logs.md lists them, and what is not covered. */
function formsOf(secret: string): Buffer[] {
  const raw = Buffer.from(secret);
  if (raw.length < SECRET_BYTES_MIN) return [];
  const inJson = jsonForms(secret);
  // Some encoders keep !'()*, or / as well; web forms write + for a blank and escape ~.
  const url = encodeURIComponent(secret.toWellFormed());
  const urlStrict = url.replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const webForm = new URLSearchParams([["", secret]]).toString().slice(1);
  const derived = [
    ...base64Forms(raw),
    raw.toString("hex"),
    raw.toString("hex").toUpperCase(),
    ...[url, urlStrict, urlStrict.replaceAll("%2F", "/"), webForm].flatMap((u) => [u, lowerHex(u)]),
    urlStrict.replaceAll("%20", "+"),
    ...[url, urlStrict].map(encodeURIComponent),
    ...inJson,
    ...inJson.flatMap(jsonForms),
    ...[pythonBytes(raw), ...[secret, ...inJson, pythonText(secret)].map(pythonText), pythonAscii(secret)].flatMap(
      (text) => [text, text.replaceAll("'", "\\'")],
    ),
    ...["&#x27;", "&#39;"].map((quote) => webText(secret, quote)),
    secret.replaceAll("'", `'\\''`),
    secret.replaceAll("'", `'"'"'`),
    secret.replace(/["\\$`]/g, "\\$&"),
    secret.replace(/[^\w@%+=:,./-]/g, "\\$&"),
    secret.replace(/\r?\n/g, "\r\n"),
    ...(/[\r\n]/.test(secret) ? secret.split(/[\r\n]+/).map((line) => line.trim()) : []),
    // Programs often pass on a secret that they read from a file without the line break at its end.
    secret.trim(),
  ].map((form) => Buffer.from(form));
  return [raw, ...derived.filter((form) => form.length >= FORM_BYTES_MIN)];
}

/** The base64 characters that only the secret determines, for each start within a group of three bytes. */
function base64Forms(raw: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), raw]).toString("base64");
    const form = text.slice(Math.ceil((before * 4) / 3), Math.floor(((before + raw.length) * 4) / 3));
    return [form, form.replaceAll("+", "-").replaceAll("/", "_"), ...linesOf(text, form)];
  });
}

/**
 * Encoding tools break the text into lines. These are the lines that only the secret determines, if it begins where the
 * text begins.
 */
function linesOf(text: string, form: string): string[] {
  return [64, 76].flatMap((width) =>
    text.length <= width || !text.startsWith(form)
      ? []
      : Array.from({ length: Math.ceil(form.length / width) }, (_, i) => form.slice(i * width, (i + 1) * width)).filter(
          (line) => line.length >= BASE64_LINE_MIN,
        ),
  );
}

/**
 * Between the quotes of a JSON string: unescaped, or all ASCII with lower-case or upper-case digits, each also with
 * slashes escaped; and as Go, Flask and .NET write it, so that a web page can contain it.
 */
function jsonForms(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const unit = (c: string): string => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const capital = (c: string): string => `\\u${unit(c).slice(2).toUpperCase()}`;
  const ascii = json.replace(/[^\0-~]/g, unit);
  const dotnet = json.replace(/\\.|[<>&'+`]|[^\0-~]/g, (c) =>
    c === '\\"' ? capital('"') : c.length > 1 ? c : capital(c),
  );
  const all = new Set([json, ascii, json.replace(/[^\0-~]/g, capital), dotnet]);
  for (const form of [json, ascii]) for (const few of [/[<>&]/g, /[<>&']/g]) all.add(form.replace(few, unit));
  return [...all].flatMap((form) => (form.includes("/") ? [form, form.replaceAll("/", "\\/")] : [form]));
}

/** The bytes as Python shows them between the quotes of b''. */
const pythonBytes = (raw: Buffer): string =>
  raw
    .toString("latin1")
    .replace(/[\\\t\n\r]|[^ -~]/g, (c) => SHORT[c] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
const SHORT: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** The text as Python shows it between the quotes of '', except its apostrophes. */
const pythonText = (secret: string): string => secret.replace(/[\\\0-\x1f\x7f-\xa0\xad]/g, pythonEscape);

/** The same by `ascii` and `unicode_escape`. */
const pythonAscii = (secret: string): string => secret.replace(/[\\\0-\x1f]|[^\0-~]/gu, pythonEscape);

function pythonEscape(c: string): string {
  const code = c.codePointAt(0) ?? 0;
  const hex = (digits: number): string => code.toString(16).padStart(digits, "0");
  return SHORT[c] ?? (code < 0x100 ? `\\x${hex(2)}` : code < 0x1_0000 ? `\\u${hex(4)}` : `\\U${hex(8)}`);
}

/** As text of a web page, with one of the two ways to write an apostrophe. */
const webText = (secret: string, quote: string): string =>
  secret
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", quote);

const lowerHex = (url: string): string => url.replace(/%[0-9A-F]{2}/g, (c) => c.toLowerCase());
