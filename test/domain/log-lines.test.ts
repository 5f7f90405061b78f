import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldReturns, tailOffset, terminalSafe } from "../../src/domain/log-lines.ts";

const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
console.log(`log-lines seed ${seed}`);

function tail(text: string | Buffer, lines: number, bytesMax?: number, slice = Infinity): string {
  const bytes = Buffer.from(text as string);
  const read = (offset: number, max: number) => bytes.subarray(offset, offset + Math.min(max, slice));
  return bytes.subarray(tailOffset(read, bytes.length, lines, bytesMax)).toString();
}

describe("tailOffset", () => {
  it("finds the last lines, whether or not the last has an end", () => {
    expect(tail("a\nb\nc\n", 2)).toBe("b\nc\n");
    expect(tail("a\nb\nc", 2)).toBe("b\nc");
    expect(tail("a\r\nb\r\n", 1)).toBe("b\r\n");
    expect(tail("a\n\n", 1)).toBe("\n");
    expect(tail("a\n", 9)).toBe("a\n");
    expect(tail("a\nb", 0)).toBe("");
    expect(tail("", 3)).toBe("");
    expect(tail("a\n10%\r20%\r30%", 1)).toBe("10%\r20%\r30%");
  });

  it("agrees with splitting the whole text, for texts of many chunks and slow readers", () => {
    const text = fc.array(fc.tuple(fc.nat(40_000), fc.constantFrom("\n", "\n", "\r\n")), { maxLength: 12 });
    fc.assert(
      fc.property(text, fc.boolean(), fc.integer({ min: 1, max: 14 }), (parts, ended, lines) => {
        const whole = parts.map(([n, end]) => "x".repeat(n) + end).join("") + (ended ? "" : "tail");
        const split = whole
          .split("\n")
          .map((l, i, all) => (i < all.length - 1 ? `${l}\n` : l))
          .filter((l) => l !== "");
        expect(tail(whole, lines, undefined, 9_000)).toBe(split.slice(-lines).join(""));
      }),
      { seed, numRuns: 100 },
    );
  });

  it("searches back only to its bound and starts at a whole line", () => {
    expect(tail(`${"x".repeat(50)}\nabc\ndef`, 5, 10)).toBe("abc\ndef");
    expect(tail(`${"x".repeat(50)}\rabc`, 1, 10)).toBe("abc");
    expect(tail("é".repeat(50), 1, 11)).toBe("é".repeat(5));
  });
});

describe("terminalSafe", () => {
  it("passes colours, tabs and line feeds and shows every other control character", () => {
    expect(terminalSafe("\x1b[1;31mred\x1b[0m\tok\r\n")).toBe("\x1b[1;31mred\x1b[0m\tok\n");
    expect(terminalSafe("\x1b]0;title\x07")).toBe("\\x1b]0;title\\x07");
    expect(terminalSafe("\x1b[2J\x1b[1A\x08\r!")).toBe("\\x1b[2J\\x1b[1A\\x08\\x0d!");
    expect(terminalSafe("\x1b[?25l\x1b[2K 12 MB\x1b[K\x1b[?25h")).toBe(" 12 MB");
    expect(terminalSafe("\x1b[?1049h\x1b[3K")).toBe("\\x1b[?1049h\\x1b[3K");
    expect(terminalSafe("\x9b31m\u202egpj.exe\u2028")).toBe("\\x9b31m\\u202egpj.exe\\u2028");
    expect(terminalSafe("é € 😀")).toBe("é € 😀");
  });

  it("leaves no character that a terminal obeys in any text", () => {
    const hostile = fc.string({
      unit: fc.constantFrom("\x1b", "[", "0", ";", "m", "A", "\r", "\n", "\x07", "\x9b", "]", "x"),
    });
    fc.assert(
      fc.property(hostile, (text) => {
        // eslint-disable-next-line no-control-regex -- control characters are exactly what is looked for
        expect(terminalSafe(text).replace(/\x1b\[[0-9;:]*m/g, "")).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
      }),
      { seed, numRuns: 1_000 },
    );
  });
});

describe("foldReturns", () => {
  it("returns the last state of a progress bar", () => {
    expect(foldReturns("10%\r20%\r30%")).toBe("30%");
    expect(foldReturns("done\r")).toBe("done");
    expect(foldReturns("10%\r\r")).toBe("10%");
    expect(foldReturns("\r")).toBe("");
    expect(foldReturns("plain")).toBe("plain");
  });
});
