import { describe, expect, it, vi } from "vitest";
import { PLAIN, parseAnsi } from "../../dashboard/src/run/log/ansi.ts";
import { LogScroll, SPACE_MAX_PX } from "../../dashboard/src/run/log/log-scroll.ts";
import { askLog, LogSource, tagChoices, tagsOf, type Ask } from "../../dashboard/src/run/log/log-source.ts";
import { fieldOfError, fieldsOf, fromText, toText } from "../../dashboard/src/form/schema-fields.ts";
import { z } from "zod";
import { SubmitBody } from "../../src/schemas/spec.ts";
import { DEADLINE_MS } from "../deadline.ts";

describe("the place in a log", () => {
  const at = (rows: number, viewPx = 600) => {
    const scroll = new LogScroll(20);
    scroll.resize(rows, viewPx);
    return scroll;
  };

  it("equals the scroll bar's while all lines fit into the drawable height", () => {
    const scroll = at(1_000);
    expect([scroll.spacePx, scroll.topMax]).toEqual([20_000, 970]);
    scroll.moved(205);
    expect(scroll.top).toBe(10.25);
    scroll.moved(19_400);
    expect(scroll.atEnd).toBe(true);
    expect(scroll.settled()).toBeNull();
    expect(at(3).topMax).toBe(0);
  });

  it("reaches each line of a log that is too high to draw: line by line with small movements, anywhere with the bar", () => {
    const scroll = at(10_000_000);
    expect(scroll.spacePx).toBe(SPACE_MAX_PX);
    let bar = scroll.goTo(5_000_000);
    expect(scroll.top).toBe(5_000_000);
    for (let i = 0; i < 50; i++) scroll.moved((bar += 100));
    expect(scroll.top).toBeCloseTo(5_000_250, 6);
    bar = scroll.settled() ?? Number.NaN;
    expect(scroll.top, "putting the bar right moves nothing").toBeCloseTo(5_000_250, 6);
    expect(bar / (SPACE_MAX_PX - 600)).toBeCloseTo(scroll.top / scroll.topMax, 9);
    scroll.moved((SPACE_MAX_PX - 600) / 4);
    expect(scroll.top / scroll.topMax).toBeCloseTo(0.25, 6);
    scroll.moved(SPACE_MAX_PX - 600);
    expect(scroll.top).toBe(scroll.topMax);
    scroll.moved(0);
    expect(scroll.top).toBe(0);
  });

  it("is an end of the log where the bar is at its end, however little it moved there", () => {
    const scroll = at(10_000_000);
    const end = SPACE_MAX_PX - 600;
    expect(end - scroll.goTo(scroll.topMax - 1_000), "the bar is less than a small movement away").toBeLessThan(1_800);
    scroll.moved(end);
    expect([scroll.top, scroll.atEnd]).toEqual([scroll.topMax, true]);
    scroll.goTo(1_000);
    scroll.moved(0);
    expect(scroll.top).toBe(0);
  });
});

describe("the rows of a log", () => {
  const line = (i: number, text = `line ${i + 1}`) => ({ line: i + 1, at_ms: 0, text, cut: 0 });
  /** A log of lines that records the requests for them. */
  function served(lines: string[]) {
    const asked: string[] = [];
    const ask: Ask = ({ from, count }) => {
      asked.push(`${from ?? "end"}+${count}`);
      const first = from === undefined ? Math.max(0, lines.length - Number(count)) : Number(from);
      const part = lines.slice(first, first + Number(count)).map((text, i) => line(first + i, text));
      return Promise.resolve({
        rows: lines.length,
        totalLines: lines.length,
        from: part.length > 0 ? first : lines.length,
        lines: part,
        capped: false,
      });
    };
    return { asked, ask };
  }
  const WAIT = { timeout: DEADLINE_MS };

  it("are loaded by pages on demand, and each only once", async () => {
    const lines = Array.from({ length: 5_000 }, (_, i) => `line ${i + 1}`);
    const { asked, ask } = served(lines);
    const source = new LogSource(ask, () => undefined);
    await source.refresh(true);
    expect([source.rows, source.row(4_999)?.text, source.row(100)]).toEqual([5_000, "line 5000", null]);
    source.want(100, 130);
    source.want(110, 140);
    await expect.poll(() => source.row(139)?.text, WAIT).toBe("line 140");
    source.want(100, 130);
    expect(asked).toEqual(["end+300", "0+200"]);
  });

  it("follow a growing log: a partial last line is read again, and the other objects stay", async () => {
    const lines = ["one", "two", "thr"];
    const { ask } = served(lines);
    const source = new LogSource(ask, () => undefined);
    await source.refresh(true);
    const two = source.row(1);
    lines[2] = "three \u001b[31mred";
    lines.push("still red");
    await source.refresh(false);
    expect([source.rows, source.row(2)]).toEqual([4, null]);
    source.want(0, 4);
    await expect.poll(() => source.row(3)?.text, WAIT).toBe("still red");
    expect(source.row(1)).toBe(two);
    expect(source.row(2)?.text).toContain("three");
    expect(source.row(3)?.style.fg).toBe("var(--ansi-1)");
  });

  it("are no longer asked for when they have left the view before they arrived", async () => {
    const signals = new Map<unknown, AbortSignal>();
    const ask: Ask = ({ from, count }, signal) => {
      if (count === 0)
        return Promise.resolve({ rows: 5_000, totalLines: 5_000, from: 5_000, lines: [], capped: false });
      signals.set(from, signal);
      return new Promise(() => undefined);
    };
    const source = new LogSource(ask, () => undefined);
    await source.refresh(false);
    source.want(100, 500);
    expect([...signals.keys()]).toEqual([0, 200, 400]);
    source.want(300, 700);
    expect([...signals].map(([from, { aborted }]) => [from, aborted])).toEqual([
      [0, true],
      [200, false],
      [400, false],
      [600, false],
    ]);
  });

  it("are asked for again after a pause, and not with each drawing, while the control plane does not answer", async () => {
    vi.useFakeTimers();
    try {
      const { ask } = served(Array.from({ length: 5_000 }, (_, i) => `line ${i + 1}`));
      let isAway = true;
      let failed = 0;
      const source = new LogSource(
        (query, signal) =>
          isAway && query["from"] !== undefined ? Promise.reject(new Error("away")) : ask(query, signal),
        (error) => {
          if (error === null) return;
          failed += 1;
          // The pane draws the message in the next frame, and wants the rows in view.
          setTimeout(() => source.want(100, 130), 16);
        },
      );
      await source.refresh(false);
      source.want(100, 130);
      await vi.advanceTimersByTimeAsync(5_000);
      expect(failed).toBeLessThan(10);
      isAway = false;
      await vi.advanceTimersByTimeAsync(2_000);
      expect(source.row(129)?.text).toBe("line 130");
    } finally {
      vi.useRealTimers();
    }
  });

  it("are counted from 0, and asked for as lines that are counted from 1, or as matches of a filter", async () => {
    const asked: string[] = [];
    vi.stubGlobal("fetch", (path: string) => {
      asked.push(path);
      const lines = [{ line: 8, at_ms: 0, text: "x", cut: 0 }];
      return Promise.resolve(Response.json({ total_lines: 9, matches: 3, from: 2, capped: false, lines }));
    });
    const never = new AbortController().signal;
    expect(await askLog("j", null)({ from: 7, count: 1 }, never)).toMatchObject({ from: 7, rows: 9, totalLines: 9 });
    const filter = { q: "x", errors: false, tag: null };
    expect(await askLog("j", filter)({ from: 2, count: 1 }, never)).toMatchObject({ from: 2, rows: 3, totalLines: 9 });
    vi.unstubAllGlobals();
    const queries = asked.map((path) => Object.fromEntries(new URLSearchParams(path.split("?")[1])));
    expect(queries).toEqual([
      { from: "8", count: "1" },
      { from: "2", count: "1", q: "x" },
    ]);
  });

  it("collect the nodes and ranks at the beginning of lines", () => {
    expect(tagsOf("[node1] [rank3]: hello [rank4]")).toEqual(["node1", "rank3"]);
    expect(tagsOf("[INFO] [rank3]")).toEqual([]);
    const choices = tagChoices(["rank3"], 2, null);
    expect(choices).toEqual(["node0", "node1", "rank3"]);
    expect(choices.flatMap((tag) => tagsOf(`[${tag}] a line as svc marks it`))).toEqual(choices);
  });
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
  it("are read from the run spec with title, unit and kind", () => {
    expect(of("entrypoint")).toMatchObject({ kind: "text", required: true, title: "Entrypoint" });
    expect(of("provider")).toMatchObject({
      kind: "choice",
      initial: "local",
      choices: ["local", "podhost", "market", "cloudvm", "notebook"],
    });
    expect(of("price_cap")).toMatchObject({ kind: "number", unit: "$ per hour", title: "Price cap" });
    expect(of("args").kind).toBe("words");
    expect(of("env").kind).toBe("pairs");
    expect(of("terminate_on_exit")).toMatchObject({ kind: "switch", initial: "true" });
  });
  it("turn text into the API's values", () => {
    expect(fromText(of("args"), "--lr 0.1\n--name 'a b'")).toEqual(["--lr", "0.1", "--name", "a b"]);
    expect(toText("words", ["--name", "a b", ""])).toBe("--name 'a b' ''");
    expect(fromText(of("env"), "A=1\nB=x=y")).toEqual({ A: "1", B: "x=y" });
    const several = { PEM: 'one\ntwo=="\r\n', QUOTED: '"a"', PATH_LIKE: String.raw`"C:\data"`, PLAIN: "x" };
    expect(fromText(of("env"), toText("pairs", several))).toEqual(several);
    // Each has one line, but would be read as a value of several.
    const written = { JSON: String.raw`"one\ntwo"`, TWICE: JSON.stringify(String.raw`"one\ntwo"`) };
    expect(fromText(of("env"), toText("pairs", written))).toEqual(written);
    expect(fromText(of("keep_checkpoints"), "last=3\nbest=loss:2")).toEqual({ last: 3, best: "loss:2" });
    expect(fromText(of("price_cap"), "")).toBeUndefined();
    expect(fromText(of("price_cap"), "2.5")).toBe(2.5);
    expect(fromText(of("price_cap"), "much")).toBe("much");
    // As a number JSON would make it null: no cap at all.
    expect(fromText(of("price_cap"), "1e999")).toBe("1e999");
  });
  it.each([
    ["spec.args[3]", "args"],
    ["spec.env.FOO", "env"],
    ['spec.env["A B"]', "env"],
    ["label", "label"],
    ["price_cap", "price_cap"],
  ])("find the field of %s", (path, name) => expect(fieldOfError(path)).toBe(name));
});
