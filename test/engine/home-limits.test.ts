import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { localCalendar } from "../../src/domain/calendar.ts";
import { LimitKeeper } from "../../src/engine/home-limits.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { RunSpecInput } from "../../src/schemas/spec.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { Harness, KILL, removeHomes, turn } from "./harness.ts";

const HOUR = 3_600_000;
let h: Harness;
let ledger: DurableLedger;
let limits: LimitKeeper;

const options = {
  engine: {
    publish: (events: Parameters<LimitKeeper["heard"]>[0] & Harness["published"]) => {
      h.published.push(...events);
      limits.heard(events);
    },
    holds: (...given: Parameters<LimitKeeper["holds"]>) => limits.holds(...given),
  },
};

function watch(harness: Harness): void {
  h = harness;
  ledger = new DurableLedger(h.engine);
  limits = new LimitKeeper({
    engine: h.engine,
    calendar: localCalendar,
    startSeconds: () => null,
    report: (words) => h.reports.push(words),
  });
}
beforeEach(async () => {
  watch(await Harness.open(options));
  limits.begin();
});
afterEach(async () => {
  limits.stop();
  await h.end();
});
afterAll(removeHomes);

const submit = (id: string, spec: Partial<RunSpecInput> = {}): Promise<void> =>
  h.create(id, { spec: { provider: "podhost", gpus: "L4", budget_usd: 5, ...spec } });
const states = (...ids: string[]): string[] => ids.map((id) => h.row(id).state);
const waiting = (): [string, number][] => h.reads.limits().waiting.map(({ job_id, passes }) => [job_id, passes]);

/** $3.60 an hour. */
async function rent(job: string): Promise<void> {
  const name = `svc-test-${job}-n0-1`;
  const provider = "podhost";
  await ledger.intend({ name, jobId: job, node: 0, ordinal: 1, provider, horizonAt: h.clock.now() });
  await ledger.held(name, { v: 1, provider, id: `pod-${job}`, name, address: "10.0.0.1", priceMicro: 3_600_000 });
}
const released = (job: string): Promise<boolean> => ledger.released(`svc-test-${job}-n0-1`, "it is gone");

/** Ends a run whose machine was never ordered. */
async function end(id: string): Promise<void> {
  await h.engine.send(id, KILL);
  await turn();
  for (const attempt of h.attempts.filter((one) => one.context.jobId === id && one.step === "terminate"))
    if (!attempt.answered) await attempt.done();
  await h.clock.advance(0);
}

describe("A limit of a home", () => {
  it("holds back what does not fit, says why, and lets it in when a run has ended", async () => {
    await limits.set({ usd_per_day: 10 });
    for (const id of ["job1", "job2", "job3", "job4"]) await submit(id);
    expect(states("job1", "job2", "job3", "job4")).toEqual(["provisioning", "provisioning", "waiting", "waiting"]);
    expect(h.reads.job("job4")?.note).toEqual({
      kind: "waiting_for_limits",
      message:
        "Waits: today's limit leaves $0.00 of $10.00, and the run may need $5.00. It is number 2 of 2 that wait. No machine exists and nothing is billed.",
    });
    expect(h.reads.placements("job3").waiting?.limit).toMatchObject({ position: 1, of: 2, limit: "usd_per_day" });
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 10, used: 0, reserved: 10, left: 0 });
    expect(h.steps("job3")).toEqual([]);
    await end("job1");
    expect(states("job1", "job3", "job4")).toEqual(["terminal", "provisioning", "waiting"]);
    expect(["job1", "job3", "job4"].map((id) => h.folds(id))).toEqual([true, true, true]);
  });

  it("counts what the day has cost and what open runs may still cost, and opens again at midnight", async () => {
    await limits.set({ usd_per_day: 10 });
    await submit("job1", { budget_usd: 6 });
    await rent("job1");
    await h.clock.advance(HOUR);
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 10, used: 3.6, reserved: 2.4, left: 4 });
    await released("job1");
    await end("job1");
    // The unused part is free again; what was spent is not.
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 10, used: 3.6, reserved: 0, left: 6.4 });
    await submit("job2", { budget_usd: 7 });
    expect(states("job2")).toEqual(["waiting"]);
    await h.clock.advance(localCalendar.nextDay(h.clock.now()) - h.clock.now());
    expect(states("job2")).toEqual(["provisioning"]);
  });

  it("counts an order that may have rented a machine, while its outcome is unknown and where it stays unproven", async () => {
    await limits.set({ usd_per_day: 10 });
    await submit("job1", { budget_usd: 4 });
    const order = { name: "svc-test-job1-n0-1", jobId: "job1", node: 0, ordinal: 1, provider: "podhost" };
    const atMost = { rateMicro: 3_600_000, micro: 4_000_000, endsFrom: h.clock.now() + HOUR };
    await ledger.intend({ ...order, horizonAt: h.clock.now(), atMost });
    await ledger.unknown(order.name, { kind: "order_unknown", message: "its answer was lost" });
    await h.clock.advance(HOUR);
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 10, used: 3.6, reserved: 0.4, left: 6 });
    await ledger.released(order.name, "no list shows it", { doubtAt: h.clock.now() });
    await end("job1");
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 10, used: 3.6, reserved: 0, left: 6.4 });
    await submit("job2", { budget_usd: 7 });
    expect(states("job2")).toEqual(["waiting"]);
    // The machine is found after all, and was dearer for a shorter time: the ledger's own price replaces the estimate.
    await ledger.held(order.name, {
      v: 1,
      provider: "podhost",
      id: "pod-1",
      name: order.name,
      address: null,
      priceMicro: 1_000_000,
    });
    await ledger.released(order.name, "it is gone");
    await h.clock.advance(0);
    expect(h.reads.limits().usd_per_day).toMatchObject({ used: 1 });
    expect(states("job2")).toEqual(["provisioning"]);
  });

  it("is not passed by a clock that is set back during the day", async () => {
    await limits.set({ usd_per_day: 10 });
    await submit("job1", { budget_usd: 8 });
    await rent("job1");
    await h.clock.advance(2 * HOUR);
    await released("job1");
    await end("job1");
    limits.stop();
    h.clock.setBack(36 * HOUR);
    watch(await h.restart(options));
    await h.engine.recover();
    limits.begin();
    expect(h.reads.limits().usd_per_day).toMatchObject({ used: 7.2, left: 2.8 });
    await submit("job2", { budget_usd: 3 });
    await h.clock.advance(0);
    expect(states("job2")).toEqual(["waiting"]);
  });

  it("lets younger runs pass one that does not fit, but only ten of them", async () => {
    await limits.set({ max_machines: 2 });
    await submit("a");
    await submit("big", { nodes: 2, provider: "podhost" });
    for (let n = 0; n < 10; n++) {
      const id = `p${n}`;
      await submit(id);
      expect(states("big", id)).toEqual(["waiting", "provisioning"]);
      await end(id);
    }
    expect(waiting()).toEqual([["big", 10]]);
    await submit("late");
    expect(states("late")).toEqual(["waiting"]);
    expect(h.reads.job("late")?.note?.message).toContain("big is first");
    await end("a");
    expect(states("big", "late")).toEqual(["provisioning", "waiting"]);
    await end("big");
    expect(states("late")).toEqual(["provisioning"]);
  });

  it("lets 50 scripts of different size finish under one day's limit: it is never passed, and none starves", async () => {
    await limits.set({ usd_per_day: 10 });
    const ids = Array.from({ length: 50 }, (_, n) => `run${String(n).padStart(2, "0")}`);
    // Each seventh run needs the whole limit, and so waits until no other runs.
    for (const [n, id] of ids.entries()) await submit(id, { budget_usd: n % 7 === 3 ? 6.5 : 1 + (n % 3) });
    const isWithin = (): void => {
      const { used, reserved } = h.reads.limits().usd_per_day;
      expect(used + (reserved ?? Infinity)).toBeLessThanOrEqual(10 + 1e-9);
    };
    const admitted: string[] = [];
    for (let round = 0; round < 50 && ids.some((id) => h.row(id).state !== "terminal"); round++) {
      isWithin();
      const running = ids.filter((id) => h.row(id).state === "provisioning");
      admitted.push(...running);
      for (const id of running) await rent(id);
      // A minute costs 6 cents.
      await h.clock.advance(60_000);
      isWithin();
      await h.upTo("terminate");
      for (const id of running) await released(id);
      for (const attempt of h.attempts) if (attempt.step === "terminate" && !attempt.answered) await attempt.done();
      await h.clock.advance(0);
    }
    expect(ids.map((id) => h.row(id).status)).toEqual(ids.map(() => "succeeded"));
    expect(admitted.toSorted()).toEqual(ids);
    // No run was passed by more than ten younger ones.
    for (const [at, id] of admitted.entries())
      expect(admitted.slice(0, at).filter((other) => other > id).length, id).toBeLessThanOrEqual(10);
    expect(h.reads.limits()).toMatchObject({ usd_per_day: { used: 3, reserved: 0 }, waiting: [] });
  });

  it("lowered below what is reserved kills nothing, starts nothing, and is said clearly", async () => {
    await limits.set({ usd_per_day: 20 });
    await submit("job1");
    await submit("job2");
    await submit("job3", { budget_usd: 15 });
    await limits.set({ usd_per_day: 6 });
    await h.clock.advance(60_000);
    expect(states("job1", "job2", "job3")).toEqual(["provisioning", "provisioning", "waiting"]);
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 6, used: 0, reserved: 10, left: 0 });
    expect(h.reads.job("job3")?.note?.message).toMatch(/never fits. Raise usd_per_day or kill the run/);
    // A run that can never fit blocks no other.
    await end("job1");
    await submit("job4", { budget_usd: 1 });
    expect(states("job3", "job4")).toEqual(["waiting", "provisioning"]);
    await limits.set({ usd_per_day: null });
    await h.clock.advance(0);
    expect(states("job3")).toEqual(["provisioning"]);
  });

  it("refuses what could never fit or could cost any amount, with its field, and stores nothing", async () => {
    await limits.set({ usd_per_day: 10, usd_per_hour: 4, max_machines: 2, max_gpus: 4 });
    const refused = async (spec: Partial<RunSpecInput>): Promise<unknown> =>
      submit("job1", { price_cap: 1, ...spec }).then(
        () => "accepted",
        (e: { code: string; errors: { field: string }[] }) => [e.code, e.errors[0]?.field],
      );
    expect(await refused({ budget_usd: 11 })).toEqual(["limit_never_fits", "spec.budget_usd"]);
    expect(await refused({ price_cap: 5 })).toEqual(["limit_never_fits", "spec.price_cap"]);
    expect(await refused({ nodes: 3 })).toEqual(["limit_never_fits", "spec.nodes"]);
    expect(await refused({ gpus: "L4:8" })).toEqual(["limit_never_fits", "spec.gpus"]);
    expect(await refused({ price_cap: undefined })).toEqual(["limit_cost_unknown", "spec.price_cap"]);
    const cloudvm = { provider: "cloudvm", price_cap: undefined, budget_usd: undefined } as const;
    expect(await refused(cloudvm)).toEqual(["limit_cost_unknown", "spec.rate_usd_per_hour"]);
    await limits.set({ usd_per_hour: null });
    expect(await refused({ price_cap: undefined, budget_usd: undefined })).toEqual([
      "limit_cost_unknown",
      "spec.budget_usd",
    ]);
    expect(h.store.job("job1")).toBeUndefined();
  });

  it("counts no run on this computer", async () => {
    await limits.set({ usd_per_day: 0, max_machines: 0, max_gpus: 0 });
    await submit("job1", { provider: "local", gpus: "cpu", budget_usd: undefined });
    expect([states("job1"), h.reads.limits().max_machines.used]).toEqual([["provisioning"], 0]);
  });

  it("admits nothing while svc cannot tell what an open run may still cost", async () => {
    await submit("job1", { provider: "cloudvm", budget_usd: undefined });
    await limits.set({ usd_per_day: 100 });
    await submit("job2");
    expect(h.reads.limits().usd_per_day).toEqual({ limit: 100, used: 0, reserved: null, left: null });
    expect(h.reads.job("job2")?.note?.message).toContain("cannot tell what an open run may still cost");
    await end("job1");
    expect(states("job2")).toEqual(["provisioning"]);
  });

  it("holds for a higher budget of a live run, too", async () => {
    await limits.set({ usd_per_day: 10 });
    await submit("job1");
    await submit("job2", { budget_usd: 4 });
    const spec = (budget_usd: number) =>
      RunSpec.parse({ entrypoint: "train.py", provider: "podhost", gpus: "L4", budget_usd });
    const asked = (budget: number) => h.engine.commit((tx) => limits.refuses(tx, "job1", spec(5), spec(budget)));
    expect(await asked(6)).toBeNull();
    expect(await asked(7)).toBe("today's limit leaves $6.00 of $10.00, and the run may need $7.00");
    expect(await asked(1)).toBeNull();
  });

  it("keeps its queue and its reservations when the process is killed at any moment", async () => {
    await limits.set({ usd_per_day: 10 });
    for (const id of ["job1", "job2", "job3"]) await submit(id);
    // Killed after the end of a run was durable, and before anyone looked at the queue.
    await h.engine.send("job1", KILL);
    await turn();
    limits.stop();
    await h.attempt("terminate").done();
    expect(states("job1", "job3")).toEqual(["terminal", "waiting"]);
    watch(await h.restart(options));
    await h.engine.recover();
    expect(waiting()).toEqual([["job3", 0]]);
    // Killed in the commit that lets it in: neither half of it happened.
    h.onProbe = (point) => {
      if (point === "commit.before") throw new Error("killed");
    };
    limits.look().catch(() => undefined);
    await turn();
    expect([states("job3"), waiting().length]).toEqual([["waiting"], 1]);
    h.onProbe = () => {};
    watch(await h.restart(options));
    await h.engine.recover();
    limits.begin();
    await h.clock.advance(0);
    await h.clock.advance(120_000);
    expect([states("job2", "job3"), waiting()]).toEqual([["provisioning", "provisioning"], []]);
    expect(h.reads.limits().usd_per_day).toMatchObject({ reserved: 10, left: 0 });
    expect(h.story("job3")).toEqual(["provision 1 running"]);
    expect(h.folds("job3")).toBe(true);
  });

  it("leaves a killed run out of the queue", async () => {
    await limits.set({ max_machines: 1 });
    await submit("job1");
    await submit("job2");
    await submit("job3");
    await h.kill("job2");
    expect([states("job2"), waiting()]).toEqual([["terminal"], [["job3", 0]]]);
  });
});
