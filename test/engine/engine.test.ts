import { afterAll, afterEach, describe, expect, it } from "vitest";
import { retryDelayMs } from "../../src/engine/effect-runner.ts";
import { SvcError } from "../../src/errors/index.ts";
import { PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import { ACTIVE_STATUSES, STEP_NAMES } from "../../src/schemas/names.ts";
import { type Attempt, full, Harness, KILL, removeHomes, START, turn, type HarnessOptions } from "./harness.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const open: Harness[] = [];
afterEach(async () => {
  for (const h of open.splice(0)) if (h.store.db.open) await h.end();
});
afterAll(removeHomes);

async function begin(options: HarnessOptions = {}): Promise<Harness> {
  const h = await Harness.open(options);
  open.push(h);
  return h;
}
async function again(h: Harness, options: HarnessOptions = {}): Promise<Harness> {
  const next = await h.restart(options);
  open.push(next);
  return next;
}
const flaky = () => new SvcError("provider_error", { provider: "local", why: "it is having a bad day" });
const hopeless = () => new SvcError("price_cap_exceeded", { offered: 2, cap: 1, outcome: "Nothing was rented" });

describe("a new job", () => {
  it("commits its row, first journal entry, first step and timer together, and only then begins", async () => {
    const h = await begin();
    let seen: unknown[] = [];
    h.onProbe = (point) => {
      // Within the transaction all rows exist, and no effect has started.
      if (point !== "commit.before") return;
      const { db } = h.store;
      const count = (table: string) => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
      seen = [...["job", "journal", "effect", "attempt", "timer"].map(count), h.attempts.length];
      h.onProbe = () => {};
    };
    await h.create();
    expect(seen).toEqual([1, 1, 1, 1, 1, 0]);
    expect(h.row()).toMatchObject({ seq: 1, state: "provisioning", status: "provisioning", created_at: START });
    expect(h.story()).toEqual(["provision 1 running"]);
    expect(h.attempts.map((a) => a.step)).toEqual(["provision"]);
  });

  it("does not exist, and starts no step, when its commit fails", async () => {
    const h = await begin();
    h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    await expect(h.create()).rejects.toMatchObject({ code: "disk_full" });
    expect([h.store.job("job1"), h.attempts, h.published]).toEqual([undefined, [], []]);
  });

  it("passes all states when every step succeeds, and its journal folds to its snapshot", async () => {
    const h = await begin();
    await h.create();
    const terminate = await h.upTo("terminate");
    expect(h.row().state).toBe("terminating");
    await terminate.done();
    expect(h.row()).toMatchObject({ state: "terminal", status: "succeeded", exit_code: 0 });
    // A job with one candidate and no waiting skips the step `place`.
    expect(h.story()).toEqual(STEP_NAMES.filter((step) => step !== "place").map((step) => `${step} 1 succeeded`));
    expect(h.folds()).toBe(true);
    expect(h.store.timers()).toEqual([]);
    expect(h.reads.timeline("job1").transitions.map((t) => t.to)).toEqual([
      ...ACTIVE_STATUSES.filter((state) => state !== "waiting"),
      "terminal",
    ]);
  });

  it("is created once for one key, even for two calls in one turn", async () => {
    const h = await begin();
    const calls = await Promise.allSettled([h.create("a", { key: "k" }), h.create("b", { key: "k" })]);
    expect(calls.map((c) => c.status)).toEqual(["fulfilled", "rejected"]);
    expect(h.store.jobByKey("k")?.id).toBe("a");
    expect(h.store.liveJobs().map((j) => j.id)).toEqual(["a"]);
    expect(h.attempts.map((a) => a.context.jobId)).toEqual(["a"]);
  });
});

describe("a result", () => {
  it("is stored with its changes: the step's end, the event and the next step in one commit", async () => {
    const h = await begin();
    await h.create();
    h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    void h.attempt("provision").done();
    await turn();
    expect([h.row().state, h.story()]).toEqual(["provisioning", ["provision 1 running"]]);
    h.onProbe = () => {};
    await h.clock.advance(2_000);
    expect([h.row().state, h.story()]).toEqual(["awaiting_ssh", ["provision 1 succeeded", "await_ssh 1 running"]]);
  });

  it("releases the disk's reserve when the disk is full", async () => {
    let asked = 0;
    const h = await begin({ engine: { onDiskFull: () => void asked++ } });
    await h.create();
    h.onProbe = (point) => {
      if (point === "commit.before" && asked === 0) throw full();
    };
    await h.attempt("provision").done();
    await h.clock.advance(2_000);
    expect([asked, h.row().state]).toEqual([1, "awaiting_ssh"]);
  });

  it("A result that comes after the job left its state changes nothing", async () => {
    const h = await begin();
    await h.create();
    const late = h.attempt("provision");
    await h.kill();
    const before = h.store.journal("job1").length;
    await late.done();
    expect(h.store.journal("job1")).toHaveLength(before);
    expect(h.story()).toEqual(["provision 1 cancelled", "terminate 1 running"]);
    expect(h.row().state).toBe("terminating");
  });

  it("A result and a kill of the same turn are decided by their order", async () => {
    const h = await begin();
    await h.create();
    const killed = h.engine.send("job1", KILL);
    h.attempt("provision").result.resolve({ done: {} });
    await killed;
    await turn();
    expect(h.row().state).toBe("terminating");
    expect(h.story()[0]).toBe("provision 1 cancelled");
    expect(h.folds()).toBe(true);
  });

  it("A result of an earlier process is not accepted: only the current attempt counts", async () => {
    const h = await begin();
    await h.create();
    const { effectId } = h.attempt("provision").context;
    const next = await again(h);
    await next.engine.recover();
    await turn();
    expect(next.attempt("provision").context).toMatchObject({ effectId, attempt: 2 });
    expect(next.store.settleEffect(effectId, 1, "done", null)).toBe(false);
    await next.attempt("provision").done();
    expect(next.store.settleEffect(effectId, 2, "done", null)).toBe(false);
    expect(next.story()).toEqual(["provision 1 cancelled", "provision 2 succeeded", "await_ssh 1 running"]);
  });
});

describe("leaving a state", () => {
  it("aborts the signals of its steps, and of no other job", async () => {
    const h = await begin();
    await h.create("a");
    await h.create("b");
    const [a, b] = ["a", "b"].map((id) => h.attempts.find((x) => x.context.jobId === id)) as [Attempt, Attempt];
    await h.kill("a");
    expect([a.context.signal.aborted, b.context.signal.aborted]).toEqual([true, false]);
  });

  it("removes its timers", async () => {
    const h = await begin();
    await h.create();
    expect(h.store.timers().map((t) => t.name)).toEqual(["phase"]);
    await h.kill();
    expect(h.store.timers()).toEqual([]);
    await h.clock.advance(PHASE_LIMIT_MS.provisioning + 1);
    expect(h.store.journal("job1").map((j) => j.type)).toEqual(["job.created", "job.kill"]);
  });

  it("cancels a retry that waits", async () => {
    const h = await begin();
    await h.create();
    await h.attempt("provision").fail(flaky());
    await h.kill();
    await h.clock.advance(60 * 60_000);
    expect(h.attempts.map((a) => a.step)).toEqual(["provision", "terminate"]);
    expect(h.story()).toEqual(["provision 1 failed", "terminate 1 running"]);
  });
});

describe("a failure", () => {
  it("is retried after a growing wait, and the timeline says when", async () => {
    const h = await begin();
    await h.create();
    await h.attempt("provision").fail(flaky());
    const [waiting] = h.reads.timeline("job1").steps;
    const due = Date.parse(waiting?.next_attempt_at ?? "");
    expect(waiting).toMatchObject({ attempt: 1, status: "retrying", error: { code: "provider_error" } });
    expect(due - START).toBeGreaterThanOrEqual(1_000);
    expect(due - START).toBeLessThanOrEqual(2_000);
    await h.clock.advance(due - h.clock.now() - 1);
    expect(h.attempts).toHaveLength(1);
    await h.clock.advance(1);
    expect(h.attempt("provision").context.attempt).toBe(2);
    expect(h.story()).toEqual(["provision 1 failed", "provision 2 running"]);
    expect(h.reads.timeline("job1").steps.map((s) => s.next_attempt_at)).toEqual([null, null]);
  });

  it("ends the job when attempts are used up", async () => {
    const h = await begin();
    await h.create();
    for (let i = 0; i < 3; i++) {
      await h.attempt("provision").fail(flaky());
      if (i < 2) await h.clock.advance(60_000);
    }
    expect(h.story()).toEqual([
      "provision 1 failed",
      "provision 2 failed",
      "provision 3 failed",
      "terminate 1 running",
    ]);
    expect(h.row().state).toBe("terminating");
    await h.attempt("terminate").done();
    expect(h.reads.job("job1")).toMatchObject({ status: "failed", error: { code: "provider_error" } });
  });

  it("A permanent failure ends the job at once", async () => {
    const h = await begin();
    await h.create();
    await h.attempt("provision").fail(hopeless());
    expect(h.story()).toEqual(["provision 1 failed", "terminate 1 running"]);
  });

  it("An unexpected error becomes a failure of the engine, and keeps its message", async () => {
    const h = await begin({ retry: { provision: { attemptsMax: 1, delayMsMin: 1, delayMsMax: 1 } } });
    await h.create();
    await h.attempt("provision").fail(new TypeError("x is not a function"));
    expect(h.row().error).toMatch(/internal_error.*x is not a function/);
  });

  it("A failed release is retried without end, whatever its error says", async () => {
    const h = await begin();
    await h.create();
    await h.kill();
    for (let i = 1; i <= 30; i++) {
      await h.attempt("terminate").fail(hopeless());
      expect(h.row().state).toBe("terminating");
      await h.clock.advance(60_000);
      expect(h.attempt("terminate").context.attempt).toBe(i + 1);
    }
    await h.attempt("terminate").done();
    expect(h.row().status).toBe("cancelled");
  });

  it("waits as long as its policy says: doubling, jittered, bounded, the same in every run", () => {
    const policy = { attemptsMax: 9, delayMsMin: 1_000, delayMsMax: 30_000 };
    for (let effect = 1; effect < 200; effect++) {
      for (let attempt = 1; attempt < 40; attempt++) {
        const ms = retryDelayMs(policy, effect, attempt);
        expect(ms).toBeGreaterThanOrEqual(1_000);
        expect(ms).toBeLessThanOrEqual(Math.min(30_000, 1_000 * 2 ** attempt));
        expect(ms).toBe(retryDelayMs(policy, effect, attempt));
      }
    }
    expect(new Set(Array.from({ length: 50 }, (_, i) => retryDelayMs(policy, i, 5))).size).toBeGreaterThan(45);
  });

  it("is the result of an attempt that exceeds its limit, and its late answer is ignored", async () => {
    const h = await begin({ attemptMs: { provision: 5_000 } });
    await h.create();
    const slow = h.attempt("provision");
    await h.clock.advance(5_000);
    expect(slow.context.signal.aborted).toBe(true);
    expect(h.reads.timeline("job1").steps[0]).toMatchObject({ status: "retrying", error: { code: "step_timed_out" } });
    await slow.done();
    expect(h.row().state).toBe("provisioning");
  });
});

describe("`later`", () => {
  it("runs again in the same attempt, counts as no failure and adds no row", async () => {
    const h = await begin();
    await h.create();
    for (let i = 0; i < 10; i++) {
      await h.attempt("provision").later(3_000, "no answer yet");
      expect(h.reads.timeline("job1").steps).toMatchObject([
        {
          attempt: 1,
          status: "running",
          detail: { waiting_for: "no answer yet" },
          next_attempt_at: new Date(h.clock.now() + 3_000).toISOString(),
        },
      ]);
      await h.clock.advance(3_000);
    }
    expect(h.attempts).toHaveLength(11);
    expect(new Set(h.attempts.map((a) => a.context.attempt))).toEqual(new Set([1]));
    await h.attempt("provision").done();
    expect(h.story()).toEqual(["provision 1 succeeded", "await_ssh 1 running"]);
  });

  it("is waited for after a restart, too, and then does not count as a failure", async () => {
    const h = await begin();
    await h.create();
    await h.attempt("provision").later(10_000);
    const next = await again(h);
    await next.engine.recover();
    await next.clock.advance(9_999);
    expect(next.attempts).toEqual([]);
    await next.clock.advance(1);
    expect(next.attempts.map((a) => a.step)).toEqual(["provision"]);
    expect(next.story()).toEqual(["provision 1 cancelled", "provision 2 running"]);
    expect(next.store.failures(next.attempt("provision").context.effectId)).toBe(0);
  });
});

describe("when a step first failed with an error", () => {
  it("is known to each later attempt, also after a restart", async () => {
    const h = await begin();
    await h.create();
    const noOffer = () => new SvcError("no_offer", { provider: "local", gpus: "A100" });
    expect(h.attempt("provision").context.firstFailedAt("no_offer")).toBeNull();
    const first = h.clock.now();
    await h.attempt("provision").fail(noOffer());
    await h.clock.advance(PHASE_LIMIT_MS.provisioning / 10);
    await h.attempt("provision").fail(noOffer());
    const next = await again(h);
    await next.engine.recover();
    await next.clock.advance(PHASE_LIMIT_MS.provisioning / 10);
    const { context } = next.attempt("provision");
    expect(context.firstFailedAt("no_offer")).toBe(first);
    expect(context.firstFailedAt("provider_error")).toBeNull();
  });
});

describe("progress", () => {
  it("is on the timeline within half a second, the last report wins, and it is not a transition", async () => {
    const h = await begin();
    await h.create();
    const { context } = h.attempt("provision");
    context.progress({ percent: 1 });
    context.progress({ percent: 2 });
    await h.clock.advance(500);
    expect(h.reads.timeline("job1").steps[0]?.detail).toEqual({ percent: 2 });
    expect(h.row().seq).toBe(1);
    await h.attempt("provision").fail(flaky());
    expect(h.reads.timeline("job1").steps[0]?.detail).toEqual({ percent: 2 });
  });
});

describe("a timer", () => {
  it("is a row that outlives the process", async () => {
    const h = await begin();
    await h.create();
    const next = await again(h);
    await next.engine.recover();
    await next.clock.advance(PHASE_LIMIT_MS.provisioning - 1);
    expect(next.row().state).toBe("provisioning");
    await next.clock.advance(1);
    expect(next.row().state).toBe("terminating");
    expect(next.row().error).toMatch(/step_timed_out/);
    expect(next.folds()).toBe(true);
  });

  it("Timers that expired while no control plane ran fire at the start, the oldest first", async () => {
    const h = await begin();
    for (const id of ["c", "a", "b"]) {
      await h.create(id, { maxRuntimeMs: MINUTE_MS });
      await h.upTo("stream");
      await h.clock.advance(1_000);
    }
    await h.end();
    await h.clock.jump(DAY_MS);
    const next = await Harness.open({}, h.home, h.clock);
    open.push(next);
    await next.engine.recover();
    await next.clock.advance(0);
    const fired = next.reads.eventsSince(0, { limit: 1_000 }).filter((e) => e.data["event"] === "timer.max_runtime");
    expect(fired.map((e) => e.job_id)).toEqual(["c", "a", "b"]);
  });

  describe("The time for a collection that ran out while svc was away", () => {
    const isOver = (h: Harness): boolean => h.attempts.some((a) => a.step === "terminate");
    async function collecting(): Promise<Harness> {
      const h = await begin();
      await h.create();
      await h.upTo("stream");
      await h.kill();
      return h;
    }
    async function wokenAfter(h: Harness, ms: number): Promise<Harness> {
      await h.end();
      await h.clock.jump(ms);
      const next = await Harness.open({}, h.home, h.clock);
      open.push(next);
      await next.engine.recover();
      await next.clock.advance(1_000);
      return next;
    }

    it("ends nothing at the next start", async () => {
      const h = await wokenAfter(await collecting(), 15 * MINUTE_MS);
      expect([isOver(h), h.attempt("collect").context.signal.aborted]).toEqual([false, false]);
      await h.clock.advance(9 * MINUTE_MS);
      expect(isOver(h)).toBe(false);
      await h.clock.advance(MINUTE_MS);
      expect(isOver(h)).toBe(true);
      expect(h.folds()).toBe(true);
    });

    it("ends nothing when the computer wakes up", async () => {
      const h = await collecting();
      await h.clock.jump(15 * MINUTE_MS);
      expect([isOver(h), h.attempt("collect").context.signal.aborted]).toEqual([false, false]);
      await h.attempt("collect").done({ exit_code: 0 });
      expect(isOver(h)).toBe(true);
    });

    it("ends the downloads of a control plane that ends again and again for a day", async () => {
      const first = await wokenAfter(await collecting(), 23.9 * 60 * MINUTE_MS);
      expect(isOver(first)).toBe(false);
      expect(isOver(await wokenAfter(first, 12 * MINUTE_MS))).toBe(true);
    });
  });

  it("may be due in more than 24.8 days", async () => {
    const h = await begin();
    await h.create("job1", { maxRuntimeMs: 60 * DAY_MS });
    await h.upTo("stream");
    await h.clock.jump(30 * DAY_MS);
    expect(h.row().state).toBe("running");
    await h.clock.jump(30 * DAY_MS);
    await h.clock.advance(30_000);
    expect(h.row()).toMatchObject({ state: "terminating" });
    expect(h.row().error).toMatch(/run_timed_out/);
  });

  it("fires once, after any number of requests", async () => {
    const h = await begin();
    await h.create();
    await h.clock.jump(2 * PHASE_LIMIT_MS.provisioning);
    await h.clock.advance(11 * MINUTE_MS);
    expect(h.store.journal("job1").filter((j) => j.type === "timer.phase")).toHaveLength(1);
  });
});

describe("a writer that was overtaken", () => {
  it("writes nothing and reports that", async () => {
    const h = await begin();
    await h.create();
    const newer = await Harness.open({}, h.home, h.clock);
    open.push(newer);
    await expect(h.engine.send("job1", KILL)).rejects.toMatchObject({ code: "stale_writer" });
    await h.attempt("provision").done();
    expect(newer.row()).toMatchObject({ seq: 1, state: "provisioning" });
    expect(h.reports).toEqual([expect.stringContaining("newer") as string]);
    await newer.kill();
    expect(newer.row().state).toBe("terminating");
  });
});

describe("the feed", () => {
  it("is published after its commit, without gaps, in order, and can be replayed", async () => {
    const h = await begin();
    await h.create();
    await (await h.upTo("terminate")).done();
    const stored = h.reads.eventsSince(0, { limit: 1_000 });
    expect(h.published).toEqual(stored);
    expect(stored.map((e) => e.seq)).toEqual(stored.map((_, i) => i + 1));
    const names = stored.map((e) => [e.type, e.data["step"] ?? e.data["to"]].filter(Boolean).join(" "));
    expect(names.slice(0, 5)).toEqual([
      "job.created",
      "step.started provision",
      "step.succeeded provision",
      "job.transition awaiting_ssh",
      "step.started await_ssh",
    ]);
    expect(names.slice(-2)).toEqual(["step.succeeded terminate", "job.transition terminal"]);
  });
});

describe("a job that is over", () => {
  it("accepts no event: not a kill, not a failure", async () => {
    const h = await begin();
    await h.create();
    await h.kill();
    await h.attempt("terminate").done();
    const before = h.row();
    expect(await h.engine.send("job1", KILL)).toEqual({ accepted: false, state: "terminal" });
    expect(h.row()).toEqual(before);
  });

  it("is refused by name when it never existed", async () => {
    const h = await begin();
    await expect(h.engine.send("nope", KILL)).rejects.toMatchObject({ code: "job_not_found" });
  });

  it("ignores a second kill: no journal entry, no event", async () => {
    const h = await begin();
    await h.create();
    await h.kill();
    const [seq, feed] = [h.row().seq, h.reads.latestSeq()];
    expect(await h.engine.send("job1", KILL)).toEqual({ accepted: false, state: "terminating" });
    expect([h.row().seq, h.reads.latestSeq()]).toEqual([seq, feed]);
  });
});
