import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { installationPrefix, nodePrefix } from "../../src/domain/machine-names.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { refold } from "../../src/engine/journal.ts";
import { reconcile } from "../../src/engine/reconcile.ts";
import { inPart } from "../../src/providers/provider.ts";
import type { ReconcileReport } from "../../src/schemas/job.ts";
import { Harness, INSTALLATION, removeHomes, START } from "./harness.ts";
import { down, SmallCloud } from "./small-cloud.ts";

const PREFIX = installationPrefix(INSTALLATION);
const MINE = `${nodePrefix(INSTALLATION, "job1", 0)}1`;
let h: Harness;
let cloud: SmallCloud;
let ledger: DurableLedger;
beforeEach(async () => {
  h = await Harness.open();
  cloud = new SmallCloud();
  ledger = new DurableLedger(h.engine);
});
afterEach(() => h.end());
afterAll(removeHomes);

async function run(dryRun = false): Promise<ReconcileReport> {
  const report = reconcile(
    { engine: h.engine, ledger, providers: new Map([["podhost", cloud]]), connected: () => true },
    { dryRun },
  );
  await h.clock.advance(60_000);
  return report;
}

/** A live job that holds a machine. */
async function liveJob(): Promise<void> {
  await h.create("job1", { spec: { provider: "podhost" } });
  await ledger.intend({ name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START });
  await ledger.held(MINE, cloud.add(MINE));
}

/** A live job whose first order is closed; resolves with the name of its second order, which is open. */
async function orderedAgain(): Promise<string> {
  const second = `${nodePrefix(INSTALLATION, "job1", 0)}2`;
  await h.create("job1", { spec: { provider: "podhost" } });
  await ledger.intend({ name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START });
  await ledger.released(MINE, "2 listings in a row without it");
  await ledger.intend({ name: second, jobId: "job1", node: 0, ordinal: 2, provider: "podhost", horizonAt: START });
  return second;
}

describe("a machine that bears our mark", () => {
  it("A reconcile releases a marked machine that belongs to no job", async () => {
    cloud.add(`${PREFIX}job9-n0-1`);
    const report = await run();
    expect(report).toMatchObject({
      terminated: [{ name: `${PREFIX}job9-n0-1`, provider: "podhost", job_id: null }],
      failed: [],
      unreachable_providers: [],
      foreign: [],
    });
    expect(cloud.machines).toEqual([]);
    expect([ledger.row(`${PREFIX}job9-n0-1`)?.state, ledger.owed()]).toEqual(["released", []]);
  });

  it("A reconcile leaves the machine of a live job alone", async () => {
    await liveJob();
    expect(await run()).toMatchObject({ terminated: [], failed: [], resumed: ["job1"] });
    expect(cloud.names).toEqual([MINE]);
  });

  it("A machine that was renamed in the provider's console is not foreign while its id is in the ledger", async () => {
    await liveJob();
    const theirs = { id: "pod-9", name: "theirs" };
    Object.assign(cloud, { listForeign: () => Promise.resolve([{ id: "pod-1", name: "renamed" }, theirs]) });
    expect((await run(true)).foreign).toEqual([{ provider: "podhost", ...theirs }]);
    // After the proof of the machine's end its id says nothing.
    await ledger.released(MINE, "the provider says that it does not exist");
    expect((await run(true)).foreign).toHaveLength(2);
  });

  it("A reconcile reports a machine that its job is releasing until it is proven gone", async () => {
    await liveJob();
    await h.kill();
    expect(h.row().state).toBe("terminating");
    const ending = [{ name: MINE, id: "pod-1", provider: "podhost", job_id: "job1", price_per_hour_usd: 1 }];
    for (const dryRun of [true, false])
      expect(await run(dryRun)).toMatchObject({ resumed: ["job1"], ending, terminated: [], failed: [] });
    await ledger.released(MINE, "the provider says that it does not exist");
    expect(await run(true)).toMatchObject({ resumed: ["job1"], ending: [] });
  });

  it("A reconcile releases a machine whose job is over", async () => {
    await liveJob();
    await h.kill();
    await h.attempt("terminate").done();
    expect(h.row().state).toBe("terminal");
    expect((await run()).terminated).toMatchObject([{ name: MINE, job_id: "job1" }]);
    expect([cloud.machines, ledger.owed()]).toEqual([[], []]);
  });

  it("A machine whose job is over is proven gone when the provider no longer lists it", async () => {
    await liveJob();
    await h.kill();
    await h.attempt("terminate").done();
    cloud.machines = [];
    await run();
    expect(ledger.row(MINE)).toMatchObject({ state: "released" });
  });

  it.each([false, true])(
    "A list older than the proof does not open a closed row again (dry run: %s)",
    async (dryRun) => {
      await liveJob();
      await h.kill();
      const [handle] = cloud.machines;
      cloud.machines = [];
      await ledger.released(MINE, "the provider says that it does not exist");
      await h.attempt("terminate").done();
      const before = ledger.row(MINE);
      Object.assign(cloud, { listOwned: () => Promise.resolve([handle]) });
      expect(await run(dryRun)).toMatchObject({ terminated: [], failed: [] });
      expect(ledger.row(MINE)).toEqual(before);
      expect(cloud.calls.includes("terminate pod-1")).toBe(!dryRun);
    },
  );

  it("A machine that exists in spite of its proof is released again", async () => {
    await liveJob();
    await h.kill();
    await ledger.released(MINE, "the provider says that it does not exist");
    await h.attempt("terminate").done();
    expect((await run()).terminated).toMatchObject([{ name: MINE, job_id: "job1" }]);
    expect([cloud.machines, ledger.owed()]).toEqual([[], []]);
  });

  it("An order that an ended job never sent is closed once the lists have proven that it made nothing", async () => {
    await h.create("job1", { spec: { provider: "podhost" } });
    await h.kill();
    await h.attempt("terminate").done();
    // The kill came while the order was being prepared, and the process ended before it could close the row.
    const horizonAt = START + 60_000;
    await ledger.intend({ name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt });
    await run();
    expect(ledger.owed()).toHaveLength(1);
    for (let sweeps = 0; sweeps < 2; sweeps++) {
      await h.clock.advance(60_000);
      expect(await run()).toMatchObject({ failed: [] });
    }
    expect(ledger.row(MINE)).toMatchObject({
      state: "released",
      proof: expect.stringContaining("2 listings") as string,
    });
  });

  it("A reconcile releases a second machine of a name, and not the one of the live job", async () => {
    await liveJob();
    const second = cloud.add(MINE);
    expect((await run()).terminated).toMatchObject([{ name: MINE, id: second.id }]);
    expect(cloud.machines.map((m) => m.id)).toEqual(["pod-1"]);
    expect(ledger.row(MINE)).toMatchObject({ state: "held", resource_id: "pod-1" });
  });

  it("A machine that appears after its order was closed is released, and its job keeps the next one", async () => {
    const second = await orderedAgain();
    await ledger.held(second, cloud.add(second));
    cloud.add(MINE);
    expect((await run()).terminated).toMatchObject([{ name: MINE, job_id: "job1" }]);
    expect(cloud.names).toEqual([second]);
    expect(ledger.open("job1", 0).map(({ name }) => name)).toEqual([second]);
  });

  it("is the job's own by its id, even if the provider lists it under the name of a closed order", async () => {
    const second = await orderedAgain();
    const listed = cloud.add(MINE);
    await ledger.held(second, { ...listed, name: second });
    expect(await run()).toMatchObject({ terminated: [], failed: [], resumed: ["job1"] });
    expect(cloud.names).toEqual([MINE]);
    expect(ledger.open("job1", 0).map(({ name }) => name)).toEqual([second]);
  });

  it("A machine that cannot be released is reported as failed, and its row stays open", async () => {
    cloud.add(`${PREFIX}job9-n0-1`);
    cloud.lies = true;
    const report = await run();
    expect(report).toMatchObject({
      terminated: [],
      failed: [{ name: `${PREFIX}job9-n0-1`, error: { code: "still_listed" } }],
    });
    expect(ledger.owed()).toMatchObject([{ state: "releasing" }]);
  });

  it("The row of a machine that cannot be released stays open when the key of another account is set", async () => {
    let account = "ours";
    Object.assign(cloud, { accountId: () => Promise.resolve(account) });
    const orphan = cloud.add(`${PREFIX}job9-n0-1`);
    cloud.lies = true;
    await run();
    account = "theirs";
    cloud.machines = [];
    const [failed] = (await run()).failed;
    expect(failed).toMatchObject({ name: orphan.name, error: { code: "account_unproven" } });
    expect(ledger.row(orphan.name)).toMatchObject({ state: "releasing", account: "ours" });
  });

  it("A refused release is reported as failed, and the other machines are released", async () => {
    cloud.add(`${PREFIX}a-n0-1`, "bad");
    cloud.add(`${PREFIX}b-n0-1`, "good");
    cloud.before = (call) => {
      if (call === "terminate bad") throw down();
    };
    const report = await run();
    expect([report.terminated.map((t) => t.id), report.failed.map((f) => f.name)]).toEqual([
      ["good"],
      [`${PREFIX}a-n0-1`],
    ]);
    expect(ledger.row(`${PREFIX}a-n0-1`)?.note).toMatch(/may still cost money/);
  });
});

describe("machines without our mark", () => {
  it.each(["web-server", "svc-otherone-job1-n0-1", "svc-", PREFIX.slice(0, -1)])(
    "is never touched: %s",
    async (name) => {
      cloud.sloppy = true;
      cloud.add(name);
      expect(await run()).toMatchObject({ terminated: [], failed: [] });
      expect([cloud.names, ledger.owed()]).toEqual([[name], []]);
      expect(cloud.calls.filter((c) => c.startsWith("terminate"))).toEqual([]);
    },
  );
});

describe("a provider that does not answer", () => {
  it("is named, and its rows stay open: silence does not prove anything", async () => {
    await liveJob();
    await h.kill();
    await h.attempt("terminate").done();
    cloud.machines = [];
    cloud.before = () => {
      throw down();
    };
    expect(await run()).toMatchObject({ terminated: [], unreachable_providers: ["podhost"] });
    expect(ledger.owed()).toMatchObject([{ name: MINE, state: "held" }]);
  });

  it("is named if only a part of it is silent, and machines in the rest are ended", async () => {
    const [orphan] = [`${PREFIX}job9-n0-1`, "web-server"].map((name) => cloud.add(name));
    cloud.before = (call) => {
      if (call === "list") throw inPart(down(), [...cloud.machines], "named");
    };
    expect(await run()).toMatchObject({ terminated: [{ id: orphan?.id }], unreachable_providers: ["podhost"] });
    expect(cloud.names).toEqual(["web-server"]);
  });
});

describe("a dry run", () => {
  it("reports what would be released, and changes nothing", async () => {
    await liveJob();
    cloud.add(`${PREFIX}job9-n0-1`);
    cloud.add(MINE);
    const before = [h.reads.latestSeq(), h.store.db.prepare("SELECT * FROM machine").all(), cloud.machines];
    const report = await run(true);
    expect([report.dry_run, report.terminated.map((t) => t.id)]).toEqual([true, ["pod-2", "pod-3"]]);
    expect([h.reads.latestSeq(), h.store.db.prepare("SELECT * FROM machine").all(), cloud.machines]).toEqual(before);
    expect(cloud.calls).toEqual(["list"]);
  });
});

describe("the journal", () => {
  const tamper = (sql: string) => void h.store.db.prepare(`UPDATE journal SET ${sql} AND job_id = 'job1'`).run();
  beforeEach(async () => {
    await h.create();
    await h.upTo("launch");
  });

  it("leads to the stored snapshot, byte for byte", async () => {
    expect(refold(h.store.journal("job1"))).toEqual({ text: h.row().snapshot, differsAt: null });
    expect((await run(true)).replayed).toEqual([{ job_id: "job1", ok: true, first_difference_seq: null }]);
  });

  it.each([
    ["an event that says something else", `event = replace(event, '"node":0', '"node":7') WHERE seq = 3`, 3],
    ["a hash that is another", "hash = 'x' WHERE seq = 2", 2],
    ["a first entry that is missing its input", `event = '{"type":"job.created"}' WHERE seq = 1`, 1],
    ["an event that is no JSON", "event = '{' WHERE seq = 4", 4],
    ["an event that is null", "event = 'null' WHERE seq = 4", 4],
    ["an event of a type that nobody knows", `event = '{"type":"nonsense"}' WHERE seq = 5`, 5],
  ])("is found to be tampered with at the right seq: %s", async (_, sql, seq) => {
    tamper(sql);
    expect((await run(true)).replayed).toEqual([{ job_id: "job1", ok: false, first_difference_seq: seq }]);
  });

  it("A journal that lost its first rows is found", async () => {
    h.store.db.prepare("DELETE FROM journal WHERE seq = 1").run();
    expect((await run(true)).replayed).toMatchObject([{ ok: false, first_difference_seq: 2 }]);
  });

  it("A journal that contradicts the stored snapshot is found at its end", async () => {
    h.store.db.prepare("UPDATE job SET snapshot = replace(snapshot, 'running', 'syncing')").run();
    expect((await run(true)).replayed).toMatchObject([{ ok: false, first_difference_seq: h.row().seq }]);
  });
});
