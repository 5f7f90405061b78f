// The retention rule of a home: the real store, engine and removals, real files, and clocks that jump. test/process/retention.test.ts has
// whole processes.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RetentionKeeper } from "../../src/app/retention.ts";
import type { Clock } from "../../src/domain/clock.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { Removals } from "../../src/engine/removals.ts";
import { ResumeClaims } from "../../src/engine/resume-claims.ts";
import { Outbox } from "../../src/notify/outbox.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import type { RetentionRule } from "../../src/schemas/retention.ts";
import { NotifyStore } from "../../src/store/notify-store.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Harness, removeHomes } from "./harness.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const RULE: RetentionRule = { older_than: "30d", keep_best: null, keep_newest: null };

let h: Harness;
let keeper: RetentionKeeper;
let removals: Removals;
let ledger: DurableLedger;
let claims: ResumeClaims;
let reported: string[];
/** How far each clock is from the true time. */
let [ownOff, wallOff, sleptMs] = [0, 0, 0];

const clock: Clock = {
  now: () => h.clock.now() + ownOff,
  monotonic: () => h.clock.monotonic() - sleptMs,
  setTimer: (ms, fn) => h.clock.setTimer(ms, fn),
};

function assemble(): void {
  const { engine, home, reads, store } = h;
  reported = [];
  ledger = new DurableLedger(engine);
  claims = new ResumeClaims(store);
  const report = (line: string) => void reported.push(line);
  removals = new Removals({
    home,
    engine,
    ledger,
    reads,
    claims,
    sinks: { endUploads: () => Promise.resolve() },
    forget: () => undefined,
    collectCode: () => Promise.resolve(),
    report,
  });
  const outbox = new Outbox(new NotifyStore(store.db), () => undefined);
  keeper = new RetentionKeeper({
    engine,
    clock,
    wall: () => h.clock.now() + wallOff,
    reads,
    remove: (id, rule) => removals.remove(id, rule),
    notice: (tx, found) => void outbox.add(tx, found),
    report,
  });
}

beforeEach(async () => {
  [ownOff, wallOff, sleptMs] = [0, 0, 0];
  h = await Harness.open();
  assemble();
});
afterEach(async () => {
  await keeper.stop();
  await removals.settle();
  await h.end();
});
afterAll(removeHomes);

const fileOf = (id: string): string => join(homeLayout.checkpoints(h.home, id), "model.pt");
async function ended(id: string): Promise<void> {
  await h.create(id);
  mkdirSync(homeLayout.checkpoints(h.home, id), { recursive: true });
  writeFileSync(fileOf(id), "weights");
  await h.kill(id);
  for (const attempt of h.attempts.filter((a) => a.step === "terminate" && !a.answered)) await attempt.done();
  expect(h.row(id).state).toBe("terminal");
}
/** An hour passes, and the keeper looks. */
async function hours(n: number): Promise<void> {
  for (let i = 0; i < n; i++) {
    await h.clock.advance(HOUR);
    await keeper.look();
  }
}
/** Another process takes over the home. */
async function restart(whileDown: () => void): Promise<void> {
  await keeper.stop();
  await h.end();
  whileDown();
  h = await Harness.open({}, h.home, h.clock);
  assemble();
}
const isThere = (id: string): boolean => h.store.job(id) !== undefined;
const notices = (): string[] =>
  h.store.db.prepare("SELECT title FROM notice WHERE kind = 'runs_removed' ORDER BY id").pluck().all() as string[];

describe("the rule of a home", () => {
  it("removes nothing unless it was set, and then what is older, once an hour", async () => {
    await ended("job1");
    keeper.begin();
    await h.clock.advance(40 * DAY);
    expect([isThere("job1"), keeper.state().rule]).toEqual([true, null]);
    await ended("job2");
    const set = await keeper.set(RULE);
    expect(set.due).toMatchObject({ count: 1, runs: [{ id: "job1" }] });
    // The person who set it has an hour to think again.
    await h.clock.advance(HOUR - 1_000);
    expect(isThere("job1")).toBe(true);
    await h.clock.advance(2_000);
    await keeper.look();
    expect([isThere("job1"), existsSync(fileOf("job1")), isThere("job2"), existsSync(fileOf("job2"))]).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(keeper.state()).toMatchObject({
      due: { count: 0 },
      removed: [{ id: "job1", freed_bytes: expect.any(Number) as number }],
    });
    expect(keeper.state().looked_at).not.toBeNull();
    expect(reported).toEqual([expect.stringMatching(/^The retention rule \(older than 30d\) removed the run job1 /)]);
    expect(notices()).toEqual([expect.stringMatching(/^The retention rule removed 1 run, /)]);
    const removed = h.published.filter(({ type }) => type === "job.removed");
    expect(removed).toMatchObject([{ job_id: "job1", data: { by: "retention rule" } }]);
    await keeper.look();
    expect(notices()).toHaveLength(1);
  });

  it("is applied at the start of a control plane", async () => {
    await ended("job1");
    await h.clock.advance(40 * DAY);
    await keeper.set(RULE);
    await restart(() => undefined);
    keeper.begin();
    await h.clock.advance(0);
    await keeper.look();
    expect(isThere("job1")).toBe(false);
  });

  it("keeps runs that are archived or in use, or become so at the last moment", async () => {
    for (const id of ["job1", "job2", "job3", "job4", "job5"]) await ended(id);
    await h.clock.advance(40 * DAY);
    await h.create("job6", { spec: { resume_from: "job2" } });
    const name = "svc-test-job3-n0-1";
    await ledger.intend({
      name,
      jobId: "job3",
      node: 0,
      ordinal: 1,
      provider: "podhost",
      horizonAt: h.clock.now() + HOUR,
    });
    await keeper.archive("job1", true);
    const over = claims.claim({ resume_from: "job4" });
    expect((await keeper.set(RULE)).due).toMatchObject({ count: 2, kept: { archived: 1, in_use: 2 } });
    await hours(1);
    expect(["job1", "job2", "job3", "job4", "job5"].filter(isThere)).toEqual(["job1", "job2", "job3", "job4"]);
    over();
    await keeper.archive("job1", false);
    await hours(1);
    expect(["job1", "job2", "job3", "job4"].filter(isThere)).toEqual(["job2", "job3"]);
    await expect(keeper.archive("job6", true)).rejects.toThrow("it has not ended");
  });

  it("keeps a run that is archived after it was chosen, right before the commit of its removal", async () => {
    for (const id of ["job1", "job2"]) await ended(id);
    await h.clock.advance(40 * DAY);
    await keeper.set(RULE);
    const remove = removals.remove.bind(removals);
    vi.spyOn(removals, "remove").mockImplementationOnce(async (id, rule) => {
      const [removed] = await Promise.all([remove(id, rule), keeper.archive(id, true)]);
      return removed;
    });
    await keeper.look();
    expect(["job1", "job2"].filter(isThere)).toEqual(["job1"]);
  });

  it("that is changed or removed while it works ends there", async () => {
    for (const id of ["job1", "job2"]) await ended(id);
    await h.clock.advance(40 * DAY);
    await keeper.set(RULE);
    const looked = keeper.look();
    await keeper.set(null);
    await looked;
    expect(["job1", "job2"].filter(isThere)).toEqual(["job1", "job2"]);
  });

  it("finishes what an earlier process has begun, and reports it then", async () => {
    for (const id of ["job1", "job2"]) await ended(id);
    await h.clock.advance(40 * DAY);
    await keeper.set(RULE);
    // The process dies right after the commit of the first removal.
    h.store.db.exec("CREATE TRIGGER t BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the disk fails'); END");
    await keeper.look();
    expect([
      isThere("job1"),
      h.store.db.prepare("SELECT count(*) FROM removal WHERE ended_at IS NULL").pluck().get(),
    ]).toEqual([false, 2]);
    h.store.db.exec("DROP TRIGGER t; DELETE FROM notice; UPDATE removal SET told = 0");
    await restart(() => undefined);
    removals.begin(() => undefined);
    await keeper.look();
    const open = () => h.store.db.prepare("SELECT count(*) FROM removal WHERE ended_at IS NULL").pluck().get();
    await vi.waitFor(() => expect(open()).toBe(0), DEADLINE_MS);
    expect(notices()).toEqual([expect.stringContaining("removed 2 runs")]);
  });
});

describe("a clock that jumps removes nothing that is not old", () => {
  beforeEach(async () => {
    await ended("job1");
    await keeper.set(RULE);
    keeper.begin();
    await hours(3);
  });

  it.each([
    ["the computer's clock is set ahead while svc runs", () => (wallOff = 3_650 * DAY)],
    ["the clock was ahead when svc began, and a time server set it right", () => (ownOff = 3_650 * DAY)],
  ])("%s", async (_, jump) => {
    jump();
    await hours(30);
    expect([isThere("job1"), keeper.state().doubt]).toEqual([true, null]);
  });

  it("both are ahead after a start, for an hour and for days", async () => {
    await restart(() => void ([ownOff, wallOff] = [3_650 * DAY, 3_650 * DAY]));
    keeper.begin();
    await hours(72);
    expect(isThere("job1")).toBe(true);
    expect(keeper.state().doubt).toContain("once you save the rule again");
    // The clock is right again: the doubt is over, and the age counts as before.
    await restart(() => void ([ownOff, wallOff] = [0, 0]));
    await hours(1);
    expect([isThere("job1"), keeper.state().doubt]).toEqual([
      true,
      expect.stringMatching(/^svc did not run for 3 days/),
    ]);
    await h.clock.advance(31 * DAY);
    await hours(26);
    expect(isThere("job1")).toBe(false);
  });

  it("a laptop sleeps for weeks: the run goes after svc has run for a day, not at once", async () => {
    sleptMs += 40 * DAY;
    await h.clock.jump(40 * DAY);
    await hours(2);
    expect(isThere("job1")).toBe(true);
    expect(keeper.state().doubt).toMatch(/^svc did not run for 40 days/);
    await hours(24);
    expect([isThere("job1"), keeper.state().doubt]).toEqual([false, null]);
  });

  it("the computer was off for weeks: saving the rule again takes the date as right", async () => {
    await restart(() => h.clock.setBack(-40 * DAY));
    await hours(2);
    expect(isThere("job1")).toBe(true);
    expect((await keeper.set(RULE)).doubt).toBeNull();
    await hours(1);
    expect(isThere("job1")).toBe(false);
  });

  it("the clock is decades behind: nothing goes, and runs that end then are not old later", async () => {
    await restart(() => h.clock.setBack(20_000 * DAY));
    keeper.begin();
    await ended("job2");
    await hours(2);
    expect(keeper.state().doubt).toContain("The rule removes nothing until the clock is past that day again");
    await restart(() => h.clock.setBack(-20_000 * DAY));
    await hours(30);
    expect(["job1", "job2"].filter(isThere)).toEqual(["job1", "job2"]);
  });
});
