// Removing ended runs: the real engine, ledger and store, and real files in a home. test/cli/rm.test.ts has whole processes.

import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { Removals } from "../../src/engine/removals.ts";
import { ResumeClaims } from "../../src/engine/resume-claims.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { LogStore } from "../../src/store/log-store.ts";
import { SinkStore } from "../../src/store/sink-store.ts";
import { Harness, removeHomes, START, turn } from "./harness.ts";

let h: Harness;
let ledger: DurableLedger;
let claims: ResumeClaims;
let removals: Removals;
let reported: string[];
/** For each deletion of code, how many runs still had their files. */
let collected: number[];
/** Runs whose uploads were ended, and whether their files were still there. */
let ended: string[];
/** A deletion of code ends with it. */
let collecting: Promise<void>;
/** Work that the removals repeat until the control plane closes. */
let repeated: (() => void)[];

function assemble(): void {
  ledger = new DurableLedger(h.engine);
  claims = new ResumeClaims(h.store);
  [reported, repeated, collected, collecting, ended] = [[], [], [], Promise.resolve(), []];
  removals = new Removals({
    home: h.home,
    engine: h.engine,
    ledger,
    reads: h.reads,
    claims,
    sinks: { endUploads: async (id, which) => void ended.push(`${which} of ${id}: ${existsSync(fileOf(id))}`) },
    forget: () => undefined,
    collectCode: () => {
      collected.push(["job1", "job2", "job3"].filter((id) => existsSync(fileOf(id))).length);
      return collecting;
    },
    report: (line) => void reported.push(line),
  });
}

beforeEach(async () => {
  h = await Harness.open();
  assemble();
});
afterEach(async () => {
  await removals.settle();
  await h.end();
});
afterAll(removeHomes);

async function end(id = "job1"): Promise<void> {
  await h.kill(id);
  for (const attempt of h.attempts.filter((a) => a.step === "terminate" && !a.answered)) await attempt.done();
  expect(h.row(id).state).toBe("terminal");
}

const fileOf = (id = "job1"): string => join(homeLayout.checkpoints(h.home, id), "model.pt");
function save(id = "job1"): void {
  mkdirSync(dirname(fileOf(id)), { recursive: true });
  writeFileSync(fileOf(id), "weights");
}

const refusal = (id = "job1") =>
  removals.remove(id).then(
    () => "removed",
    (e: unknown) => (e as Error).message,
  );

async function rent(id = "job1"): Promise<string> {
  const name = `svc-test-${id}-n0-1`;
  await ledger.intend({ name, jobId: id, node: 0, ordinal: 1, provider: "podhost", horizonAt: START + 60_000 });
  await ledger.held(name, { v: 1, provider: "podhost", id: "pod-1", name, address: null, priceMicro: 2_000_000 });
  return name;
}

describe("a run", () => {
  it("is removed once it has ended, with its rows and its files; its machines stay in the ledger", async () => {
    await h.create();
    save();
    const name = await rent();
    await ledger.released(name, "seen to be gone");
    expect(await refusal()).toContain("it has not ended");
    expect(existsSync(fileOf())).toBe(true);
    await end();
    expect(await refusal()).toBe("removed");
    expect([existsSync(fileOf()), h.store.job("job1")]).toEqual([false, undefined]);
    expect(ledger.row(name)).toMatchObject({ job_id: "job1", state: "released" });
    expect(await refusal()).toContain("job1");
    // With its credentials, which are removed with its files.
    expect(ended).toEqual(["all of job1: true"]);
  });

  it("stays while a machine of it is not proven gone", async () => {
    await h.create();
    save();
    const name = await rent();
    await end();
    expect(await refusal()).toContain(`its machine ${name} is not proven gone`);
    expect([existsSync(fileOf()), h.row().state]).toEqual([true, "terminal"]);
    await ledger.released(name, "seen to be gone");
    expect(await refusal()).toBe("removed");
  });

  it("stays while a live run resumes from it, directly or through another one", async () => {
    await h.create();
    await end();
    await h.create("job2", { spec: { resume_from: "job1" } });
    await end("job2");
    await h.create("job3", { spec: { resume_from: "job2" } });
    expect(await refusal("job1")).toContain("the run job3, which has not ended, resumes from it");
    expect(await refusal("job2")).toContain("the run job3, which has not ended, resumes from it");
    await end("job3");
    expect([await refusal("job1"), await refusal("job2")]).toEqual(["removed", "removed"]);
  });

  it("stays while a run that resumes from it is being submitted", async () => {
    await h.create();
    await end();
    const over = claims.claim({ resume_from: "job1" });
    expect(await refusal()).toContain("a run that is being submitted resumes from it");
    over();
    expect(await refusal()).toBe("removed");
  });

  it("stays while its files are still being copied", async () => {
    await h.create("job1", {
      spec: { sinks: [{ kind: "objstore_a", url: "s3://bucket/runs", what: ["checkpoints"] }] },
    });
    save();
    const row = {
      job_id: "job1",
      path: "model.pt",
      size: 7,
      modified_at: 1,
      saved_at: 1,
      in_progress: 0,
      placement: 1,
    };
    new LogStore(h.store.db).checkpoint(row);
    await end();
    new SinkStore(h.store.db).insert({ job_id: "job1", sink: 0 });
    expect(await refusal()).toContain("1 of its files are still being copied to s3://bucket/runs");
  });

  it("keeps its files if its removal cannot be recorded", async () => {
    await h.create();
    save();
    await end();
    h.store.db.exec("CREATE TRIGGER t BEFORE INSERT ON removal BEGIN SELECT RAISE(ABORT, 'no'); END");
    expect(await refusal()).not.toBe("removed");
    expect([existsSync(fileOf()), h.row().state]).toEqual([true, "terminal"]);
  });
});

describe("a removal", () => {
  /** Something else stands where the folder of the run's files was. */
  const obstruct = (): (() => void) => {
    const folder = homeLayout.artifacts(h.home);
    renameSync(folder, `${folder}-away`);
    writeFileSync(folder, "not a folder");
    return () => {
      renameSync(folder, `${folder}-was`);
      renameSync(`${folder}-away`, folder);
    };
  };

  it("that could not delete everything is reported once, and tried again until it succeeds", async () => {
    await h.create();
    save();
    await end();
    const repair = obstruct();
    expect(await refusal()).toBe("removed");
    removals.begin((_ms, work) => void repeated.push(work));
    await removals.retry();
    expect(reported).toHaveLength(1);
    repair();
    expect(existsSync(fileOf())).toBe(true);
    await removals.retry();
    await removals.settle();
    expect([existsSync(fileOf()), reported.length]).toEqual([false, 1]);
  });

  it("deletes code last, and once for all removals that run", async () => {
    const ids = ["job1", "job2", "job3"];
    for (const id of ids) {
      await h.create(id);
      save(id);
      await end(id);
    }
    // A deletion of code under way holds up the next one, which serves all that have ended by then.
    const first = Promise.withResolvers<void>();
    const [held] = ids.splice(0, 1);
    collecting = first.promise;
    try {
      expect(await refusal(held)).toBe("removed");
      await turn();
      expect(collected).toEqual([2]);
      for (const id of ids) expect(await refusal(id)).toBe("removed");
    } finally {
      first.resolve();
    }
    await removals.settle();
    expect(collected).toEqual([2, 0]);
  });

  it("is continued by the next start", async () => {
    await h.create();
    save();
    await end();
    const repair = obstruct();
    expect(await refusal()).toBe("removed");
    repair();
    h = await h.restart();
    assemble();
    expect(existsSync(fileOf())).toBe(true);
    removals.begin((_ms, work) => void repeated.push(work));
    await expect.poll(() => existsSync(fileOf())).toBe(false);
    await turn();
    await removals.settle();
    expect(readdirSync(homeLayout.artifacts(h.home))).toEqual([]);
  });
});
