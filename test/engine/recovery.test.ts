import { afterAll, afterEach, describe, expect, it } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { JOB_MACHINE_VERSION } from "../../src/machines/job-machine.ts";
import { PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import { Harness, KILL, newHome, removeHomes, turn, type HarnessOptions } from "./harness.ts";

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

describe("recovery", () => {
  const damage = (h: Harness, sql: string) => void h.store.db.prepare(`UPDATE job SET ${sql} WHERE id = 'job1'`).run();

  it("starts open steps again, and leaves finished ones alone", async () => {
    const h = await begin();
    await h.create();
    await h.upTo("install");
    const next = await again(h);
    expect(await next.engine.recover()).toEqual({ resumed: ["job1"], parked: [] });
    await turn();
    expect(next.attempts.map((a) => a.step)).toEqual(["install"]);
    await (await next.upTo("terminate")).done();
    expect(next.row().status).toBe("succeeded");
    expect(next.folds()).toBe(true);
  });

  it("does not delay a retry by the amount by which the clock was set back while no control plane ran", async () => {
    const h = await begin();
    await h.create();
    await h.attempt("provision").fail(new SvcError("provider_error", { provider: "market", why: "busy" }));
    h.store.db.prepare("UPDATE effect SET next_at = next_at + ?").run(24 * 3_600_000);
    const next = await again(h);
    await next.engine.recover();
    await next.clock.advance(16 * 60_000);
    expect(next.attempts.map((a) => a.step)).toEqual(["provision"]);
  });

  it("parks an unloadable job, accepts only a kill for it, and the kill releases it", async () => {
    const h = await begin();
    await h.create();
    await h.create("good");
    await h.upTo("install");
    damage(h, "version = 99");
    const next = await again(h);
    expect(await next.engine.recover()).toEqual({ resumed: ["good"], parked: ["job1"] });
    await turn();
    expect(next.attempts.map((a) => a.context.jobId)).toEqual(["good"]);
    expect(next.reads.job("job1")?.note).toEqual({
      kind: "parked",
      message: expect.stringMatching(/version 99/) as string,
    });
    expect(
      (await next.engine.send("job1", { type: "control.end", error: { code: "c", message: "m", hint: "h" } })).accepted,
    ).toBe(false);
    expect(await next.engine.send("job1", KILL)).toEqual({ accepted: true, state: "terminating" });
    await turn();
    // The step may have to stop processes and download files.
    await next.attempts.findLast((a) => a.context.jobId === "job1" && a.step === "collect")?.done({ exit_code: null });
    await next.attempt("terminate").done();
    expect(next.row()).toMatchObject({ status: "cancelled", parked: null });
    expect(next.folds()).toBe(true);
    expect(next.store.openEffectsOf("job1")).toEqual([]);
  });

  it("writes no row of a job over a newer one", async () => {
    const h = await begin();
    await h.create();
    const old = h.row();
    await h.upTo("install");
    const now = h.row();
    expect(now.seq).toBeGreaterThan(old.seq);
    expect(() => h.store.updateJob({ ...now, seq: old.seq + 1 })).toThrow(
      expect.objectContaining({ code: "stale_writer" }),
    );
    expect(h.row()).toEqual(now);
  });

  it("resumes a parked job once a program knows its state", async () => {
    const h = await begin();
    await h.create();
    damage(h, "version = 99");
    const old = await again(h);
    await old.engine.recover();
    expect(old.row().parked).toMatch(/version 99/);
    damage(old, "version = 1");
    const upgraded = await again(old);
    expect(await upgraded.engine.recover()).toEqual({ resumed: ["job1"], parked: [] });
    await turn();
    expect([upgraded.row().parked, upgraded.story()]).toEqual([null, ["provision 1 cancelled", "provision 2 running"]]);
    expect(upgraded.store.journal("job1").map(({ type }) => type)).toEqual(["job.created", "machine.rebased"]);
    expect([upgraded.row().version, upgraded.folds()]).toEqual([JOB_MACHINE_VERSION, true]);
  });

  it("reports once that a job is parked, not at every start", async () => {
    const h = await begin();
    await h.create();
    damage(h, "version = 99");
    let last = await again(h);
    await last.engine.recover();
    last = await again(last);
    await last.engine.recover();
    expect(last.reads.eventsSince(0, { limit: 100 }).filter((e) => e.type === "notice")).toHaveLength(1);
  });

  it("follows only ending jobs in a process that ends some jobs", async () => {
    const h = await begin();
    await h.create("job1");
    await h.create("job2");
    await h.kill("job2");
    const next = await again(h);
    expect(await next.engine.recover("ending only")).toEqual({ resumed: ["job2"], parked: [] });
    await turn();
    expect(next.attempts.map((a) => `${a.context.jobId} ${a.step}`)).toEqual(["job2 terminate"]);
    expect(next.story("job1")).toEqual(["provision 1 running"]);
    await next.kill("job1");
    expect(next.story("job1")).toEqual(["provision 1 cancelled", "terminate 1 running"]);
  });

  it("ends an unloadable job on a kill, even if it was not parked yet", async () => {
    const h = await begin();
    await h.create();
    damage(h, `snapshot = '{"value":"jogging","context":{}}'`);
    const next = await again(h);
    await next.engine.recover("ending only");
    expect(await next.engine.send("job1", KILL)).toEqual({ accepted: true, state: "terminating" });
  });

  it("changes nothing when it only reads", async () => {
    const h = await begin();
    await h.create();
    const next = await again(h);
    expect(await next.engine.recover("nothing")).toEqual({ resumed: [], parked: [] });
    await next.clock.advance(PHASE_LIMIT_MS.provisioning * 2);
    expect([next.attempts, next.row().seq]).toEqual([[], 1]);
  });

  it("The recovery of a new home finds nothing", async () => {
    const h = await Harness.open({}, newHome());
    open.push(h);
    expect(await h.engine.recover()).toEqual({ resumed: [], parked: [] });
  });
});

describe("The limit of a phase before the script that ran out while svc was away", () => {
  const MINUTE_MS = 60_000;
  const STEPS = {
    provisioning: "provision",
    awaiting_ssh: "await_ssh",
    syncing: "sync",
    installing: "install",
  } as const;
  const PHASES = Object.keys(STEPS) as (keyof typeof STEPS)[];
  const isOver = (h: Harness): boolean => h.row().state === "terminating";
  async function at(phase: keyof typeof STEPS): Promise<Harness> {
    const h = await begin();
    await h.create();
    await h.upTo(STEPS[phase]);
    expect(h.row().state).toBe(phase);
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

  it.each(PHASES)("gives %s ten more minutes at the next start", async (phase) => {
    const h = await wokenAfter(await at(phase), PHASE_LIMIT_MS[phase] + 5 * MINUTE_MS);
    expect([h.row().state, h.attempt(STEPS[phase]).context.signal.aborted]).toEqual([phase, false]);
    await h.clock.advance(9 * MINUTE_MS);
    expect(h.row().state).toBe(phase);
    await h.clock.advance(MINUTE_MS);
    expect([h.row().state, h.folds()]).toEqual(["terminating", true]);
  });

  it("lets the phase succeed when the computer wakes up", async () => {
    const h = await at("awaiting_ssh");
    await h.clock.jump(72 * 60 * MINUTE_MS);
    await h.attempt("await_ssh").done();
    expect(h.row().state).toBe("syncing");
  });

  it("ends the phase of a control plane that ends again and again for a day", async () => {
    const limit = PHASE_LIMIT_MS.awaiting_ssh;
    const first = await wokenAfter(await at("awaiting_ssh"), limit + 23.9 * 60 * MINUTE_MS);
    expect(isOver(first)).toBe(false);
    expect(isOver(await wokenAfter(first, 12 * MINUTE_MS))).toBe(true);
  });
});
