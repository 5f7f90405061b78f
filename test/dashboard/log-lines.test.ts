import { describe, expect, it } from "vitest";
import { PLAIN, parseAnsi } from "../../dashboard/src/run/log/ansi.ts";
import { folded, LogLines } from "../../dashboard/src/run/log-lines.ts";
import { fieldOfError, fieldsOf, fromText } from "../../dashboard/src/form/schema-fields.ts";
import { z } from "zod";
import { SubmitBody } from "../../src/schemas/spec.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("lines of a log", () => {
  it("gives the same lines however the bytes are cut", () => {
    const text = "eins\nzwölf 🙂 \u001b[31mrot\nnoch rot\u001b[0m\n10%\r20%\r\nohne Ende";
    const whole = new LogLines(0);
    whole.append(bytes(text));
    const all = bytes(text);
    for (let cut = 0; cut <= all.length; cut++) {
      const log = new LogLines(0);
      log.append(all.subarray(0, cut));
      log.append(all.subarray(cut));
      expect(log.lines).toEqual(whole.lines);
      expect(log.open?.text).toBe("ohne Ende");
      expect(log.end).toBe(all.length);
    }
    expect(whole.lines.map((line) => line.text)).toEqual([
      "eins",
      "zwölf 🙂 \u001b[31mrot",
      "noch rot\u001b[0m",
      "20%",
    ]);
    expect(whole.lines[2]?.style.fg).toBe("var(--ansi-1)");
  });

  it("puts earlier whole lines in front and knows the byte they begin at", () => {
    const text = "aaaa\nbbbb\ncccc\ndddd\n";
    const log = new LogLines(15);
    log.append(bytes(text).subarray(15));
    expect(log.prepend(bytes(text).subarray(2, 15), 2)).toBe(2);
    expect(log.lines.map((line) => line.text)).toEqual(["bbbb", "cccc", "dddd"]);
    expect(log.start).toBe(5);
    expect(log.prepend(bytes(text).subarray(0, 5), 0)).toBe(1);
    expect(log.start).toBe(0);
  });

  it("forgets the oldest lines of an endless log and keeps count of their bytes", () => {
    const log = new LogLines(0);
    for (let i = 0; i < 11; i++) log.append(bytes("x\n".repeat(10_000)));
    expect(log.lines.length).toBeLessThanOrEqual(100_000);
    expect(log.start + log.lines.length * 2).toBe(log.end);
  });

  it.each([
    ["plain", "plain"],
    ["10%\r100%", "100%"],
    ["dos line\r", "dos line"],
    ["a\rb\r\r", "b"],
  ])("shows %j as %j", (given, expected) => expect(folded(given)).toBe(expected));
});

describe("terminal colours", () => {
  const shown = (line: string) => parseAnsi(line, PLAIN).pieces.map((piece) => [piece.text, piece.style.fg]);
  it.each([
    [
      "\u001b[32mok\u001b[0m then",
      [
        ["ok", "var(--ansi-2)"],
        [" then", null],
      ],
    ],
    ["\u001b[38;5;196mx", [["x", "rgb(255 0 0)"]]],
    ["\u001b[38;2;1;2;3mx", [["x", "rgb(1 2 3)"]]],
    ["\u001b[38;2;999;-1mx", [["\u001b[38;2;999;-1mx".slice(9 + 4), null]]],
    ["\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007", [["link", null]]],
    ["\u001b]0;title without end", []],
    ["\u001b[2Kcleared\u0000\u0008", [["cleared", null]]],
    ["cut \u001b", [["cut ", null]]],
  ])("reads %j", (line, expected) => {
    if (line.includes("-1"))
      expect(shown(line).every(([, colour]) => colour === null || /^(rgb|var)\(/.test(String(colour)))).toBe(true);
    else expect(shown(line)).toEqual(expected);
  });
});

describe("fields of the form", () => {
  const fields = fieldsOf(
    z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }) as Parameters<typeof fieldsOf>[0],
  );
  const of = (name: string) => {
    const found = fields.find((field) => field.name === name);
    if (!found) throw new Error(`no field ${name}`);
    return found;
  };
  it("come from the run spec with title, unit and kind", () => {
    expect(of("entrypoint")).toMatchObject({ kind: "text", required: true, title: "Entrypoint" });
    expect(of("provider")).toMatchObject({
      kind: "choice",
      initial: "local",
      choices: ["local", "podhost", "market", "cloudvm", "notebook"],
    });
    expect(of("price_cap")).toMatchObject({ kind: "number", unit: "$ per hour", title: "Price cap" });
    expect(of("args").kind).toBe("lines");
    expect(of("env").kind).toBe("pairs");
    expect(of("terminate_on_exit")).toMatchObject({ kind: "switch", initial: "true" });
  });
  it("turn text into what the API takes", () => {
    expect(fromText(of("args"), "--lr\n0.1\n")).toEqual(["--lr", "0.1"]);
    expect(fromText(of("env"), "A=1\nB=x=y")).toEqual({ A: "1", B: "x=y" });
    expect(fromText(of("price_cap"), "")).toBeUndefined();
    expect(fromText(of("price_cap"), "2.5")).toBe(2.5);
    expect(fromText(of("price_cap"), "much")).toBe("much");
  });
  it.each([
    ["spec.args[3]", "args"],
    ["spec.env.FOO", "env"],
    ['spec.env["A B"]', "env"],
    ["label", "label"],
    ["price_cap", "price_cap"],
  ])("find the field of %s", (path, name) => expect(fieldOfError(path)).toBe(name));
});
