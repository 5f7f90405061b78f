// The placements in the answers of the API, read from stores that the real engine wrote.

import { afterAll, expect, it, onTestFinished } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import type { Placement } from "../../src/schemas/placement.ts";
import { Placements } from "../../src/schemas/placement.ts";
import { SEARCHING_RULES } from "../engine/placement-rules.ts";
import { Harness, KILL, removeHomes, START } from "../engine/harness.ts";

afterAll(removeHomes);

const CANDIDATES = [
  { provider: "podhost", gpus: "A100" },
  { provider: "market", gpus: "H100:2", region: "EU", spot: "prefer" },
] as const;
const MINUTE = 60_000;
const at = (minutes: number): string => new Date(START + minutes * MINUTE).toISOString();

async function begin(): Promise<Harness> {
  const h = await Harness.open();
  await h.create("job1", {
    rules: SEARCHING_RULES,
    spec: { provider: "podhost", gpus: "A100", candidates: [...CANDIDATES] },
  });
  return h;
}
const seen = (h: Harness): Placements => Placements.parse(h.reads.placements("job1"));
const lost = () => new SvcError("machine_lost", { provider: "market", machine: "m" });
const noMachine = () =>
  new SvcError("no_offer", { provider: "podhost", gpus: "A100", why: "sold out" }, { retry: "never" });

/** A machine of the ledger at $3.60 per hour, from its order to `released` (minutes), or held. */
function machine(h: Harness, placement: number, from: number, released: number | null, spot = 0): void {
  h.store.db
    .prepare(
      `INSERT INTO machine (name, job_id, node, ordinal, provider, state, price_micro, spent_micro, created_at, horizon_at, held_at, empty_looks, released_at, proof, placement, spot)
       VALUES (?, 'job1', 0, ?, 'market', ?, 3600000, 0, ?, 0, ?, 0, ?, 'gone', ?, ?)`,
    )
    .run(
      `m${placement}`,
      placement,
      released === null ? "held" : "released",
      START + from * MINUTE,
      START + from * MINUTE,
      released === null ? null : START + released * MINUTE,
      placement,
      spot,
    );
}
const saved = (h: Harness, path: string, minutes: number): void =>
  void h.store.db
    .prepare(
      "INSERT INTO checkpoint (job_id, path, size, modified_at, saved_at, in_progress) VALUES ('job1', ?, 1, ?, 0, 0)",
    )
    .run(path, START + minutes * MINUTE);

/**
 * A run that starts at once, is lost after ten minutes and continues three minutes later; its checkpoint is from minute
 * 7.
 */
async function recovered(checkpoint: string | null): Promise<Harness> {
  const h = await begin();
  await h.attempt("place").done({ candidate: 1 });
  machine(h, 1, 0, 11);
  await h.upTo("stream");
  if (checkpoint !== null) saved(h, `${checkpoint}/model.bin`, 7);
  await h.clock.advance(10 * MINUTE);
  await h.attempt("stream").fail(lost());
  await h.clock.advance(MINUTE);
  await h.attempt("collect").done({ exit_code: null });
  await h.attempt("terminate").done({ checkpoint: checkpoint === null ? null : `${checkpoint}@1` });
  return h;
}
async function next(h: Harness, from: string | null): Promise<void> {
  await h.attempt("place").done({ candidate: 0 });
  machine(h, 2, 11, null);
  if (from !== null)
    await h.engine.commit((tx) => tx.store.resumedFrom("job1", 2, JSON.stringify({ job: "job1", checkpoint: from })));
  await h.clock.advance(2 * MINUTE);
  await h.upTo("stream");
}

it("A job that searches for its first machine has no placement, and its record says what svc has tried and when it tries again", async () => {
  const h = await begin();
  expect(seen(h)).toEqual({
    placements: [],
    waiting: { since: at(0), until: null, next_at: null, tried: [], limit: null },
  });
  const tried = [
    { candidate: 0, provider: "podhost", gpus: "A100", why: "sold out" },
    { candidate: 1, provider: "market", gpus: "H100:2", why: "above the cap." },
  ];
  const { result } = h.attempt("place");
  result.resolve({ later: { afterMs: 30_000, why: "none", detail: { tried, until: at(60) } } });
  await h.clock.advance(1_000);
  expect(seen(h).waiting).toEqual({ since: at(0), until: at(60), next_at: at(0.5), tried, limit: null });
  expect(h.reads.job("job1")).toMatchObject({ status: "waiting", placements: 0, price_per_hour_usd: null });
  const [first] = h.reads.jobs({ limit: 50 }).jobs;
  expect(first?.note?.kind).toBe("waiting_for_capacity");
  expect(first?.note?.message).toMatch(
    /^2 candidates tried, next search at \d\d:\d\d\. podhost A100: sold out; market H100:2: above the cap\.$/,
  );
  // Until the next look has results, the answer shows those of the last one.
  await h.clock.advance(60_000);
  expect(seen(h).waiting).toMatchObject({ next_at: null, tried });
});

it("A record has the checkpoint that its run started from: as the spec names it, then as it was chosen", async () => {
  const h = await Harness.open();
  onTestFinished(() => h.end());
  await h.create("job1", { spec: { resume_from: "job0" } });
  await h.create("job2", { spec: { resume_from: "job1", resume_checkpoint: "step_9" } });
  await h.create("job3");
  const sources = () => h.reads.jobs({ limit: 50 }).jobs.map(({ id, resumed_from: from }) => [id, from]);
  expect(Object.fromEntries(sources())).toEqual({
    job1: { job: "job0", checkpoint: null },
    job2: { job: "job1", checkpoint: "step_9" },
    job3: null,
  });
  // A run without a checkpoint of its own stands for the one that it was resumed from.
  const chosen = { job: "job00", checkpoint: "step_7" };
  await h.engine.commit((tx) => tx.store.resumedFrom("job1", 1, JSON.stringify(chosen)));
  expect(h.reads.job("job1")?.resumed_from).toEqual(chosen);
});

it("A lost machine shows the time and the money that the next one repeats", async () => {
  const h = await recovered("step_7");
  await next(h, "step_7");
  const { placements, waiting } = seen(h);
  expect(waiting).toBeNull();
  expect(placements).toMatchObject([
    {
      n: 1,
      candidate: 1,
      provider: "market",
      gpus: "H100:2",
      region: "EU",
      spot: "prefer",
      status: "failed",
      opened_at: at(0),
      started_at: at(0),
      closed_at: at(11),
      price_per_hour_usd: 3.6,
      cost_usd: 0.66,
      failure: "machine_lost",
      step: "stream",
      error: { code: "machine_lost" },
      checkpoint: "step_7@1",
      resumed_from: null,
      goes_on: true,
      work_lost_seconds: 180,
      work_lost_usd: 0.18,
      machines: ["m1"],
    },
    {
      n: 2,
      candidate: 0,
      provider: "podhost",
      status: "running",
      started_at: at(13),
      closed_at: null,
      cost_usd: 0.12,
      failure: null,
      resumed_from: { job: "job1", checkpoint: "step_7" },
      goes_on: false,
      work_lost_seconds: null,
      machines: ["m2"],
    },
  ] satisfies Partial<Placement>[] | object[]);
  expect(h.reads.job("job1")).toMatchObject({
    status: "running",
    provider: "podhost",
    gpus: "A100",
    placements: 2,
    price_per_hour_usd: 3.6,
    cost_usd: 0.78,
    note: { kind: "continuing", message: expect.stringMatching(/^Placement 2; placement 1 on market H100:2 ended: /) },
  });
});

it("Work that no checkpoint has saved is lost from the start of the script", async () => {
  const h = await recovered("step_7");
  await next(h, null);
  expect(seen(h).placements[0]).toMatchObject({ work_lost_seconds: 600, work_lost_usd: 0.6 });
});

it("The loss is unknown until the next script has started, and also if the checkpoint was overwritten since then", async () => {
  const h = await recovered("step_7");
  expect(seen(h).placements[0]?.work_lost_seconds).toBeNull();
  await next(h, "step_7");
  saved(h, "step_7/optimizer.bin", 14);
  expect(seen(h).placements[0]).toMatchObject({ work_lost_seconds: null, work_lost_usd: null });
});

it("An order without a machine cost nothing and lost nothing", async () => {
  const h = await begin();
  await h.attempt("place").done({ candidate: 0 });
  await h.attempt("provision").fail(noMachine());
  await h.attempt("terminate").done({ checkpoint: null });
  expect(seen(h).placements).toMatchObject([
    { n: 1, status: "failed", failure: "no_machine", cost_usd: 0, price_per_hour_usd: null, work_lost_seconds: 0 },
  ]);
  expect(h.reads.job("job1")?.note).toMatchObject({ kind: "continuing", message: expect.stringContaining("sold out") });
});

it("Steps and transitions name their placement, and the search for one names none", async () => {
  const h = await recovered("step_7");
  await next(h, "step_7");
  await h.engine.send("job1", KILL);
  const { steps, transitions } = h.reads.timeline("job1");
  const of = (placement: number | null) => steps.filter((step) => step.placement === placement).map(({ step }) => step);
  expect(of(null)).toEqual(["place", "place"]);
  const all = ["provision", "await_ssh", "sync", "install", "launch", "stream", "collect"];
  expect([of(1), of(2)]).toEqual([[...all, "terminate"], all]);
  expect(transitions.map(({ to, placement }) => `${to} ${placement}`)).toEqual([
    "waiting null",
    ...["provisioning", "awaiting_ssh", "syncing", "installing", "running", "terminating", "waiting"].map(
      (s) => `${s} 1`,
    ),
    ...["provisioning", "awaiting_ssh", "syncing", "installing", "running", "terminating"].map((s) => `${s} 2`),
  ]);
});

it("A spot machine shows what it saved against the price on demand of its order, or nothing if that is unknown", async () => {
  const h = await begin();
  await h.attempt("place").done({ candidate: 1 });
  machine(h, 1, 0, null, 1);
  await h.clock.advance(30 * MINUTE);
  expect(seen(h).placements[0]?.saved_usd).toBeNull();
  h.store.db.prepare("UPDATE machine SET handle = ?").run(JSON.stringify({ extra: { on_demand_micro: "10000000" } }));
  expect(seen(h).placements[0]?.saved_usd).toBeCloseTo(3.2, 6);
  // Without a price on demand the saving is unknown, and a machine on demand saves nothing.
  h.store.db.prepare("UPDATE machine SET handle = ?").run(JSON.stringify({ extra: { on_demand_micro: "" } }));
  expect(seen(h).placements[0]?.saved_usd).toBeNull();
  h.store.db.prepare("UPDATE machine SET spot = 0").run();
  expect(seen(h).placements[0]?.saved_usd).toBeNull();
});

it("A store from a version without placements is read without them", async () => {
  const h = await Harness.open();
  await h.create();
  h.store.db.exec(
    "DROP TABLE placement; ALTER TABLE machine DROP COLUMN placement; ALTER TABLE machine DROP COLUMN spot",
  );
  expect(h.reads.job("job1")).toMatchObject({ placements: 1, provider: "local" });
  expect(h.reads.placements("job1")).toEqual({ placements: [], waiting: null });
  expect(h.reads.timeline("job1").transitions[0]?.placement).toBeNull();
});

it("The time to start is the median of the placements that reached their script, by provider and GPUs", async () => {
  const h = await recovered("step_7");
  await next(h, "step_7");
  expect(h.reads.startTimes("podhost", "A100")).toEqual({ seconds: 120, ssh_seconds: 120, runs: 1 });
  expect(h.reads.startTimes("market", "H100:2")).toEqual({ seconds: 0, ssh_seconds: 0, runs: 1 });
  expect(h.reads.startTimes("market", "A100")).toBeNull();
});
