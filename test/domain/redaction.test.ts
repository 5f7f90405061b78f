import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spawnSync } from "node:child_process";
import { REDACTED, Redactor } from "../../src/domain/redaction.ts";

const SECRET = "hf_Ab3/+ x'Z\"9~é";

/**
 * The plainest implementation of rule R2: it removes every byte that a form covers, and merges overlapping findings
 * into one marker.
 */
function plainly(forms: string[], text: string): string {
  let out = "";
  for (let at = 0; at < text.length;) {
    let end = at;
    for (let i = at; i === at || i < end; i++)
      for (const form of forms) if (text.startsWith(form, i)) end = Math.max(end, i + form.length);
    out += end > at ? REDACTED : text[at]!;
    at = Math.max(at + 1, end);
  }
  return out;
}

/** Feeds `bytes` in parts, cut at `cuts`; bytes that were not consumed come again, as from a real caller. */
function inPieces(redactor: Redactor, bytes: Buffer, cuts: number[]): Buffer {
  const ends = [...new Set(cuts.map((c) => c % (bytes.length + 1)))].sort((a, b) => a - b);
  const out: Buffer[] = [];
  let cursor = 0;
  for (const end of ends) {
    if (end < cursor) continue;
    const step = redactor.redact(bytes.subarray(cursor, end), false);
    out.push(Buffer.from(step.out));
    cursor += step.consumed;
  }
  const last = redactor.redact(bytes.subarray(cursor), true);
  expect(last.consumed).toBe(bytes.length - cursor);
  return Buffer.concat([...out, last.out]);
}

describe("Redactor", () => {
  it("replaces the secret and each of its common forms", () => {
    const redactor = new Redactor([SECRET]);
    const forms = {
      raw: SECRET,
      json: JSON.stringify(SECRET),
      ascii_json: '"hf_Ab3/+ x\'Z\\"9~\\u00e9"',
      url: encodeURIComponent(SECRET),
      form: new URLSearchParams({ k: SECRET }).toString().slice(2),
      shell: SECRET.replaceAll("'", "'\\''"),
      double_quoted: SECRET.replaceAll('"', '\\"'),
      base64: Buffer.from(SECRET).toString("base64").replaceAll("=", ""),
      base64url: Buffer.from(SECRET).toString("base64url"),
      hex: Buffer.from(SECRET).toString("hex"),
      capital_hex: Buffer.from(SECRET).toString("hex").toUpperCase(),
      json_in_json: JSON.stringify(JSON.stringify(SECRET)).slice(3, -3),
      python_text: "hf_Ab3/+ x\\'Z\"9~é",
      web_page: "hf_Ab3/+ x&#x27;Z&quot;9~é",
      python_bytes: "b'hf_Ab3/+ x'Z\"9~\\xc3\\xa9'",
    };
    for (const [name, form] of Object.entries(forms)) {
      const out = redactor.redactText(`<${form}>`);
      expect(out, name).toContain(REDACTED);
      expect(out.replaceAll(REDACTED, "").length, `${name}: ${out}`).toBeLessThanOrEqual(6);
    }
  });

  it.each([
    'aaaa"bbbbcccc',
    "aaaa\\bbbbcccc",
    "aaaaébbbbcccc",
    "aaaa/bbbb/cccc",
    "aaaa&bbbb<cccc",
    "aaaa💥bbbbcccc",
    "aaaa\tbbbbcccc",
    "aaaa'bbbb'cccc",
    "aaaa\x7fbbbbcccc",
    "aaaa\u00adbbbb\u00a0cccc",
    "aaaa\u0001bbbb日cccc",
  ])("finds %j as Python writes it", (secret) => {
    const script = `
import html, json, shlex, sys, urllib.parse
s = sys.stdin.buffer.read().decode()
a, u = json.dumps, lambda v: json.dumps(v, ensure_ascii=False)
print(a([s, a(s), u(s), a(a(s)), a(u(s)), u(a(s)), u(u(s)), a({"x": a({"a": s})}), repr(s), repr(repr(s)), repr(s.encode()), ascii(s),
  s.encode("unicode_escape").decode(), str({"k": s}), repr(a({"k": s})), repr(u({"k": s})), shlex.quote(s), "curl -d " + shlex.quote(a({"k": s})),
  html.escape(s), urllib.parse.quote(s), urllib.parse.quote_plus(s), urllib.parse.quote(urllib.parse.quote(s, safe=""), safe="")]))`;
    const { stdout } = spawnSync("python3", ["-c", script], { input: secret, encoding: "utf8" });
    const redactor = new Redactor([secret]);
    for (const text of JSON.parse(stdout) as string[])
      expect(redactor.redactText(text), text).not.toMatch(/a{4}|b{4}|c{4}/);
  });

  // What Go's encoding/json, Flask's tojson and .NET's System.Text.Json write, by their documentation.
  it.each([
    "p\\u003css\\u003e\\u0026w+o'rd\\\"x`é\\\\z9",
    'p\\u003css\\u003e\\u0026w+o\\u0027rd\\"x`\\u00e9\\\\z9',
    "p\\u003Css\\u003E\\u0026w\\u002Bo\\u0027rd\\u0022x\\u0060\\u00E9\\\\z9",
  ])("finds the secret in JSON that is written for web pages: %s", (text) => {
    const secret = "p<ss>&w+o'rd\"x`é\\z9";
    expect(JSON.parse(`"${text}"`)).toBe(secret);
    const redactor = new Redactor([secret]);
    expect(redactor.redactText(`{"a":"${text}"}`)).toBe(`{"a":"${REDACTED}"}`);
    expect(redactor.redactText(JSON.stringify(text))).toBe(`"${REDACTED}"`);
  });

  it.each([0, 1, 2, 3, 4, 5])("finds the secret inside of base64 that begins %i bytes before it", (before) => {
    const secret = "correct-horse-battery";
    const text = Buffer.from("x".repeat(before) + secret + "tail").toString("base64");
    const out = new Redactor([secret]).redactText(text);
    expect(out).toContain(REDACTED);
    // The remaining text decodes to no more than the edges of the secret.
    expect(out.length - REDACTED.length).toBeLessThan(text.length - secret.length);
  });

  it.each([64, 76])("finds a long secret in base64 that is broken into lines of %i", (width) => {
    const secret = Array.from({ length: 40 }, (_, i) => `part-${i}`).join("/");
    const text = Buffer.from(secret).toString("base64");
    const lines = text.match(new RegExp(`.{1,${width}}`, "g")) ?? [];
    const out = new Redactor([secret]).redactText(lines.join("\n"));
    expect(lines.length).toBeGreaterThan(3);
    expect(out.split("\n").filter((line) => line.replace(/=+$/, "") !== REDACTED)).toEqual([]);
  });

  it("replaces each line of a secret of several lines, and the whole with other line ends", () => {
    const redactor = new Redactor(["first-line-1\n  second-line-2\n}\n"]);
    expect(redactor.redactText("a second-line-2 b")).toBe(`a ${REDACTED} b`);
    expect(redactor.redactText("first-line-1\r\n  second-line-2\r\n}\r\n!")).toBe(`${REDACTED}!`);
    expect(redactor.redactText("}")).toBe("}");
  });

  it("masks the longest of several secrets that begin together, with its whole tail", () => {
    const redactor = new Redactor(["abcdef", "abcdefghij"]);
    expect(redactor.redactText("abcdefghij abcdefgh")).toBe(`${REDACTED} ${REDACTED}gh`);
    expect(redactor.redact(Buffer.from("x abcdef"), false).consumed).toBe(2);
  });

  it("masks both of two overlapping secrets completely, however the stream is cut", () => {
    const redactor = new Redactor(["first-key-0123", "0123-second-key", "key-0123-s"]);
    const bytes = Buffer.from("a first-key-0123-second-key b first-key-0123-sec 0123-second-key0123-second-key");
    const whole = `a ${REDACTED} b ${REDACTED}ec ${REDACTED}${REDACTED}`;
    for (let i = 0; i <= bytes.length; i++)
      for (let j = i; j <= bytes.length; j++) expect(inPieces(redactor, bytes, [i, j]).toString()).toBe(whole);
  });

  it("does not wait for ever for the end of endlessly overlapping secrets", () => {
    const redactor = new Redactor(["abab"]);
    const bytes = Buffer.from("ab".repeat(100_000));
    const once = redactor.redact(bytes, false);
    expect(once.consumed).toBeGreaterThan(bytes.length - 20_000);
    expect(inPieces(redactor, bytes, [70_001, 90_000]).toString()).toBe(inPieces(redactor, bytes, []).toString());
    expect(inPieces(redactor, bytes, []).toString()).toMatch(/^(\*\*\*redacted\*\*\*){1,20}$/);
  });

  it("ignores secrets too short to protect and passes everything when there are none", () => {
    const bytes = Buffer.from("a yes no \xff");
    const redactor = new Redactor(["", "a", "yes"]);
    expect(redactor.empty).toBe(true);
    expect(redactor.redact(bytes, false)).toEqual({ out: bytes, consumed: bytes.length });
  });

  it("holds back only a tail that may become a secret", () => {
    const redactor = new Redactor(["s3cret-value"]);
    expect(redactor.redact(Buffer.from("loss 0.1"), false).consumed).toBe(8);
    expect(redactor.redact(Buffer.from("key s3cret-"), false).consumed).toBe(4);
    expect(redactor.redact(Buffer.from("key s3cret-"), true)).toEqual({
      out: Buffer.from("key s3cret-"),
      consumed: 11,
    });
  });

  it("redacts strings and keys of JSON values at any depth", () => {
    const value = { list: ["s3cret-value", 1, null], "s3cret-value": { deep: "as3cret-valueb" } };
    expect(new Redactor(["s3cret-value"]).redactValue(value)).toEqual({
      list: [REDACTED, 1, null],
      [REDACTED]: { deep: `a${REDACTED}b` },
    });
  });

  it.each([
    ["whole", [SECRET]],
    ["that another secret begins with", [SECRET, SECRET.slice(0, 5)]],
    ["that holds the sign of a cut itself", [SECRET, "held…within"]],
  ])("masks half of a secret %s where a text was cut, at either end", (_what, secrets) => {
    const redactor = new Redactor(secrets);
    for (let i = 4; i < SECRET.length; i++) {
      expect(redactor.redactText(`it says ${SECRET.slice(0, i)}… (and more)`)).toBe(`it says ${REDACTED}… (and more)`);
      const end = SECRET.slice(-i);
      if (Buffer.byteLength(end) >= 6)
        expect(redactor.redactText(`it says …${end}, and more`)).toBe(`it says …${REDACTED}, and more`);
      for (let j = i + 6; j < SECRET.length; j++)
        expect(redactor.redactText(`a …${SECRET.slice(i, j)}… z`)).toBe(`a …${REDACTED}… z`);
    }
  });

  it("leaves other text at a cut, the last four characters of a secret, and a beginning of three", () => {
    const redactor = new Redactor(["s3cret-value", "held…within"]);
    for (const text of ["loading…", "…", "s3c… of it", "…alue", "s3cret-v …lue", "a… b …c", "\ud800…\udc00"])
      expect(redactor.redactText(text)).toBe(text);
    expect(redactor.redactText("so held…within it")).toBe(`so ${REDACTED} it`);
  });

  it("leaves a text without secrets unchanged, lone surrogates included", () => {
    expect(new Redactor(["s3cret-value"]).redactText("\ud800 ok")).toBe("\ud800 ok");
  });

  it("agrees with the plain rule, however the stream is cut", () => {
    const secret = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 4, maxLength: 5 });
    const text = fc.array(fc.oneof(fc.constantFrom("a", "b", "c", "aab", "abab"), secret), { maxLength: 30 });
    const run = fc.property(
      fc.array(secret, { minLength: 1, maxLength: 4 }),
      text,
      fc.array(fc.nat(200), { maxLength: 12 }),
      (secrets, parts, cuts) => {
        // A secret of five letters has no form of six or more characters but base64, and this alphabet has no letters
        // of base64.
        const redactor = new Redactor(secrets);
        expect(inPieces(redactor, Buffer.from(parts.join("")), cuts).toString()).toBe(plainly(secrets, parts.join("")));
      },
    );
    const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
    console.log(`redaction seed ${seed}`);
    fc.assert(run, { seed, numRuns: 2_000 });
  });

  it("never leaks a byte of a long secret, cut anywhere, among binary bytes", () => {
    const secret = "tok-9f8e7d6c5b4a-é-0123456789";
    const redactor = new Redactor([secret]);
    const bytes = Buffer.concat([
      Buffer.from([0xff, 0x00, 0xc3]),
      Buffer.from(`${secret}tok-9f${secret}`),
      Buffer.from([0xc3]),
    ]);
    const whole = inPieces(redactor, bytes, []);
    for (let i = 0; i <= bytes.length; i++) {
      for (let j = i; j <= bytes.length; j++) expect(inPieces(redactor, bytes, [i, j]).equals(whole)).toBe(true);
    }
    expect(whole.toString("latin1")).toBe(`\xff\0\xc3${REDACTED}tok-9f${REDACTED}\xc3`);
  });
});
