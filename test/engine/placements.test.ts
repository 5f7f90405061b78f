// Placements in the real engine over a real store: rows, restarts, and the job's record in between.

import { afterAll, expect, it } from "vitest";
import { DurableStorySink } from "../../src/engine/run-log-writer.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { PlacementRow } from "../../src/store/tables.ts";
import { SEARCHING_RULES } from "./placement-rules.ts";
import { Harness, KILL, removeHomes } from "./harness.ts";

afterAll(removeHomes);

const CANDIDATES = [
  { provider: "podhost", gpus: "A100" },
  { provider: "market", gpus: "H100:2", region: "EU" },
] as const;

async function begin(): Promise<Harness> {
  const h = await Harness.open();
  await h.create("job1", {
    rules: SEARCHING_RULES,
    spec: { provider: "podhost", gpus: "A100", candidates: [...CANDIDATES] },
  });
  return h;
}
const rows = (h: Harness): PlacementRow[] =>
  h.store.db.prepare<[], PlacementRow>("SELECT * FROM placement ORDER BY n").all();
const noMachine = () =>
  new SvcError("no_offer", { provider: "podhost", gpus: "A100", why: "sold out" }, { retry: "never" });
const lost = () => new SvcError("machine_lost", { provider: "market", machine: "m" });

it("A job that searches waits without a placement, and its row says so", async () => {
  const h = await begin();
  expect(h.row()).toMatchObject({ state: "waiting", status: "waiting", provider: "podhost" });
  expect([rows(h), h.attempts.map(({ step }) => step)]).toEqual([[], ["place"]]);
});

it("A refused candidate is one placement, and the next candidate's provider becomes the job's", async () => {
  const h = await begin();
  await h.attempt("place").done({ candidate: 0 });
  await h.attempt("provision").fail(noMachine());
  expect(h.row()).toMatchObject({ state: "terminating" });
  await h.attempt("terminate").done({ checkpoint: null });
  expect(h.row()).toMatchObject({ state: "waiting", error: null });
  expect(h.engine.placement("job1").refusals).toMatchObject([{ candidate: 0, code: "no_offer" }]);
  await h.attempt("place").done({ candidate: 1 });
  expect(h.row()).toMatchObject({ state: "provisioning", provider: "market", gpus: "H100:2" });
  expect(rows(h)).toMatchObject([
    { n: 1, candidate: 0, provider: "podhost", failure: "no_machine", step: "provision", goes_on: 1 },
    { n: 2, candidate: 1, provider: "market", region: "EU", closed_at: null, outcome: null },
  ]);
  expect(h.folds()).toBe(true);
});

it("If a machine is lost and a checkpoint was downloaded, another machine continues the same job", async () => {
  const h = await begin();
  await h.attempt("place").done({ candidate: 1 });
  await h.upTo("stream");
  await h.attempt("stream").fail(lost());
  await h.attempt("collect").done({ exit_code: null });
  await h.attempt("terminate").done({ checkpoint: "step_10@1" });
  await h.attempt("place").done({ candidate: 1 });
  await h.upTo("terminate");
  await h.attempt("terminate").done({ checkpoint: null });
  expect(h.row()).toMatchObject({ state: "terminal", status: "succeeded", error: null, exit_code: 0 });
  expect(rows(h)).toMatchObject([
    { n: 1, failure: "machine_lost", step: "stream", checkpoint: "step_10@1", goes_on: 1 },
    { n: 2, failure: null, outcome: "succeeded", goes_on: 0 },
  ]);
  expect(h.folds()).toBe(true);
});

it("Preemptions without a new checkpoint continue, and a notice asks the owner to save more often", async () => {
  const h = await begin();
  const preempted = () => new SvcError("machine_preempted", { provider: "market", machine: "m", why: "outbid" });
  const notices = () =>
    h.store.db.prepare<[], string>("SELECT data FROM feed WHERE type = 'notice' ORDER BY seq").pluck().all();
  for (const isRepeated of [false, true]) {
    await h.attempt("place").done({ candidate: 1 });
    await h.upTo("stream");
    await h.attempt("stream").fail(preempted());
    await h.attempt("collect").done({ exit_code: null });
    await h.attempt("terminate").done({ checkpoint: "step_10@1" });
    expect(h.row().state).toBe("waiting");
    expect(/taken back 2 times without a new complete checkpoint/.test(notices().at(-1) ?? "")).toBe(isRepeated);
  }
  expect(h.folds()).toBe(true);
});

it("A restart between two placements continues from the stored rows", async () => {
  let h = await begin();
  await h.attempt("place").done({ candidate: 0 });
  await h.attempt("provision").fail(noMachine());
  h = await h.restart();
  await h.engine.recover();
  await h.attempt("terminate").done({ checkpoint: null });
  h = await h.restart();
  await h.engine.recover();
  expect(h.row().state).toBe("waiting");
  expect(h.engine.placement("job1")).toMatchObject({ n: 1, candidate: null, searches: true });
  await h.attempt("place").done({ candidate: 1 });
  expect(rows(h).map(({ n, provider }) => `${n} ${provider}`)).toEqual(["1 podhost", "2 market"]);
});

it("A kill ends a waiting job at once; during the release of a failed placement it prevents the next one", async () => {
  const waiting = await begin();
  await waiting.kill();
  expect(waiting.row()).toMatchObject({ state: "terminal", status: "cancelled" });
  const h = await begin();
  await h.attempt("place").done({ candidate: 1 });
  await h.upTo("stream");
  await h.attempt("stream").fail(lost());
  await h.engine.send("job1", KILL);
  await h.attempt("collect").done({ exit_code: null });
  await h.attempt("terminate").done({ checkpoint: "step_10@1" });
  expect(h.row()).toMatchObject({ state: "terminal", status: "cancelled" });
});

it("A kill of a parked job that waits leaves its closed placement as it ended", async () => {
  let h = await begin();
  await h.attempt("place").done({ candidate: 0 });
  await h.attempt("provision").fail(noMachine());
  await h.attempt("terminate").done({ checkpoint: null });
  const closed = rows(h);
  h.store.db.prepare("UPDATE job SET version = 99").run();
  h = await h.restart();
  await h.engine.recover();
  await h.engine.send("job1", KILL);
  await h.attempt("collect").done({ exit_code: null });
  await h.attempt("terminate").done({ checkpoint: null });
  expect(h.row()).toMatchObject({ state: "terminal", status: "cancelled" });
  expect(rows(h)).toEqual(closed);
  expect(h.folds()).toBe(true);
});

it("The provider of a parked job's last placement releases the job's machines", async () => {
  let h = await begin();
  await h.attempt("place").done({ candidate: 1 });
  h.store.db.prepare("UPDATE job SET snapshot = '{}' WHERE id = 'job1'").run();
  h = await h.restart();
  await h.engine.recover();
  expect(h.row().parked).not.toBeNull();
  await h.kill();
  expect(h.engine.placement("job1")).toMatchObject({ n: 1, candidate: 1 });
  expect(h.row().state).toBe("terminating");
});

it("A checkpoint counts as an earlier machine's if it was downloaded before the present placement opened", async () => {
  const h = await begin();
  const sink = new DurableStorySink({ engine: h.engine, home: h.home, hint: () => {} });
  const saved = (path: string) =>
    sink.checkpoints("job1", [{ path, size: 1, modified_at: new Date(0).toISOString(), in_progress: false }]);
  await h.attempt("place").done({ candidate: 1 });
  await h.upTo("stream");
  await h.clock.advance(1_000);
  await saved("step_10/a");
  expect(sink.isEarlier("job1", ["step_10/a"])).toBe(false);
  await h.clock.advance(1_000);
  await h.attempt("stream").fail(lost());
  await h.attempt("collect").done({ exit_code: null });
  await h.attempt("terminate").done({ checkpoint: "step_10@1" });
  await h.attempt("place").done({ candidate: 1 });
  await h.upTo("stream");
  await h.clock.advance(1_000);
  await saved("step_20/a");
  const isEarlier = (...paths: string[]) => sink.isEarlier("job1", paths);
  expect([isEarlier("step_10/a"), isEarlier("step_10/a", "shard-of-node-1"), isEarlier("step_20/a")]).toEqual([
    true,
    true,
    false,
  ]);
});
