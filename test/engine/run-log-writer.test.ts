import { mkdirSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LogRecord, MetricRecord } from "../../src/domain/log-stream.ts";
import { DurableStorySink } from "../../src/engine/run-log-writer.ts";
import type { FeedHint } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Harness, removeHomes, START } from "./harness.ts";

let h: Harness;
let sink: DurableStorySink;
let hints: FeedHint[];
const made: DurableStorySink[] = [];
function newSink(): DurableStorySink {
  hints = [];
  const fresh = new DurableStorySink({ engine: h.engine, home: h.home, hint: (hint) => void hints.push(hint) });
  made.push(fresh);
  return fresh;
}
beforeEach(async () => {
  h = await Harness.open();
  await h.create();
  sink = newSink();
});
afterEach(async () => {
  for (const each of made.splice(0)) await each.close();
  await h.end();
});
afterAll(removeHomes);

const metric = (step: number, values: MetricRecord["values"]): MetricRecord => ({
  kind: "metrics",
  n: step,
  step,
  time: 1_000 + step,
  rank: 0,
  values,
  offset: 0,
});

interface Given {
  text?: string;
  records?: LogRecord[];
  from?: number;
  to: number;
  node?: number;
  stream?: "run" | "install";
  atMs?: number;
  of?: DurableStorySink;
}
const append = ({ text = "", records = [], from = 0, to, node = 0, stream = "run", atMs = START, of = sink }: Given) =>
  of.append({
    jobId: "job1",
    node,
    stream,
    text: Buffer.from(text),
    records,
    samples: [],
    from: { sourceOffset: from, samplesOffset: 0 },
    to: { sourceOffset: to, samplesOffset: 0 },
    times: [{ offset: from, atMs }],
  });
const stored = () => h.reads.readLog("job1", 0, 1_000).toString();
const file = () => join(h.home, "logs", "job1.log");
const breakCommit = () => {
  h.onProbe = (point) => {
    if (point !== "commit.before") return;
    h.onProbe = () => {};
    throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
  };
};

describe("a part", () => {
  it("is text, metrics and the position in the source, all or nothing", async () => {
    await append({ text: "one\n", records: [metric(1, [["loss", 0.5]])], to: 100 });
    expect([stored(), sink.cursor("job1", 0, "run").sourceOffset]).toEqual(["one\n", 100]);
    breakCommit();
    await expect(
      append({ text: "two\n", records: [metric(2, [["loss", 0.4]])], from: 100, to: 200 }),
    ).rejects.toMatchObject({ code: "disk_full" });
    expect([stored(), sink.cursor("job1", 0, "run").sourceOffset]).toEqual(["one\n", 100]);
    await append({ text: "two\n", records: [metric(2, [["loss", 0.4]])], from: 100, to: 200 });
    expect(stored()).toBe("one\ntwo\n");
    expect(h.reads.metrics("job1", {}).series["loss"]?.map((p) => [p.step, p.value])).toEqual([
      [1, 0.5],
      [2, 0.4],
    ]);
  });

  it("has its alerts reported once, also when its first commit failed", async () => {
    const alerts: LogRecord[] = [{ kind: "alert", message: "the loss is odd", rank: 0, offset: 0 }];
    breakCommit();
    await expect(append({ records: alerts, to: 100 })).rejects.toMatchObject({ code: "disk_full" });
    await append({ records: alerts, to: 100 });
    await append({ records: alerts, from: 100, to: 200 });
    expect(h.published.filter(({ type }) => type === "alert").map(({ data }) => data)).toEqual([
      { message: "the loss is odd", rank: 0 },
    ]);
  });

  it("begins on a line of its own after missing bytes, and reports them once, also when its first commit failed", async () => {
    await append({ text: "half a line", to: 10 });
    const at = { jobId: "job1", node: 0, stream: "run" as const, records: [], samples: [], times: [] };
    const cursor = (sourceOffset: number) => ({ sourceOffset, samplesOffset: 0 });
    const part = { ...at, text: Buffer.from("svc: 5 bytes\n"), lost: "5 bytes", from: cursor(10), to: cursor(15) };
    breakCommit();
    await expect(sink.append(part)).rejects.toMatchObject({ code: "disk_full" });
    await sink.append(part);
    await expect(sink.append(part)).rejects.toMatchObject({ code: "log_moved_on" });
    expect(stored()).toBe("half a line\nsvc: 5 bytes\n");
    expect(h.published.filter(({ type }) => type === "notice").map(({ data }) => data)).toEqual([
      { level: "warning", message: "5 bytes" },
    ]);
  });

  it("The next part overwrites a part that a crash left in the file alone", async () => {
    await append({ text: "one\n", to: 10 });
    writeFileSync(file(), "one\nA LONG PART THAT WAS NEVER COMMITTED");
    expect(stored()).toBe("one\n");
    h = await h.restart();
    sink = newSink();
    await append({ text: "two\n", from: 10, to: 20 });
    expect([stored(), h.reads.logBytes("job1")]).toEqual(["one\ntwo\n", 8]);
    expect(readFileSync(file(), "utf8").startsWith("one\ntwo\n")).toBe(true);
  });

  it("is counted once, even if it arrives again", async () => {
    const other = newSink();
    await append({ text: "one\n", to: 10 });
    await expect(append({ text: "one\n", to: 10, of: other })).rejects.toMatchObject({ code: "log_moved_on" });
    const both = await Promise.allSettled([
      append({ text: "two\n", from: 10, to: 20 }),
      append({ text: "two\n", from: 10, to: 20 }),
    ]);
    expect(both.map((b) => b.status)).toEqual(["fulfilled", "rejected"]);
    expect(stored()).toBe("one\ntwo\n");
  });

  it("is counted once, even if two writers store it at the same time", async () => {
    const other = newSink();
    const both = await Promise.allSettled([
      append({ text: "one\n", records: [metric(1, [["loss", 0.5]])], to: 10 }),
      append({ text: "one\n", records: [metric(1, [["loss", 0.5]])], to: 10, of: other }),
    ]);
    expect(both.map((b) => b.status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(h.reads.metrics("job1", {}).series["loss"]).toHaveLength(1);
    expect([stored(), sink.cursor("job1", 0, "run").sourceOffset]).toEqual(["one\n", 10]);
  });

  it("does not count if its text cannot be written", async () => {
    mkdirSync(file());
    await expect(append({ text: "one\n", to: 10 })).rejects.toMatchObject({ code: "EISDIR" });
    expect(sink.cursor("job1", 0, "run").sourceOffset).toBe(0);
    rmSync(file(), { recursive: true });
    await append({ text: "one\n", to: 10 });
    expect(stored()).toBe("one\n");
  });

  it("A part that begins after the cursor or before it is refused", async () => {
    await append({ text: "one\n", to: 10 });
    for (const from of [0, 5, 11])
      await expect(append({ text: "x", from, to: from + 1 })).rejects.toMatchObject({ code: "log_moved_on" });
    expect(stored()).toBe("one\n");
  });

  it("The parts of all nodes go to the one log of the job, each as a whole", async () => {
    await Promise.all([append({ text: "node zero\n", to: 10 }), append({ text: "node one\n", to: 9, node: 1 })]);
    expect(stored()).toBe("node zero\nnode one\n");
    expect([0, 1].map((node) => sink.cursor("job1", node, "run").sourceOffset)).toEqual([10, 9]);
  });

  it("A run's text begins on its own line after an installation that ended within one, also after a crash in between", async () => {
    await append({ stream: "install", text: "installed", to: 9 });
    const of = newSink();
    await append({ text: "epoch 1", to: 7, of });
    await append({ text: " of 3\n", from: 7, to: 13, of });
    expect(stored()).toBe("installed\nepoch 1 of 3\n");
  });

  it("A run's text begins on its own line, although metrics came before it", async () => {
    await append({ stream: "install", text: "installed", to: 9 });
    await append({ records: [metric(0, [["loss", 1]])], to: 40 });
    await append({ text: "epoch 1\n", from: 40, to: 48, of: newSink() });
    expect(stored()).toBe("installed\nepoch 1\n");
  });

  it("waits for the commits of other jobs, but not while parts of its own job wait behind it", async () => {
    for (let i = 0; i < 64; i++) await h.engine.commit(() => undefined);
    const done: number[] = [];
    const all = [0, 1, 2].map((node) => append({ text: `node ${node}\n`, to: 7, node }).then(() => done.push(node)));
    await vi.waitFor(() => expect(done).toEqual([0, 1]), DEADLINE_MS);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(done).toEqual([0, 1]);
    await h.clock.advance(25);
    await Promise.all(all);
    expect(stored()).toBe("node 0\nnode 1\nnode 2\n");
  });

  it("A part of an older epoch changes no byte", async () => {
    await append({ text: "one\n", to: 10 });
    const newer = await Harness.open({}, h.home, h.clock);
    await expect(append({ text: "two\n", from: 10, to: 20 })).rejects.toMatchObject({ code: "stale_writer" });
    expect(readFileSync(file(), "utf8")).toBe("one\n");
    await newer.end();
  });

  it("is in a file that only its owner may read", async () => {
    await append({ text: "one\n", to: 10 });
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it("is reported to subscribers after its commit, and only if it is new", async () => {
    await append({ text: "one\n", records: [metric(1, [["a", 1]])], to: 10 });
    await append({ to: 11, from: 10 });
    expect(hints).toEqual([
      { type: "log.advanced", job_id: "job1", bytes: 4 },
      { type: "metrics.advanced", job_id: "job1" },
    ]);
  });
});

describe("the times of a log", () => {
  it("are kept for the first byte, and then at most five a second", async () => {
    for (const [i, atMs] of [0, 50, 199, 200, 350, 1_000].entries())
      await append({ text: "x", from: i, to: i + 1, atMs: START + atMs });
    expect(h.reads.logTimes("job1", 0)).toEqual([
      { offset: 0, at_ms: START },
      { offset: 3, at_ms: START + 200 },
      { offset: 5, at_ms: START + 1_000 },
    ]);
  });

  it("include the first byte's, also when its first commit failed", async () => {
    breakCommit();
    await expect(append({ text: "x", to: 1 })).rejects.toMatchObject({ code: "disk_full" });
    await append({ text: "x", to: 1 });
    expect(h.reads.logTimes("job1", 0)).toEqual([{ offset: 0, at_ms: START }]);
  });
});

describe("metrics", () => {
  it("are returned as they were logged, including values that are not numbers", async () => {
    const values: MetricRecord["values"] = [
      ["nan", "NaN"],
      ["up", "Infinity"],
      ["down", "-Infinity"],
      ["zero", -0],
      ["tiny", 5e-324],
      ["__proto__", 1],
    ];
    await append({ records: [metric(1, values)], to: 1 });
    const { series } = h.reads.metrics("job1", {});
    const value = (name: string) => h.reads.metrics("job1", { name }).series[name]?.[0]?.value;
    expect([value("nan"), value("up"), value("down"), value("tiny")]).toEqual(["NaN", "Infinity", "-Infinity", 5e-324]);
    expect(Math.abs(value("zero") as number)).toBe(0);
    expect(Object.keys(series)).toContain("nan");
    const names = h.store.db.prepare("SELECT name FROM series ORDER BY name").pluck().all();
    expect(names).toEqual(["__proto__", "down", "nan", "tiny", "up", "zero"]);
    expect(Object.keys(series).toSorted()).toEqual(names);
  });

  it("keep the order of arrival, even if a script begins again at step 0", async () => {
    await append({ records: [metric(1, [["loss", 3]]), metric(2, [["loss", 2]])], to: 10 });
    h = await h.restart();
    sink = newSink();
    await append({ records: [metric(0, [["loss", 9]]), metric(1, [["loss", 8]])], from: 10, to: 20 });
    expect(h.reads.metrics("job1", {}).series["loss"]?.map((p) => [p.step, p.value])).toEqual([
      [1, 3],
      [2, 2],
      [0, 9],
      [1, 8],
    ]);
  });
});

describe("samples of the machine", () => {
  it("become series; an unknown value is omitted", async () => {
    await sink.append({
      jobId: "job1",
      node: 0,
      stream: "run",
      text: Buffer.alloc(0),
      records: [],
      times: [],
      samples: [
        {
          at_ms: START,
          cpu_cores: 1.5,
          memory_bytes: null,
          disk_bytes_per_s: 0,
          net_bytes_per_s: null,
          processes: 3,
          terminal_idle_seconds: null,
          gpus: [
            {
              index: 1,
              util_percent: 90,
              memory_used_mib: null,
              memory_total_mib: null,
              power_watts: 300,
              temperature_c: null,
            },
          ],
        },
      ],
      from: { sourceOffset: 0, samplesOffset: 0 },
      to: { sourceOffset: 0, samplesOffset: 77 },
    });
    const { series } = h.reads.metrics("job1", {});
    expect(Object.fromEntries(Object.entries(series).map(([name, points]) => [name, points[0]?.value]))).toEqual({
      "system/cpu_cores": 1.5,
      "system/disk_bytes_per_s": 0,
      "system/gpu1_power_watts": 300,
      "system/gpu1_util_percent": 90,
    });
    expect(sink.cursor("job1", 0, "run")).toEqual({ sourceOffset: 0, samplesOffset: 77 });
  });
});

describe("checkpoints", () => {
  it("are recorded once by path, and each save is reported", async () => {
    const saved = (size: number) =>
      sink.checkpoints("job1", [{ path: "a/b.pt", size, modified_at: new Date(START).toISOString() }]);
    await saved(1);
    await saved(2);
    expect(h.reads.checkpoints("job1")).toEqual([
      { path: "a/b.pt", size: 2, modified_at: new Date(START).toISOString() },
    ]);
    expect(h.published.filter((e) => e.type === "checkpoint.saved").map((e) => e.data["size"])).toEqual([1, 2]);
    expect(h.reads.checkpointPath("job1", "a/b.pt")).toBe(join(h.home, "artifacts", "job1", "checkpoints", "a/b.pt"));
    expect(h.reads.checkpointPath("job1", "../b.pt")).toBeNull();
  });

  it("have the placement whose machine saved them, whatever the clocks of the machine and of this computer said", async () => {
    const save = (path: string, at: number) =>
      sink.checkpoints("job1", [{ path, size: 1, modified_at: new Date(at).toISOString() }]);
    await save("ahead.pt", START + 86_400_000);
    expect([...sink.placementsOf("job1")]).toEqual([]);
    const { job_id, candidate, seq, provider, gpus, region, spot } = h.store.lastPlacement("job1")!;
    const opened_at = START - 3_600_000;
    h.store.openPlacement({ job_id, n: 2, candidate, seq, provider, gpus, region, spot, opened_at });
    expect(sink.isEarlier("job1", ["ahead.pt"])).toBe(true);
    await save("late.pt", START);
    await save("ahead.pt", START + 86_400_000);
    expect([...sink.placementsOf("job1")]).toEqual([
      ["ahead.pt", 1],
      ["late.pt", 2],
    ]);
    expect([sink.savedBy("job1", "late.pt"), sink.savedBy("job1", "none.pt")]).toEqual([2, null]);
    expect(h.reads.checkpoints("job1").map(({ path, placement }) => [path, placement])).toEqual([
      ["ahead.pt", undefined],
      ["late.pt", 2],
    ]);
    expect([sink.isEarlier("job1", ["ahead.pt"]), sink.isEarlier("job1", ["ahead.pt", "late.pt"])]).toEqual([
      true,
      false,
    ]);
  });
});

describe("series by place", () => {
  it("continue exactly where a reader stopped, also among points of one step", async () => {
    await append({ records: [metric(1, [["loss", 1]]), metric(1, [["loss", "NaN"]])], to: 10 });
    const [loss] = h.reads.seriesList("job1");
    expect(loss).toMatchObject({ name: "loss", points: 2 });
    const id = loss?.id ?? 0;
    const first = h.reads.seriesPoints("job1", [{ id, from: 0 }], 100);
    expect(first).toMatchObject([{ from: 0, next: 2, thinned: false, step: [1, 1], value: [1, "NaN"], rank: [0, 0] }]);
    await append({ records: [metric(1, [["loss", 3]])], from: 10, to: 20 });
    expect(h.reads.seriesPoints("job1", [{ id, from: 2 }], 100)).toMatchObject([{ from: 2, next: 3, value: [3] }]);
    expect(h.reads.seriesPoints("job1", [{ id, from: 3 }], 100)).toMatchObject([{ from: 3, next: 3, value: [] }]);
    expect(h.reads.seriesPoints("another", [{ id, from: 0 }], 100)).toEqual([]);
    expect(h.reads.seriesPoints("job1", [{ id, from: 0 }], 2)).toMatchObject([{ thinned: true, next: 3 }]);
  });
});

describe("a summary of series", () => {
  it("has the extremes of finite values, the newest value and even samples", async () => {
    const values = [4, "NaN", 1, "Infinity", 2, 3] as const;
    await append({
      records: values.map((value, i) =>
        metric(i, [
          ["loss", value],
          ["lr", 1],
        ]),
      ),
      to: 10,
    });
    expect(h.reads.seriesNames(["job1"], 1)).toEqual({ names: ["loss"], more: true });
    expect(h.reads.seriesNames(["none"], 1)).toEqual({ names: [], more: false });
    const [loss, ...others] = h.reads.namedSeries(["job1", "none"], ["loss", "acc"]);
    expect(loss).toMatchObject({ jobId: "job1", name: "loss", points: 6 });
    expect(others).toEqual([]);
    const id = loss?.id ?? 0;
    expect(h.reads.seriesShape(id, 0, 6, 3)).toEqual({ min: 1, max: 4, last: 3, samples: [4, null, 3] });
    expect(h.reads.seriesShape(id, 2, 5, 24).samples).toEqual([4, null, 1, null, 2]);
    expect(h.reads.seriesShape(id, 1, 2, 1)).toEqual({ min: null, max: null, last: null, samples: [null] });
  });
});

describe("the log of a later placement", () => {
  const inPlacement = (n: number): void => {
    const now = h.engine.placement("job1");
    vi.spyOn(h.engine, "placement").mockReturnValue({ ...now, n });
  };

  it("continues the same log after one seam, on a line of its own, and its cursor begins at 0", async () => {
    inPlacement(1);
    await append({ text: "epoch 1\nepo", to: 11 });
    inPlacement(2);
    expect(sink.cursor("job1", 0, "run").sourceOffset).toBe(0);
    // The step may run twice.
    for (let i = 0; i < 2; i++) await sink.seam("job1", "svc: placement 2 continues");
    await append({ text: "epoch 2\n", to: 8 });
    inPlacement(3);
    await sink.seam("job1", "svc: placement 3 continues");
    expect(stored()).toBe("epoch 1\nepo\nsvc: placement 2 continues\nepoch 2\nsvc: placement 3 continues\n");
  });
});

describe("A log whose file something else removes or changes", () => {
  const notices = () =>
    h.published.filter(({ type }) => type === "notice").map(({ data }) => (data as { message: string }).message);
  const early = `${"early ".repeat(100)}\n`;
  const words = (bytes: number) =>
    `${bytes} bytes of this log are lost: something other than svc removed or changed its file.`;

  it.each([
    ["removes", () => rmSync(file()), 0],
    ["replaces", () => (renameSync(file(), `${file()}.old`), writeFileSync(file(), "")), 0],
    ["empties", () => truncateSync(file(), 0), 0],
    ["cuts short", () => truncateSync(file(), 300), 300],
    ["removes, with its folder,", () => rmSync(join(h.home, "logs"), { recursive: true }), 0],
  ])(
    "Says what is lost where something %s it between two parts, and keeps every later byte",
    async (_, spoil, kept) => {
      await append({ text: early, to: 10 });
      spoil();
      const lost = early.length - kept;
      // A reader is told before the next part arrives, too.
      const shown = (): string => h.reads.readLog("job1", 0, 10_000).toString();
      expect(shown().slice(kept).trim()).toMatch(new RegExp(`^svc: ${words(lost)}\n\0*$`));
      expect(shown().length).toBe(early.length);
      await append({ text: "later\n", from: 10, to: 16 });
      await append({ text: "last\n", from: 16, to: 21 });
      expect(shown().slice(0, kept)).toBe(early.slice(0, kept));
      expect(shown().slice(kept).replaceAll("\0", "")).toBe(
        `${kept > 0 ? "\n" : ""}svc: ${words(lost)}\n\nlater\nlast\n`,
      );
      expect(shown()).toBe(readFileSync(file(), "utf8"));
      expect(shown().indexOf("later")).toBe(early.length);
      expect(notices()).toEqual([words(lost)]);
    },
  );

  it("Says so after a restart, too", async () => {
    await append({ text: early, to: 10 });
    await sink.close();
    rmSync(file());
    sink = newSink();
    await append({ text: "later\n", from: 10, to: 16 });
    expect(notices()).toEqual([words(early.length)]);
    expect(stored().endsWith("\nlater\n")).toBe(true);
  });

  it("Says as much as fits into a small part, and every range of a large one reads the same", async () => {
    await append({ text: "a\nb\n", to: 4 });
    rmSync(file());
    expect(stored()).toBe("svc\n");
    await append({ text: early, from: 4, to: 14 });
    rmSync(file());
    const whole = stored();
    for (const at of [0, 1, 50, 200, whole.length - 1])
      for (const length of [1, 7, 300]) {
        const part = h.reads.readLog("job1", at, length).toString();
        expect(part).toBe(whole.slice(at, at + length));
      }
  });
});
