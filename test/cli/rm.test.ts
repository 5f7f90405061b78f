// Removing runs: real processes on a home of their own, and a removal that was interrupted at each of its points.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openControlPlane } from "../../src/app/app.ts";
import { Workplace, until, type Served } from "./serving.ts";

let place: Workplace;
beforeEach(() => (place = Workplace.own("what it keeps is counted, or it is killed")));
afterEach(() => place.close());

const TRAIN = `
import os, sys, svc
folder = svc.checkpoint_dir()
os.makedirs(folder + "/checkpoint-1", exist_ok=True)
open(folder + "/checkpoint-1/weights.bin", "wb").write(b"w" * 300_000)
open(folder + "/checkpoint-1/trainer_state.json", "w").write("{}")
svc.log({"loss": float(sys.argv[1])}, step=1)
`;

async function ended(served: Served, loss: number): Promise<string> {
  const id = await place.submit(served, "train.py", [String(loss)]);
  await until(async () => ["succeeded", "failed"].includes(await place.status(served, id)), `${id} has ended`);
  return id;
}

const filesOf = (id: string): string[] =>
  ["artifacts", "runs", "logs"].flatMap((folder) =>
    readdirSync(join(place.home, folder))
      .filter((name) => name.startsWith(id))
      .map((name) => `${folder}/${name}`),
  );
const blobs = (): string[] =>
  readdirSync(join(place.home, "code", "blobs"), { recursive: true, encoding: "utf8" }).filter((n) => n.length > 60);

test("`svc rm` removes a run with all its files, and the code that no other run uses", async () => {
  place.file("train.py", TRAIN);
  const served = await place.serve();
  const first = await ended(served, 3);
  const second = await ended(served, 1);
  place.file("train.py", `${TRAIN}# another version\n`);
  const third = await ended(served, 2);
  expect(filesOf(first)).toContain(`artifacts/${first}`);
  const before = blobs().length;

  const record = async (id: string) =>
    (await fetch(`${served.url}/jobs/${id}`)).json() as Promise<Record<string, unknown>>;
  await until(async () => Number((await record(third))["disk_bytes"]) >= 300_000, "the size of the run is measured");

  const removed = place.svc("rm", third, "--json");
  expect(removed).toMatchObject({ code: 0 });
  const answer = JSON.parse(removed.out) as { removed: { id: string; freed_bytes: number }[] };
  expect(answer.removed[0]?.id).toBe(third);
  expect(answer.removed[0]?.freed_bytes).toBeGreaterThan(300_000);
  expect(filesOf(third)).toEqual([]);
  await until(() => blobs().length === before - 1, "the code of the third run is deleted");
  expect(await record(third)).toMatchObject({
    status: 404,
    code: "job_removed",
    detail: expect.stringMatching(/ was removed on \d{4}-\d\d-\d\d \d\d:\d\d UTC/) as string,
  });
  const list = JSON.parse(place.svc("jobs", "--json").out) as { jobs: { id: string }[] };
  expect(list.jobs.map(({ id }) => id).toSorted()).toEqual([first, second].toSorted());
  // A second removal, and a request by the end of its id, report that it was removed.
  for (const asked of [
    ["rm", third],
    ["logs", third.slice(-8)],
  ]) {
    const again = place.svc(...asked);
    expect(again.code).toBe(3);
    expect(again.err).toContain(`The run ${third} was removed on`);
  }

  // The first run's code is the same as the second's.
  const afterThird = blobs().length;
  expect((await fetch(`${served.url}/jobs/${first}`, { method: "DELETE" })).status).toBe(200);
  expect(blobs().length).toBe(afterThird);
  expect((await (await fetch(`${served.url}/jobs/${second}/code`)).json()) as object).toMatchObject({
    files: expect.any(Array) as unknown[],
  });

  // The cost stays counted: the rows of machines are the ledger.
  const db = new Database(join(place.home, "svc.db"), { readonly: true });
  expect(db.prepare("SELECT count(*) AS n FROM machine WHERE job_id = ?").get(first)).toEqual({ n: 1 });
  for (const table of ["job", "journal", "effect", "feed", "log", "log_time", "series", "checkpoint"])
    expect([
      table,
      db.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${table === "job" ? "id" : "job_id"} = ?`).get(first),
    ]).toEqual([table, { n: table === "feed" ? 1 : 0 }]);
  db.close();
});

test("A run that has not ended, or that a live run resumes from, is not removed", async () => {
  place.file("train.py", TRAIN);
  place.file("sleep.py", "import time; time.sleep(600)");
  const served = await place.serve();
  const source = await ended(served, 1);
  const resumed = await fetch(`${served.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ spec: { entrypoint: "sleep.py", project_dir: place.project, resume_from: "last" } }),
  });
  const { id: live } = (await resumed.json()) as { id: string };
  for (const [id, why] of [
    [live, "has not ended"],
    [source, `the run ${live}`],
  ] as const) {
    const refused = await fetch(`${served.url}/jobs/${id}`, { method: "DELETE" });
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({
      code: "job_not_removable",
      detail: expect.stringContaining(why) as string,
    });
  }
  const both = place.svc("rm", source, live);
  expect(both.code).toBe(1);
  expect(both.err).toContain(
    `The run ${source} cannot be removed: the run ${live}, which has not ended, resumes from it.`,
  );
  expect(both.err).toContain(`${live}: The run ${live} cannot be removed: it has not ended.`);
  expect(filesOf(source)).toContain(`artifacts/${source}`);
  await fetch(`${served.url}/jobs/${live}/kill`, { method: "POST" });
  await until(async () => (await place.status(served, live)) === "cancelled", "the live run has ended");
  expect(place.svc("rm", live, source)).toMatchObject({ code: 0 });
  expect([...filesOf(live), ...filesOf(source)]).toEqual([]);
});

test("`svc prune` removes old runs except the best, and with --dry-run only lists them", async () => {
  place.file("train.py", TRAIN);
  const served = await place.serve();
  const ids: string[] = [];
  for (const loss of [3, 1, 2]) ids.push(await ended(served, loss));
  const db = new Database(join(place.home, "svc.db"));
  db.prepare("UPDATE job SET created_at = created_at - 40 * 86400000, ended_at = ended_at - 40 * 86400000").run();
  db.close();
  const dry = JSON.parse(
    place.svc("prune", "--older-than", "30d", "--keep-best", "loss:1", "--dry-run", "--json").out,
  ) as {
    jobs: { id: string }[];
  };
  expect(dry.jobs.map(({ id }) => id).toSorted()).toEqual(ids.filter((id) => id !== ids[1]).toSorted());
  expect(place.svc("prune", "--older-than", "50d", "--json").out).toContain('"removed":[]');
  expect(place.svc("prune", "--older-than", "soon").code).toBe(2);
  expect(place.svc("prune", "--older-than", "30d", "--keep-best", "loss:1").code).toBe(0);
  const left = JSON.parse(place.svc("jobs", "--json").out) as { jobs: { id: string }[] };
  expect(left.jobs.map(({ id }) => id)).toEqual([ids[1]]);
});

test("`svc rm --checkpoint` deletes single checkpoints, by name and by step, with and without a control plane", async () => {
  const many = `for n in (2, 30): os.makedirs(folder + "/checkpoint-%d" % n); open(folder + "/checkpoint-%d/trainer_state.json" % n, "w").write("{}")`;
  place.file("train.py", `${TRAIN}${many}\n`);
  const served = await place.serve();
  const id = await ended(served, 1);
  const names = async (): Promise<string[]> => {
    const { checkpoints } = (await (await fetch(`${served.url}/jobs/${id}/resume-points`)).json()) as {
      checkpoints: { name: string }[];
    };
    return checkpoints.map(({ name }) => name).toSorted();
  };
  expect(await names()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-30"]);
  const dry = place.svc("rm", id, "--checkpoint", "1", "--dry-run");
  expect([dry.code, dry.out]).toEqual([0, "checkpoint-1\twould be removed\t300 kB\n"]);
  expect(dry.err).toMatch(/^Would free 3\d\d kB on the disk\.$/m);
  expect(await names()).toHaveLength(3);
  const removed = place.svc("rm", id, "--checkpoint", "checkpoint-1", "--json");
  expect(removed.code).toBe(0);
  expect(JSON.parse(removed.out)).toMatchObject({
    id,
    checkpoints: [{ name: "checkpoint-1", files: 2 }],
    left_bytes: 0,
  });
  expect(await names()).toEqual(["checkpoint-2", "checkpoint-30"]);
  const again = place.svc("rm", id, "--checkpoint", "checkpoint-1");
  expect([again.code, again.out]).toEqual([0, "checkpoint-1\tremoved before\t0 B\n"]);
  const wrong = place.svc("rm", id, "--checkpoint", "7");
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("checkpoint-30, checkpoint-2") as string]);
  const unknown = place.svc("rm", id, "--checkpoint", "nothing");
  expect([unknown.code, unknown.err]).toEqual([3, expect.stringContaining("Its newest are checkpoint-30") as string]);
  const part = place.svc("rm", id, "--checkpoint", "checkpoint-2/trainer_state.json");
  expect([part.code, part.err]).toEqual([
    1,
    expect.stringContaining("Remove the whole checkpoint checkpoint-2") as string,
  ]);
  const whole = place.svc("rm", id, "--dry-run");
  expect([whole.code, whole.out]).toEqual([0, expect.stringMatching(`^${id}\twould be removed\t`)]);
  expect(filesOf(id)).toContain(`artifacts/${id}`);
  expect(place.svc("rm", id, "--checkpoint", "2").code).toBe(0);
  expect(await names()).toEqual(["checkpoint-30"]);

  served.child.kill("SIGTERM");
  await served.exited;
  const alone = place.svc("rm", id, "--checkpoint", "30", "--json");
  expect([alone.code, alone.err]).toEqual([0, ""]);
  expect(filesOf(id).length).toBeGreaterThan(0);
  const db = new Database(join(place.home, "svc.db"), { readonly: true });
  expect(db.prepare("SELECT count(*) AS n FROM checkpoint WHERE job_id = ?").get(id)).toEqual({ n: 0 });
  expect(db.prepare("SELECT count(*) AS n FROM checkpoint_removal WHERE ended_at IS NOT NULL").get()).toEqual({ n: 3 });
  db.close();
});

test("The next start finishes a removal that a crash interrupted, at any stage", async () => {
  place.file("train.py", TRAIN);
  const served = await place.serve();
  const id = await ended(served, 1);
  served.child.kill("SIGKILL");
  await served.exited;
  // The crash came right after the removal was decided: every file and most rows are there.
  const db = new Database(join(place.home, "svc.db"));
  db.prepare("INSERT INTO removal (job_id, begun_at) VALUES (?, ?)").run(id, Date.now());
  db.prepare("DELETE FROM job WHERE id = ?").run(id);
  db.close();
  expect(filesOf(id)).not.toEqual([]);
  const cp = await openControlPlane({ home: place.home, env: place.env });
  try {
    await until(
      () => filesOf(id).length === 0 && blobs().length === 0,
      "the files and the code of the run are deleted",
    );
  } finally {
    await cp.close();
  }
  const after = new Database(join(place.home, "svc.db"), { readonly: true });
  expect(after.prepare("SELECT ended_at IS NOT NULL AS ended FROM removal WHERE job_id = ?").get(id)).toEqual({
    ended: 1,
  });
  expect(after.prepare("SELECT count(*) AS n FROM journal WHERE job_id = ?").get(id)).toEqual({ n: 0 });
  after.close();
});
