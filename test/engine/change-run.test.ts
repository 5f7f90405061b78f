import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { changeRun, type ChangeParts } from "../../src/engine/change-run.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { MachineHandle, Provider } from "../../src/providers/provider.ts";
import { JobChange } from "../../src/schemas/change.ts";
import type { RunSpecInput } from "../../src/schemas/spec.ts";
import { Harness, removeHomes, START, turn } from "./harness.ts";

let h: Harness;
let respecced: string[];
let parts: ChangeParts;

beforeEach(async () => {
  h = await Harness.open();
  respecced = [];
  const providers = new Map([
    ["cloudvm", { info: { capabilities: { bills: true, reports_price: false } } } as Provider],
  ]);
  parts = { engine: h.engine, providers, exceeds: () => null, respec: (id) => respecced.push(id) };
});
afterEach(() => h.end());
afterAll(removeHomes);

const change = (given: JobChange) => changeRun(parts, "job1", given);
const record = () => h.reads.job("job1");
const context = () => h.engine.now("job1")?.context;

/** A run on a machine for $3.60 an hour, ordered at START. */
async function running(spec: Partial<RunSpecInput> = {}): Promise<void> {
  await h.create("job1", { spec: { provider: "podhost", gpus: "L4", ...spec } });
  const name = "svc-test-job1-n0-1";
  const handle: MachineHandle = { v: 1, provider: "podhost", id: "p", name, address: null, priceMicro: 3_600_000 };
  const ledger = new DurableLedger(h.engine);
  await ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START });
  await ledger.held(name, handle);
  await h.upTo("stream");
}

describe("A change of a live run", () => {
  it("is an event of its machine and a new spec, together, and the journal folds to the same bytes", async () => {
    await running();
    expect(await change({ budget_usd: 20, max_runtime_minutes: 90, price_cap: 5, label: "longer" })).toBe(true);
    expect(record()).toMatchObject({
      budget_usd: 20,
      label: "longer",
      spec: { budget_usd: 20, max_runtime_minutes: 90, price_cap: 5 },
    });
    expect(context()).toMatchObject({ budget_micro: 20_000_000, max_runtime_ms: 5_400_000 });
    expect(h.store.timer("job1", "max_runtime")?.due).toBe(START + 5_400_000);
    expect(h.published.filter(({ type }) => type === "job.changed")[0]?.data).toMatchObject({
      budget_usd: { from: null, to: 20 },
      label: { from: null, to: "longer" },
    });
    expect([h.folds(), respecced]).toEqual([true, ["job1"]]);
  });

  it("that changes only tags sends no event to the machine, and the list finds the run by them", async () => {
    await running();
    const { seq, snapshot } = h.row();
    const found = (...tag: string[]) => h.reads.jobs({ limit: 50, tag }).jobs.map(({ id }) => id);
    expect(await change({ tags: ["paper", "x/y=1"] })).toBe(true);
    expect([h.row().seq, h.row().snapshot, record()?.tags]).toEqual([seq, snapshot, ["paper", "x/y=1"]]);
    expect(h.published.filter(({ type }) => type === "job.changed")[0]?.data).toEqual({
      tags: { from: [], to: ["paper", "x/y=1"] },
    });
    expect([found("paper"), found("x/y=1", "paper"), found("pape"), found("paper", "other")]).toEqual([
      ["job1"],
      ["job1"],
      [],
      [],
    ]);
    expect(h.reads.jobs({ limit: 50, q: "APER" }).jobs).toHaveLength(1);
    expect(h.reads.countByStatus({ tag: ["paper"] })).toEqual({ running: 1 });
    expect([await change({ tags: ["paper", "x/y=1"] }), await change({ tags: [] }), record()?.tags]).toEqual([
      false,
      true,
      [],
    ]);
    expect([found("paper"), h.folds()]).toEqual([[], true]);
  });

  it("changes nothing when it is repeated", async () => {
    await running();
    await change({ budget_usd: 20 });
    const { seq } = h.row();
    expect(await change({ budget_usd: 20 })).toBe(false);
    expect([h.row().seq, respecced.length]).toEqual([seq, 1]);
  });

  it("removes a limit: its timer is gone, and the run continues", async () => {
    await running();
    await change({ max_runtime_minutes: 10, budget_usd: 1, label: "x" });
    await change({ max_runtime_minutes: null, budget_usd: null, label: null });
    expect([h.store.timer("job1", "max_runtime"), context()?.budget_micro, record()?.label]).toEqual([
      undefined,
      null,
      null,
    ]);
    await h.clock.advance(3_600_000);
    expect(h.row().state).toBe("running");
  });

  it("counts the time that has passed: a raised limit ends at its own time, and its error names it whole", async () => {
    await running();
    await change({ max_runtime_minutes: 10 });
    await h.clock.advance(300_000);
    await change({ max_runtime_minutes: 20 });
    await h.clock.advance(899_000);
    expect(h.row().state).toBe("running");
    await h.clock.advance(2_000);
    expect(record()?.error?.message).toContain("max_runtime_minutes (20)");
  });

  it("makes the warnings come again for a new budget", async () => {
    await running();
    await change({ budget_usd: 1 });
    await h.engine.send("job1", { type: "budget.warned", percent: 90 });
    await change({ budget_usd: 9 });
    expect(context()?.warned).toBe(0);
  });

  it("holds a cap for every candidate", async () => {
    const candidates = [{ provider: "podhost", price_cap: 4 }, { provider: "market" }] as const;
    await running({ candidates: [...candidates] });
    await change({ price_cap: 8 });
    expect(record()?.spec).toMatchObject({
      price_cap: 8,
      candidates: [{ provider: "podhost", price_cap: 8 }, { provider: "market" }],
    });
  });
});

describe("A change that cannot be held is refused with a reason, and nothing of it is applied", () => {
  it.each([
    [{ budget_usd: 0.05, label: "new" }, "$0.10 is already spent"],
    [{ max_runtime_minutes: 1, label: "new" }, "it has run for 1.7 minutes"],
    [{ price_cap: 3, label: "new" }, "costs $3.60/h"],
  ])("%j", async (given, why) => {
    await running();
    await h.clock.advance(100_000);
    await expect(change(given)).rejects.toMatchObject({
      code: "change_refused",
      message: expect.stringContaining(why),
    });
    expect([record()?.label, respecced]).toEqual([null, []]);
  });

  it("while the run is ending, except for a label", async () => {
    await running({ budget_usd: 1 });
    await h.kill();
    await expect(change({ budget_usd: 9 })).rejects.toMatchObject({ code: "change_refused", status: 409 });
    expect(await change({ label: "why" })).toBe(true);
    expect(record()?.label).toBe("why");
  });

  it("for a run that has ended, except for a label", async () => {
    await h.create("job1", { spec: { provider: "podhost", gpus: "L4" } });
    await h.kill();
    await turn();
    await h.attempt("terminate").done();
    expect(h.row().state).toBe("terminal");
    await expect(change({ max_runtime_minutes: 9 })).rejects.toMatchObject({ code: "change_refused" });
    expect(await change({ label: "kept" })).toBe(true);
    expect(record()?.label).toBe("kept");
  });

  it("for a provider without a price, where no rate was given", async () => {
    await h.create("job1", { spec: { provider: "cloudvm", gpus: "L4" } });
    await expect(change({ budget_usd: 9 })).rejects.toMatchObject({ code: "budget_rate_unknown" });
  });

  it("for an unknown run", async () => {
    await expect(change({ label: "x" })).rejects.toMatchObject({ code: "job_not_found" });
  });
});

it.each([{}, { budget_usd: 0 }, { budget_usd: -1 }, { budget_usd: Number.NaN }, { price_cap: Infinity }, { nodes: 2 }])(
  "The door refuses %j",
  (given) => {
    expect(JobChange.safeParse(given).success).toBe(false);
  },
);
