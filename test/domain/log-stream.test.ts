import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseLog, RECORD_BYTES_MAX, RECORD_GAP_MAX, type LogRecord } from "../../src/domain/log-stream.ts";
import { REDACTED, Redactor } from "../../src/domain/redaction.ts";

const MARK = "k3yk3yk3yk3yk3y0";
const HEAD = `\x1esvc1:${MARK} `;
const none = new Redactor([]);

function metric(n: number, values: Record<string, unknown> = { loss: 0.5 }): string {
  return `${HEAD}${JSON.stringify({ k: "m", n, s: n * 10, t: 1_764_000_000.5, r: 0, m: values })}\n`;
}

function whole(text: string | Buffer, redactor = none) {
  const bytes = Buffer.from(text as string);
  const result = parseLog(bytes, { mark: MARK, redactor, final: true });
  expect(result.consumed).toBe(bytes.length);
  return { text: result.text.toString(), records: result.records };
}

/** Feeds the stream in parts, cut at `cuts`; bytes that were not consumed come again with the next part. */
function arriving(bytes: Buffer, cuts: number[], redactor: Redactor): { text: Buffer; records: LogRecord[] } {
  const ends = [...new Set(cuts.map((c) => c % (bytes.length + 1)))].sort((a, b) => a - b);
  const text: Buffer[] = [];
  const records: LogRecord[] = [];
  let cursor = 0;
  for (const [end, final] of [...ends.map((e) => [e, false] as const), [bytes.length, true] as const]) {
    const step = parseLog(bytes.subarray(cursor, end), { mark: MARK, redactor, final });
    text.push(Buffer.from(step.text));
    records.push(...step.records.map((r) => ({ ...r, offset: r.offset + cursor })));
    cursor += step.consumed;
  }
  expect(cursor).toBe(bytes.length);
  return { text: Buffer.concat(text), records };
}

describe("parseLog", () => {
  it("removes records from the middle of a line and joins the text around them", () => {
    const { text, records } = whole(`50%|###${metric(1)} done\n${metric(2, { loss: "NaN", acc: 1 })}end`);
    expect(text).toBe("50%|### done\nend");
    expect(records).toMatchObject([
      { kind: "metrics", n: 1, step: 10, time: 1_764_000_000.5, rank: 0, values: [["loss", 0.5]], offset: 7 },
      {
        kind: "metrics",
        n: 2,
        values: [
          ["loss", "NaN"],
          ["acc", 1],
        ],
      },
    ]);
  });

  it("reads checkpoint records, with and without a step", () => {
    const line = (s: unknown) => `${HEAD}${JSON.stringify({ k: "c", n: 1, s, t: 1, r: 0, path: "a/b.pt" })}\r\n`;
    expect(whole(line(7) + line(null)).records).toMatchObject([
      { kind: "checkpoint", path: "a/b.pt", step: 7 },
      { kind: "checkpoint", path: "a/b.pt", step: null },
    ]);
  });

  it.each([
    ["another mark", `\x1esvc1:zzzz {"k":"m","n":1,"s":1,"t":1,"r":0,"m":{"a":1}}\n`],
    ["bad JSON", `${HEAD}{"k":"m","n":1,\n`],
    ["not an object", `${HEAD}[1]\n`],
    ["an unknown kind", `${HEAD}{"k":"x","n":1,"s":1,"t":1,"r":0}\n`],
    ["a value that is no number", metric(1, { a: "1" })],
    ["a number beyond what is finite", `${HEAD}{"k":"m","n":1,"s":1,"t":1,"r":0,"m":{"a":1e999}}\n`],
    ["a nested value", metric(1, { a: { b: 1 } })],
    ["an empty name", metric(1, { "": 1 })],
    ["a name too long", metric(1, { ["x".repeat(513)]: 1 })],
    ["too many values", metric(1, Object.fromEntries(Array.from({ length: 4097 }, (_, i) => [`m${i}`, 1])))],
    ["a rank below zero", `${HEAD}{"k":"m","n":1,"s":1,"t":1,"r":-1,"m":{"a":1}}\n`],
    ["a path with a line break", `${HEAD}{"k":"c","n":1,"s":1,"t":1,"r":0,"path":"a\\nb"}\n`],
    ["a record without end", `${HEAD}{"k":"m"`],
  ])("leaves %s in the text", (_, line) => {
    expect(whole(`a${line}b`)).toEqual({ text: `a${line}b`, records: [] });
  });

  it("finds the complete record that begins inside a truncated one", () => {
    const torn = `${HEAD}{"k":"m","n":1,"s"`;
    const { text, records } = whole(`${torn}${metric(2)}x`);
    expect(text).toBe(`${torn}x`);
    expect(records).toMatchObject([{ n: 2 }]);
  });

  it("keeps a metric called __proto__", () => {
    const line = `${HEAD}{"k":"m","n":1,"s":1,"t":1,"r":0,"m":{"__proto__":3}}\n`;
    expect(whole(line).records).toMatchObject([{ values: [["__proto__", 3]] }]);
  });

  it("passes a line without a line break at once, and holds back only a possible record", () => {
    const step = (text: string) => parseLog(Buffer.from(text), { mark: MARK, redactor: none, final: false }).consumed;
    expect(step("loading")).toBe(7);
    expect(step("loading\x1e")).toBe(7);
    expect(step(`loading${HEAD}{"k":`)).toBe(7);
    expect(step("loading\x1esvc2")).toBe(12);
    const endless = `loading${HEAD}${"x".repeat(RECORD_BYTES_MAX)}`;
    expect(step(endless)).toBe(endless.length);
  });

  it("redacts the text, the names of metrics and a secret that a record cuts in two", () => {
    const redactor = new Redactor(["s3cret-value"]);
    const { text, records } = whole(`a s3cret-value b s3cr${metric(1, { "acc/s3cret-value": 1 })}et-value c`, redactor);
    expect(text).toBe(`a ${REDACTED} b ${REDACTED} c`);
    expect(records).toMatchObject([{ values: [[`acc/${REDACTED}`, 1]] }]);
  });

  it("a letter at the end of an unfinished line does not delay metrics for ever", () => {
    const redactor = new Redactor(["s3cret-value"]);
    const some = Buffer.from(`epoch s${metric(1)}`);
    expect(parseLog(some, { mark: MARK, redactor, final: false })).toMatchObject({ consumed: 6, records: [] });
    const many = Buffer.from(`epoch s${metric(1).repeat(Math.ceil(RECORD_GAP_MAX / metric(1).length) + 1)}`);
    expect(parseLog(many, { mark: MARK, redactor, final: false }).consumed).toBe(many.length);
  });

  it("reads the run's page at the tracker, and treats other addresses as text", () => {
    const of = (url: unknown) =>
      parseLog(Buffer.from(`${HEAD}{"k":"t","url":${JSON.stringify(url)},"r":0}\n`), {
        mark: MARK,
        redactor: none,
        final: true,
      });
    expect(of("https://tracker.example/team/p/runs/1").records).toMatchObject([
      { kind: "tracker", url: "https://tracker.example/team/p/runs/1" },
    ]);
    for (const odd of [
      "javascript:alert(1)",
      "https://user:pw@x/",
      "https://a b/",
      "http://",
      `https://x/${"a".repeat(3_000)}`,
      5,
      null,
    ])
      expect(of(odd).records, String(odd)).toEqual([]);
  });

  it("reads many record starts before one distant line break in linear time", () => {
    const starts = Buffer.from(HEAD.repeat(200_000));
    const begun = performance.now();
    parseLog(starts, { mark: MARK, redactor: none, final: true });
    // Searching the line break again from each start would read 400 GB.
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  it("gives the same text and records however the stream is cut", () => {
    const secret = "tök-9f8e7d6c";
    const redactor = new Redactor([secret, "tök-", "aaab", MARK]);
    const part = fc.oneof(
      fc.constantFrom(
        secret,
        "tök-9f",
        "9f8e7d6c",
        "aaa",
        "aab",
        "é",
        "€",
        "\x1e",
        "\x1esvc1:",
        HEAD,
        `${HEAD}{`,
        "\n",
        "\r",
        MARK,
      ),
      fc.nat(9).map((n) => metric(n)),
      fc.nat(9).map((n) => metric(n, { [`m/${secret}`]: "NaN" })),
      fc.string({ maxLength: 5 }),
    );
    const stream = fc.tuple(fc.array(part, { maxLength: 25 }), fc.uint8Array({ maxLength: 3 }));
    const run = fc.property(stream, fc.array(fc.nat(2_000), { maxLength: 20 }), ([parts, odd], cuts) => {
      const bytes = Buffer.concat([Buffer.from(parts.join("")), odd, Buffer.from(parts.toReversed().join(""))]);
      const expected = arriving(bytes, [], redactor);
      const got = arriving(bytes, cuts, redactor);
      expect(got.text.toString("latin1")).toBe(expected.text.toString("latin1"));
      expect(got.records).toEqual(expected.records);
      expect(got.text.includes(secret)).toBe(false);
    });
    const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
    console.log(`log-stream seed ${seed}`);
    fc.assert(run, { seed, numRuns: 2_000 });
  });

  it("gives the same when the bytes come one by one", () => {
    const redactor = new Redactor(["s3cret-value"]);
    const bytes = Buffer.from(`é s3cret-${metric(1)}value €${metric(2)}s3cret s3cret-value\n\x1esvc1:no {}\n`);
    const every = Array.from({ length: bytes.length }, (_, i) => i);
    expect(arriving(bytes, every, redactor)).toEqual(arriving(bytes, [], redactor));
  });
});
