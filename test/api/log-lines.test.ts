import { describe, expect, it } from "vitest";
import { LogIndex, MARK_EVERY } from "../../src/api/log-index.ts";
import { errorLine, LogSearch } from "../../src/api/log-search.ts";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

/** A log in memory that counts how many bytes were read. */
function memory(): {
  read: number;
  text: Buffer;
  reads: ConstructorParameters<typeof LogIndex>[0];
} {
  const log = {
    read: 0,
    text: Buffer.alloc(0),
    reads: {
      logBytes: () => log.text.length,
      readLog: (_id: string, offset: number, max: number) => {
        const part = log.text.subarray(offset, offset + max);
        log.read += part.length;
        return part;
      },
      logTimes: () => [
        { offset: 0, at_ms: 1_000 },
        { offset: 6, at_ms: 2_000 },
      ],
    },
  };
  return log;
}

describe("a log by line", () => {
  it("finds each line of a growing log, and reads only new parts", async () => {
    const log = memory();
    const index = new LogIndex(log.reads);
    const all = Array.from({ length: 7 * MARK_EVERY + 13 }, (_, i) => `${i}: ${"é".repeat(i % 97)}`);
    const text = Buffer.from(all.join("\n"));
    for (const cut of [0, 5, 70_001, 70_002, text.length]) {
      log.text = text.subarray(0, cut);
      const { lines, bytes } = await index.count("j");
      expect([lines, bytes]).toEqual([cut === 0 ? 0 : log.text.toString("latin1").split("\n").length, cut]);
    }
    for (const from of [0, 1, MARK_EVERY - 1, MARK_EVERY, 3 * MARK_EVERY + 7, all.length - 1]) {
      const [line] = await index.lines("j", from, 1);
      expect(line).toMatchObject({ line: from + 1, text: all[from], cut: 0 });
      expect(await index.lineAt("j", Buffer.byteLength(all.slice(0, from).join("\n")) + (from > 0 ? 1 : 0))).toBe(from);
    }
    expect((await index.lines("j", all.length - 2, 50)).map((each) => each.text)).toEqual(all.slice(-2));
    expect(await index.lines("j", all.length, 5)).toEqual([]);
    log.read = 0;
    log.text = Buffer.concat([text, Buffer.from("\nnew")]);
    expect((await index.count("j")).lines).toBe(all.length + 1);
    expect(log.read).toBeLessThan(10);
  });

  it("folds progress bars, cuts long lines and keeps little of them in memory", async () => {
    const log = memory();
    const bar = Array.from({ length: 200_000 }, (_, i) => `${i}%\r`).join("");
    log.text = Buffer.from(`first\n${bar}done\n${"x".repeat(300_000)}\nlast`);
    const lines = await new LogIndex(log.reads).lines("j", 0, 10);
    expect(lines.map((each) => each.text.slice(0, 10))).toEqual(["first", "done", "xxxxxxxxxx", "last"]);
    expect(lines[2]?.text.length).toBe(4_000);
    expect(lines[2]?.cut).toBeGreaterThan(60_000);
    expect(lines[2]?.cut, "the middle of the line was not held").toBeLessThan(2 * 65_536);
    expect(lines.map((each) => each.at_ms)).toEqual([1_000, 2_000, 2_000, 2_000]);
    expect(await new LogIndex(log.reads).lineAtTime("j", 1_500)).toBe(1);
  });

  it("leaves turns to other work while it scans and reads a large log", async () => {
    const log = memory();
    log.text = Buffer.from("x\n".repeat(4 * 1024 * 1024));
    let turns = 0;
    let isOver = false;
    const tick = (): void => void ((turns += 1), isOver || setImmediate(tick));
    const at: number[] = [];
    const { readLog } = log.reads;
    log.reads.readLog = (...of) => (at.push(turns), readLog(...of));
    setImmediate(tick);
    const index = new LogIndex(log.reads);
    await index.count("j");
    // One part in each turn; the last read looks at the last byte.
    expect(new Set(at).size).toBe(8);
    at.length = 0;
    expect(await index.lines("j", 500_000, 400_000)).toHaveLength(400_000);
    isOver = true;
    expect(at.length).toBeGreaterThan(10);
    expect(at.slice(2).every((turn, i) => turn > (at[i + 1] ?? 0))).toBe(true);
  });

  it("forgets a log that was not read lately, and keeps one that was", async () => {
    const log = memory();
    log.text = Buffer.from("one\n".repeat(1_000));
    const index = new LogIndex(log.reads);
    await index.count("old");
    for (let i = 0; i < 63; i++) await index.count(`job ${i}`);
    await index.count("job 0");
    await index.count("new");
    const read = async (id: string): Promise<boolean> => {
      log.read = 0;
      await index.count(id);
      return log.read > 10;
    };
    expect([await read("job 0"), await read("old")]).toEqual([false, true]);
  });

  it("finds lower-case text in both cases, without the colours in between, and continues as the log grows", async () => {
    const log = memory();
    const search = new LogSearch(log.reads, new LogIndex(log.reads));
    const find = async (text: string, more: { near?: number; from?: number; tag?: string; errors?: boolean } = {}) =>
      search.find(
        "j",
        { text, errors: more.errors ?? false, tag: more.tag ?? null },
        { from: more.from, near: more.near, count: 10 },
      );
    log.text = Buffer.from("[node1] Loss 1\n[node0] lo\u001b[31mss 2\u001b[0m\nacc\n10%\rLOSS 3\nlos");
    expect((await find("loss")).lines.map((each) => each.line)).toEqual([1, 2, 4]);
    expect((await find("Loss")).lines.map((each) => each.line)).toEqual([1]);
    expect((await find("10%")).matches, "what a bar has written over is not shown").toBe(0);
    expect((await find("", { tag: "node0" })).lines.map((each) => each.line)).toEqual([2]);
    expect(await find("loss", { near: 2 })).toMatchObject({ matches: 3, from: 2, lines: [{ line: 4 }] });
    expect((await find("loss", { near: 99 })).lines.map((each) => each.line)).toEqual([4]);
    log.text = Buffer.concat([log.text, Buffer.from("s at last\n")]);
    expect((await find("loss")).lines.map((each) => each.line)).toEqual([1, 2, 4, 5]);
  });

  it("treats a whole traceback as an error, and harmless words as text", async () => {
    const log = memory();
    const search = new LogSearch(log.reads, new LogIndex(log.reads));
    log.text = Buffer.from(
      'epoch 1 error_rate=0.1\nTraceback (most recent call last):\n  File "a.py", line 3\n    x()\nValueError: loss is nan\ngoing on\n0 errors\n[rank1]: CUDA error: device-side assert\n',
    );
    const found = await search.find("j", { text: "", errors: true, tag: null }, { count: 50 });
    expect(found.lines.map((each) => each.line)).toEqual([2, 3, 4, 5, 8]);
    expect(errorLine("2026-01-01 [ERROR] disk full", false).bad).toBe(true);
    expect(errorLine("terror in the errorless", false).bad).toBe(false);
  });
});

describe("GET /jobs/{id}/logs/lines and /logs/search", () => {
  it("answer over HTTP, with the last lines by default", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    plane.appendLog(id, "one\ntwo\n", 1_000);
    plane.appendLog(id, "three\n", 9_000);
    const get = async (path: string) => (await ask({ port: server.port, path: `/jobs/${id}/logs/${path}` })).json;
    expect(await get("lines?count=2")).toEqual({
      total_lines: 3,
      bytes: 14,
      lines: [
        { line: 2, at_ms: 1_000, text: "two", cut: 0 },
        { line: 3, at_ms: 9_000, text: "three", cut: 0 },
      ],
    });
    expect((await get("lines?from=1&count=1")).lines).toMatchObject([{ line: 1, text: "one" }]);
    expect((await get("lines?at_ms=5000")).lines).toMatchObject([{ line: 3 }]);
    expect(await get("search?q=t")).toMatchObject({ matches: 2, from: 0, lines: [{ line: 2 }, { line: 3 }] });
    expect((await get("lines?from=1&at_ms=1")).code).toBe("invalid_request");
    expect((await get("search?tag=%3Cscript%3E")).code).toBe("invalid_request");
  });
});
