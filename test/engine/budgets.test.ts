import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Budgets } from "../../src/engine/budgets.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import type { RunSpecInput } from "../../src/schemas/spec.ts";
import { Harness, removeHomes, START, turn } from "./harness.ts";

const SECOND = 1_000;
const HOUR = 3_600_000;
let h: Harness;
let ledger: DurableLedger;
let budgets: Budgets;

function watch(harness: Harness): void {
  h = harness;
  ledger = new DurableLedger(h.engine);
  budgets = new Budgets({ engine: h.engine, startTimes: () => null, report: (words) => h.reports.push(words) });
}
const open = async () =>
  Harness.open({
    engine: {
      publish: (events) => {
        h.published.push(...events);
        budgets.heard(events);
      },
    },
  });
beforeEach(async () => {
  watch(await open());
  budgets.begin();
});
afterEach(async () => {
  budgets.stop();
  await h.end();
});
afterAll(removeHomes);

/** $3.60 an hour: a tenth of a cent a second. */
const machine = (ordinal = 1, more: Partial<MachineHandle> = {}): MachineHandle => ({
  v: 1,
  provider: "podhost",
  id: `pod-${ordinal}`,
  name: `svc-test-job1-n0-${ordinal}`,
  address: "10.0.0.1",
  priceMicro: 3_600_000,
  ...more,
});

async function rent(ordinal = 1, more: Partial<MachineHandle> = {}): Promise<void> {
  const handle = machine(ordinal, more);
  const { name } = handle;
  await ledger.intend({ name, jobId: "job1", node: 0, ordinal, provider: handle.provider, horizonAt: START });
  await ledger.held(name, handle);
}

/** A job of one machine whose script runs; the order was made at START. */
async function running(spec: Partial<RunSpecInput>): Promise<void> {
  await h.create("job1", {
    spec: { provider: "podhost", gpus: "L4", ...spec },
    budgetMicro: Math.round((spec.budget_usd ?? 0) * 1e6),
  });
  await rent();
  await h.upTo("stream");
  await turn();
}

/** A job that may use further machines. $0.20 at $3.60 an hour are 200 s; a start and an end need 85 s. */
const mayRetry = () =>
  h.create("job1", {
    spec: { provider: "podhost", gpus: "L4", budget_usd: 0.2 },
    budgetMicro: 200_000,
    rules: {
      searches: false,
      retry_max: 2,
      retry_on: ["machine_unfit"],
      recovers: true,
      max_preemptions: 10,
      falls_back: false,
    },
  });

const told = (type: string) => h.published.filter((event) => event.type === type).map(({ data }) => data);
const error = () => h.reads.job("job1")?.error;

describe("A budget while a control plane lives", () => {
  it("is warned about at 75 and 90 percent, once each, and then stops the run before the end costs too much", async () => {
    // 100 s in all: 10 s of grace and 15 s for the release are kept, so the script stops after 75 s.
    await running({ budget_usd: 0.1 });
    await h.clock.advance(74 * SECOND);
    expect([h.row().state, told("budget.warned")]).toEqual(["running", []]);
    await h.clock.advance(2 * SECOND);
    expect(told("budget.warned")).toMatchObject([{ percent: 75, budget_usd: 0.1 }]);
    expect(h.row().state).toBe("terminating");
    expect(error()).toMatchObject({ code: "budget_reached" });
    expect(error()?.message).toContain("$0.10");
    expect(h.folds()).toBe(true);
  });

  it("keeps the longer grace of ranks in the record, too: the record shows what the engine counts", async () => {
    await running({ budget_usd: 1, gpus: "L4:2" });
    await h.clock.advance(10 * SECOND);
    const now = budgets.now("job1", h.clock.now());
    expect(now?.keptMicro).toBe(55_000);
    const record = h.reads.job("job1");
    expect(record).toMatchObject({ budget_kept_usd: 0.055, budget_left_usd: (now?.leftMicro ?? 0) / 1e6 });
    expect(record?.budget_stops_at).toBe(new Date(h.clock.now() + (now?.stopInMs ?? 0)).toISOString());
  });

  it("is watched on after a time in which the store could not be read", async () => {
    await running({ budget_usd: 0.1 });
    const now = h.engine.now.bind(h.engine);
    h.engine.now = () => {
      throw new Error("disk I/O error");
    };
    await h.clock.advance(30 * SECOND);
    h.engine.now = now;
    expect(h.reports.at(-1)).toBe("The budget of job1 could not be checked: disk I/O error");
    await h.clock.advance(50 * SECOND);
    expect(h.row().state).toBe("terminating");
  });

  it("counts failed machines, ends without a proof and price changes", async () => {
    await running({ budget_usd: 1 });
    await rent(2, { priceMicro: 36_000_000 });
    // 11 tenths of a cent a second, of which 25 s are kept: 0.725 dollars last for 65.9 s.
    await h.clock.advance(65 * SECOND);
    expect(h.row().state).toBe("running");
    await h.clock.advance(2 * SECOND);
    expect(h.row().state).toBe("terminating");
  });

  it("follows a price that rises: the time before it keeps its price", async () => {
    await running({ budget_usd: 1 });
    await h.clock.advance(100 * SECOND);
    await ledger.known(machine().name, machine(1, { priceMicro: 36_000_000 }));
    // $0.90 are left; at a cent a second, 25 s are kept and 65 remain.
    await h.clock.advance(64 * SECOND);
    expect(h.row().state).toBe("running");
    await h.clock.advance(2 * SECOND);
    expect(h.row().state).toBe("terminating");
  });

  it("keeps more for files that are not downloaded yet, at the measured speed", async () => {
    await running({ budget_usd: 0.2 });
    budgets.unfetched("job1", { bytes: 50_000_000, bytesPerSecond: 1_000_000 });
    // 200 s, of which 75 are kept.
    await h.clock.advance(124 * SECOND);
    expect(h.row().state).toBe("running");
    await h.clock.advance(12 * SECOND);
    expect(h.row().state).toBe("terminating");
  });

  it("gives up a download that would cost more than the rest, and a successful run then ends because of the budget", async () => {
    await running({ budget_usd: 0.1 });
    await h.attempt("stream").done({ exit_code: 0, error: null });
    expect(h.row().state).toBe("terminating");
    await h.clock.advance(86 * SECOND);
    expect(h.attempts.filter(({ step }) => step === "terminate")).toHaveLength(1);
    expect(told("budget.reached")).toMatchObject([{ ends: "downloads" }]);
    await h.attempt("terminate").done();
    expect(h.reads.job("job1")).toMatchObject({ status: "timed_out", error: { code: "budget_reached" } });
  });

  it("is found after a sleep, whatever the clock did meanwhile", async () => {
    await running({ budget_usd: 0.1 });
    await h.clock.jump(2 * HOUR);
    expect(h.row().state).toBe("terminating");
    expect(told("budget.warned")).toMatchObject([{ percent: 90 }]);
  });

  it("is found by the next control plane, which has the sums from the ledger", async () => {
    await running({ budget_usd: 0.1 });
    await h.clock.advance(50 * SECOND);
    budgets.stop();
    watch(await h.restart());
    await h.engine.recover();
    budgets.begin();
    await h.clock.advance(20 * SECOND);
    expect(h.row().state).toBe("running");
    await h.clock.advance(10 * SECOND);
    expect(h.row().state).toBe("terminating");
  });

  it("asks nothing of a run without a budget", async () => {
    await h.create("job1", { spec: { provider: "podhost", gpus: "L4" } });
    await rent();
    await h.upTo("stream");
    await h.clock.advance(24 * HOUR);
    expect([h.row().state, budgets.limit("job1"), budgets.lack("job1")]).toEqual(["running", null, null]);
  });
});

describe("The deadlines on the machine", () => {
  it("end the machine 6 s before the budget is spent, after the grace of the script", async () => {
    await running({ budget_usd: 0.1 });
    await h.clock.advance(20 * SECOND);
    expect(budgets.limit("job1")).toEqual({ stopSeconds: 59, endSeconds: 74 });
  });

  it("come with the order, at the price of its offer, for all nodes", async () => {
    const spec = { provider: "podhost", gpus: "L4", budget_usd: 1, nodes: 2 } as const;
    await h.create("job1", { nodes: 2, spec, budgetMicro: 1_000_000 });
    expect(budgets.limitOfOrder("job1", 18_000_000)?.endSeconds).toBeCloseTo(94, 6);
    expect(budgets.limitOfOrder("job1", null)).toBeNull();
  });
});

describe("An order that may have rented a machine which no list showed in time", () => {
  async function lost(doubtSeconds: number | null): Promise<void> {
    await mayRetry();
    const { name } = machine();
    const atMost = { rateMicro: 3_600_000, micro: 200_000, endsFrom: START + 194 * SECOND };
    await ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START, atMost });
    await ledger.unknown(name, { kind: "order_unknown", message: "lost" });
    await h.clock.jump(300 * SECOND);
    // The whole amount, and never more. The run does not end for it: the list that comes now may prove that nothing was rented.
    expect(budgets.now("job1", h.clock.now())).toMatchObject({ spentMicro: 200_000 });
    expect([h.row().state, told("budget.warned")]).toEqual(["provisioning", []]);
    await ledger.released(name, "no list shows it", {
      doubtAt: doubtSeconds === null ? null : START + doubtSeconds * SECOND,
    });
  }

  it("leaves the rest to the guard of the next machine", async () => {
    await lost(100);
    expect(budgets.limitOfOrder("job1", 3_600_000)).toMatchObject({ endSeconds: 94, mostMicro: 100_000 });
    expect(budgets.lack("job1")).toBeNull();
    expect(h.reads.job("job1")).toMatchObject({ cost_usd: 0, spent_usd: 0.1, cost_estimate_usd: 0.1 });
  });

  it("ends the run before another order, where the rest cannot pay for a start and an end", async () => {
    await lost(130);
    expect(budgets.lack("job1")).toMatchObject({ code: "budget_reached" });
    await budgets.look("job1");
    expect(h.row().state).toBe("terminating");
    expect(error()).toMatchObject({ code: "budget_reached" });
    expect(h.attempt("provision").context.signal.aborted).toBe(true);
    expect(h.folds()).toBe(true);
  });

  it("takes nothing from the budget once it is proven to have rented nothing", async () => {
    await lost(null);
    expect(budgets.limitOfOrder("job1", 3_600_000)).toMatchObject({ endSeconds: 194 });
    await budgets.look("job1");
    expect(h.row().state).toBe("provisioning");
    expect(h.reads.job("job1")).toMatchObject({ cost_usd: 0, spent_usd: 0, cost_estimate_usd: null });
  });
});

describe("Another placement", () => {
  it("is refused when the rest cannot pay for its start and end, and the job ends because of the budget", async () => {
    await mayRetry();
    await rent();
    // A start and an end take 60 s and 25 s.
    expect(budgets.lack("job1")).toBeNull();
    await h.clock.advance(110 * SECOND);
    expect(budgets.lack("job1")).toBeNull();
    await h.clock.advance(10 * SECOND);
    const lack = budgets.lack("job1");
    expect(lack).toMatchObject({ code: "budget_reached" });
    await h.engine.send("job1", {
      type: "step.failed",
      step: "provision",
      node: 0,
      error: { code: "machine_unfit", message: "It has no GPU.", hint: "" },
      failure: "machine_unfit",
    });
    await turn();
    await h.attempt("terminate").done({ checkpoint: null, lack });
    expect(h.reads.job("job1")).toMatchObject({ status: "timed_out", error: { code: "budget_reached" } });
  });
});
