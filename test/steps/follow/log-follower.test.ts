import { beforeEach, describe, expect, it } from "vitest";
import type { LogRecord } from "../../../src/domain/log-stream.ts";
import { Redactor, REDACTED } from "../../../src/domain/redaction.ts";
import { SvcError } from "../../../src/errors/index.ts";
import type { Following, RunHost } from "../../../src/providers/host.ts";
import type { RunnerSample, RunnerStatus } from "../../../src/schemas/runner.ts";
import { announced, Follower, Undecided } from "../../../src/steps/follow/log-follower.ts";
import type { LogCursor, RunLogWriter } from "../../../src/steps/ports.ts";

const MARK = "k3yk3yk3yk3yk3y0";
const SECRET = "hunter2-hunter2";
const record = (step: number): string =>
  `\x1esvc1:${MARK} ${JSON.stringify({ k: "m", n: step, s: step, t: 1, r: 0, m: { loss: step } })}\n`;

/** A run whose log grows as the test writes it. */
class ScriptedRun {
  log = Buffer.alloc(0);
  samples: RunnerSample[] = [];
  /** Maximum number of samples in one answer. */
  samplesMax = Infinity;
  acked: number[] = [];
  /** Maximum bytes of one read, as on a busy host. */
  readMax = Infinity;
  clockAheadMs = 0;
  /** The first byte that the machine still has. */
  first = 0;
  /** The requests to `follow`, and its answer about the run. */
  readonly wants: Following[] = [];
  look: RunnerStatus | null = null;
  write(text: string | Buffer): void {
    this.log = Buffer.concat([this.log, Buffer.from(text as string)]);
  }
  get host(): RunHost {
    const slice = (wanted: number, max: number) => {
      const offset = Math.max(wanted, this.first);
      const bytes = this.log.subarray(offset, offset + Math.min(max, this.readMax));
      return { bytes, dropped: offset - wanted, times: [{ offset, atMs: 1 }], clockAheadMs: this.clockAheadMs };
    };
    return {
      readLog: (offset: number, max: number) => Promise.resolve(slice(offset, max)),
      follow: (want: Following) => {
        this.wants.push(want);
        return Promise.resolve({ look: this.look, slice: slice(want.offset, want.max) });
      },
      readSamples: (from: number) => {
        const samples = this.samples.slice(from, from + this.samplesMax);
        return Promise.resolve({ samples, next: from + samples.length });
      },
      ackLog: (offset: number) => Promise.resolve(void this.acked.push(offset)),
    } as unknown as RunHost; // the follower does not use the rest
  }
}

/** Keeps the written records, and moves its cursor like the real one. */
class KeptStory {
  text = "";
  steps: number[] = [];
  samples = 0;
  lost: string[] = [];
  at: LogCursor = { sourceOffset: 0, samplesOffset: 0 };
  fails: unknown = null;
  readonly sink = {
    cursor: () => this.at,
    append: (part: Parameters<RunLogWriter["append"]>[0]) => {
      const failure = this.fails;
      this.fails = null;
      if (failure !== null) return Promise.reject(failure);
      if (part.from.sourceOffset !== this.at.sourceOffset)
        return Promise.reject(new SvcError("log_moved_on", { job_id: "job1" }));
      this.text += part.text.toString();
      if (part.lost) this.lost.push(part.lost);
      this.steps.push(...part.records.flatMap((r) => (r.kind === "metrics" ? [r.step] : [])));
      this.samples += part.samples.length;
      this.at = part.to;
      return Promise.resolve();
    },
  } as unknown as RunLogWriter; // only these two are called while following
}

let run: ScriptedRun;
let story: KeptStory;
let undecided: Undecided;
beforeEach(() => {
  run = new ScriptedRun();
  story = new KeptStory();
  undecided = new Undecided();
});
const follow = (tag: string | null = null, host: RunHost = run.host, hears?: (records: LogRecord[]) => void) =>
  new Follower({
    ...(hears && { hears }),
    jobId: "job1",
    node: 0,
    tag,
    stream: "run",
    host,
    sink: story.sink,
    mark: MARK,
    redactor: new Redactor([SECRET, MARK]),
    signal: new AbortController().signal,
    undecided,
  });
const over = (log_bytes: number | null): RunnerStatus => ({
  phase: "exited",
  nonce: "n",
  runner_pid: 1,
  runner_start: 0,
  boot_id: "b",
  pid: 2,
  started_at_ms: 0,
  ended_at_ms: 1,
  exit_code: 0,
  signal: null,
  stopped: false,
  preempted: false,
  oom: false,
  not_runnable: false,
  left: [],
  log_bytes,
  error: null,
});
const sample = { at_ms: 1 } as RunnerSample;

describe("a pull", () => {
  it("separates text and records, and continues from its cursor", async () => {
    const follower = follow();
    run.write(`a\n${record(1)}b\n`);
    expect(await follower.pull(null, false)).toMatchObject({ bytes: run.log.length, records: [{ step: 1 }] });
    run.write("c\n");
    await follower.pull(null, false);
    expect([story.text, story.steps, follower.offset]).toEqual(["a\nb\nc\n", [1], run.log.length]);
  });

  it("stores metrics by the clock of this computer where that of their machine is off", async () => {
    run.clockAheadMs = -500_000;
    const heard: LogRecord[] = [];
    run.write(record(1));
    await follow(null, run.host, (records) => heard.push(...records)).pull(null, false);
    expect(heard).toMatchObject([{ kind: "metrics", time: 501 }]);
  });

  it("leaves the beginning of a record until the rest has arrived", async () => {
    const follower = follow();
    const [head, tail] = [record(1).slice(0, 30), record(1).slice(30)];
    run.write(`text${head}`);
    expect(await follower.pull(null, false)).toMatchObject({ bytes: 4 });
    expect(await follower.pull(null, false)).toMatchObject({ bytes: 0 });
    run.write(tail);
    await follower.pull(null, false);
    expect([story.text, story.steps]).toEqual(["text", [1]]);
  });

  it("holds back the beginning of a possible secret, and passes it on if it is not one", async () => {
    const follower = follow();
    run.write(`key=${SECRET.slice(0, 7)}`);
    await follower.pull(null, false);
    expect(story.text).toBe("key=");
    run.write(`${SECRET.slice(7)}\n`);
    await follower.pull(null, false);
    expect(story.text).toBe(`key=${REDACTED}\n`);
    run.write("hunt");
    await follower.pull(null, false);
    run.write("ing\n");
    await follower.pull(null, false);
    expect(story.text).toBe(`key=${REDACTED}\nhunting\n`);
  });

  it("stores nothing without new data, and stores samples that arrive without text", async () => {
    const follower = follow();
    story.fails = new TypeError("nothing should be written");
    expect(await follower.pull(null, true)).toEqual({ bytes: 0, records: [], samples: [] });
    story.fails = null;
    run.samples.push(sample, sample);
    await follower.pull(null, true);
    await follower.pull(null, true);
    expect([story.samples, story.at]).toEqual([2, { sourceOffset: 0, samplesOffset: 2 }]);
  });

  it("is repeated if it could not be stored, by the same follower or the next", async () => {
    const follower = follow();
    run.write(`a\n${record(1)}`);
    story.fails = new SvcError("disk_full", { path: "/home" });
    await expect(follower.pull(null, false)).rejects.toMatchObject({ code: "disk_full" });
    expect(follower.offset).toBe(0);
    await follower.pull(null, false);
    await follow().pull(null, false);
    expect([story.text, story.steps]).toEqual(["a\n", [1]]);
  });

  it("reports its records before it is stored: a listener has them whatever happens in between", async () => {
    const told: LogRecord[] = [];
    const refuses: Parameters<typeof follow>[2] = () => {
      throw new SvcError("disk_full", { path: "/home" });
    };
    run.write(record(1));
    await expect(follow(null, run.host, refuses).pull(null, false)).rejects.toMatchObject({ code: "disk_full" });
    expect([story.at.sourceOffset, story.steps]).toEqual([0, []]);
    await follow(null, run.host, (records) => void told.push(...records)).pull(null, false);
    expect([told.length, story.steps]).toEqual([1, [1]]);
  });

  it("yields to a faster follower, and its next pull continues after that one's data", async () => {
    const [slow, fast] = [follow(), follow()];
    run.write("one\n");
    await fast.pull(null, false);
    await slow.pull(null, false);
    run.write("two\n");
    await slow.pull(null, false);
    expect(story.text).toBe("one\ntwo\n");
  });

  it("acknowledges bytes to the spool only after they are stored", async () => {
    const follower = follow();
    run.write(Buffer.alloc(5 * 1024 * 1024, "x"));
    story.fails = new SvcError("disk_full", { path: "/home" });
    await expect(follower.pull(run.log.length, false)).rejects.toMatchObject({ code: "disk_full" });
    expect(run.acked).toEqual([]);
    while (follower.offset < run.log.length) await follower.pull(run.log.length, false);
    expect(run.acked).toEqual([run.log.length]);
  });
});

describe("the end of a run", () => {
  it("downloads everything, including the tails that were held back", async () => {
    run.write(`a\n${record(1)}b ${SECRET.slice(0, 5)}`);
    run.samples.push(sample);
    const follower = follow();
    await follower.pull(null, false);
    expect(story.text).toBe("a\nb ");
    await follower.drain(over(run.log.length));
    expect([story.text, story.samples, follower.offset]).toEqual([`a\nb ${SECRET.slice(0, 5)}`, 1, run.log.length]);
    expect(run.acked.at(-1)).toBe(run.log.length);
  });

  it("has all samples of a run that was not watched for hours, although one answer has a limit", async () => {
    run.write("end\n");
    run.samples.push(...Array.from({ length: 7 }, () => sample));
    run.samplesMax = 2;
    await follow().drain(over(run.log.length));
    expect(story.samples).toBe(7);
  });

  it.each([null, "known"])(
    "cuts no record and no secret in two, in however small pieces it is read (length: %s)",
    async (known) => {
      run.write(Array.from({ length: 40 }, (_, i) => `line ${i} ${SECRET}\n${record(i)}`).join(""));
      run.readMax = 97;
      await follow().drain(over(known === null ? null : run.log.length));
      expect(story.steps).toEqual(Array.from({ length: 40 }, (_, i) => i));
      expect(story.text).toBe(Array.from({ length: 40 }, (_, i) => `line ${i} ${REDACTED}\n`).join(""));
    },
  );

  it("does not wait for ever for missing bytes, and reports their number", async () => {
    run.write("only this");
    expect(await follow().drain(over(1_000))).toBe(991);
    expect(story.text).toBe("only this");
  });

  it("reads again before it counts bytes that the runner reported as lost", async () => {
    run.write("at first only this");
    const reads = run.host.readLog;
    let looks = 0;
    const late = () => {
      if (++looks === 3) run.write(", then the rest\n");
    };
    const host = { ...run.host, readLog: (...asked: Parameters<RunHost["readLog"]>) => (late(), reads(...asked)) };
    expect(await follow(null, host).drain(over(34))).toBe(0);
    expect(story.text).toBe("at first only this, then the rest\n");
  });

  it("may arrive twice", async () => {
    run.write("once\n");
    await follow().drain(over(5));
    await follow().drain(over(5));
    expect(story.text).toBe("once\n");
  });
});

describe("a home that was restored from an older copy", () => {
  it.each([null, "[n] "])(
    "continues at the first byte that is there, and says once what is missing (tag: %s)",
    async (tag) => {
      run.write(`a\nstored and deleted\n${record(1)}b\n${record(2)}`);
      [run.first, run.readMax] = [21, 100];
      story.at = { sourceOffset: 2, samplesOffset: 0 };
      const follower = follow(tag);
      expect(await follower.pull(null, false)).toMatchObject({ records: [{ step: 1 }] });
      expect(await follow(tag).drain(over(run.log.length))).toBe(0);
      const words = "19 bytes of the log are missing here, because the machine no longer has them.";
      expect(story.lost).toEqual([expect.stringContaining(words)]);
      expect(story.text).toBe(`${tag ?? ""}svc: ${story.lost[0]}\n${tag ?? ""}b\n`);
      expect([story.steps, story.at.sourceOffset, follower.offset > 21]).toEqual([[1, 2], run.log.length, true]);
    },
  );

  it("stores nothing twice, and reports no gap, if a faster follower has stored the missing bytes", async () => {
    run.write("one\ntwo\nthree\n");
    const [slow, fast] = [follow(), follow()];
    await fast.pull(null, false);
    run.first = 8;
    run.write("four\n");
    expect((await slow.pull(null, false)).bytes).toBeGreaterThan(0);
    await slow.pull(null, false);
    expect([story.text, story.lost]).toEqual(["one\ntwo\nthree\nfour\n", []]);
  });

  it("shows no half of a secret that was cut", async () => {
    run.write(`key ${SECRET}\nend\n`);
    run.first = 8;
    await follow().drain(over(run.log.length));
    expect(story.text.split("\n").slice(1)).toEqual([REDACTED, "end", ""]);
  });
});

describe("announced checkpoints", () => {
  it("are named relative to the folder, whatever the working directory of the script", () => {
    const said = (path: string) => ({ kind: "checkpoint" as const, path, step: null, time: 5.25, rank: 0, offset: 0 });
    expect(announced([said("/c/a.pt"), said("b/c.pt"), said("/cc/d.pt")], "/c").map(({ path }) => path)).toEqual([
      "a.pt",
      "b/c.pt",
      "/cc/d.pt",
    ]);
    const at = (time: number | null) => announced([{ ...said("a"), time }], "/c").map((each) => each.at);
    expect([1.25, null, 1e306, -1e306, Number.NaN].flatMap(at)).toEqual([1_250, null, null, null, null]);
    expect(announced([said("/c/a.pt")], "/c/")).toEqual([{ path: "a.pt", step: null, at: 5_250 }]);
  });
});

describe("the lines of several nodes in one log", () => {
  it("are whole and begin with their node, however the stream is cut", async () => {
    const text = `first\n${record(1)}sec${record(2)}ond\rthird ${SECRET} end\n\nlast without end`;
    for (let cut = 1; cut < text.length; cut += 7) {
      run = new ScriptedRun();
      story = new KeptStory();
      run.write(text.slice(0, cut));
      await follow("[node1] ").pull(null, false);
      run.write(text.slice(cut));
      const follower = follow("[node1] ");
      await follower.pull(null, false);
      await follower.drain(over(Buffer.byteLength(text)));
      const lines = ["first", `second\rthird ${REDACTED} end`, "", "last without end"].map((l) => `[node1] ${l}`);
      // A progress bar that is rewritten may be split at a rewrite, and nowhere else.
      expect(story.text.replaceAll("\r[node1] ", "\r")).toBe(`${lines.join("\n")}\n`);
      expect(story.steps).toEqual([1, 2]);
    }
  });

  it("are cut if they never end, and do not delay the log", async () => {
    run.write("x".repeat(200_000));
    const pulled = await follow("[n] ").pull(null, false);
    expect(pulled.bytes).toBe(200_000);
    run.write("abc");
    expect(await follow("[n] ").pull(null, false)).toMatchObject({ bytes: 0 });
    expect(story.text).toBe(`[n] ${"x".repeat(200_000)}\n`);
  });
});

describe("the wait for more data", () => {
  const never = () => false;
  const lastWant = () => run.wants.at(-1);

  it("is more than was seen, from the byte that was not taken", async () => {
    const follower = follow();
    await follower.next(0, never);
    expect(lastWant()).toMatchObject({ offset: 0, seen: 0, waitMs: 0 });
    run.write(`loss ${SECRET.slice(0, 5)}`);
    expect((await follower.next(9, never)).pulled.bytes).toBe(5);
    await follower.next(9, never);
    expect(lastWant()).toMatchObject({ offset: 5, seen: 10, waitMs: 9 });
    // Another control plane resumes from the stored cursor.
    await follow().next(9, never);
    expect(lastWant()).toMatchObject({ offset: 5, seen: 5 });
  });

  it("does not happen if the data could not be stored, or another follower stored it", async () => {
    const follower = follow();
    run.write("abc\n");
    story.fails = new Error("no room");
    await expect(follower.next(0, never)).rejects.toThrow("no room");
    await follower.next(9, never);
    expect(lastWant()).toMatchObject({ offset: 0, seen: 0 });
    run.write("def\n");
    story.fails = new SvcError("log_moved_on", { job_id: "job1" });
    await follower.next(9, never);
    await follower.next(9, never);
    expect(lastWant()).toMatchObject({ offset: 4, seen: 4 });
  });

  it("is decided to the last byte when the run is over", async () => {
    const follower = follow();
    run.write(`loss ${SECRET.slice(0, 5)}`);
    run.look = over(10);
    expect(await follower.next(0, never)).toMatchObject({ look: { phase: "exited" }, pulled: { bytes: 10 } });
    expect(story.text).toBe(`loss ${SECRET.slice(0, 5)}`);
  });
});

describe("uncommitted data, when no more arrives", () => {
  it.each([
    ["the first letters of a secret, as they are", "line h", "line h"],
    ["half a secret, hidden", `key=${SECRET.slice(0, 9)}`, `key=${REDACTED}`],
    [
      "the beginning of a record, without its mark",
      `text${record(1).slice(0, 40)}`,
      /^text\x1esvc1:\*\*\*redacted\*\*\* \{"k"/,
    ],
  ])("becomes text: %s", async (_, written, stored) => {
    run.write(written);
    await follow().pull(null, false);
    await undecided.settle("job1", 0);
    expect(story.text).toEqual(typeof stored === "string" ? stored : expect.stringMatching(stored));
    expect(story.at.sourceOffset).toBe(run.log.length);
  });

  it("becomes a line of its node, with the records that waited behind it", async () => {
    run.write(`one\ntw${record(7)}`);
    await follow("[node0] ").pull(null, false);
    expect([story.text, story.steps]).toEqual(["[node0] one\n", []]);
    await undecided.settle("job1", 0);
    expect([story.text, story.steps]).toEqual(["[node0] one\n[node0] tw\n", [7]]);
  });

  it("is written once, also when it is settled again, and after a failure", async () => {
    run.write("line h");
    await follow().pull(null, false);
    story.fails = new Error("no room");
    await expect(undecided.settle("job1", 0)).rejects.toThrow("no room");
    await undecided.settle("job1", 0);
    await undecided.settle("job1", 0);
    expect(story.text).toBe("line h");
  });

  it("is left alone if another follower has stored it since, or it belongs to another node", async () => {
    run.write("line h");
    await follow().pull(null, false);
    await undecided.settle("job1", 1);
    expect(story.text).toBe("line ");
    run.write("ello\n");
    const later = follow();
    await later.pull(null, false);
    await undecided.settle("job1", 0);
    expect(story.text).toBe("line hello\n");
  });
});
