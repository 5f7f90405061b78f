// A stored state that cannot be continued parks its job: svc does not guess, the other jobs continue, and a kill still
// releases the job's machines.

import type { Database } from "better-sqlite3";
import { afterAll, expect, it } from "vitest";
import { Place, until } from "./harness.ts";

const place = Place.own("it is killed, and started on damaged rows");
afterAll(() => place.close());

const DAMAGE: Record<string, { damage: (db: Database, id: string) => void; why: RegExp }> = {
  "an unknown state": {
    damage: (db, id) =>
      db.prepare("UPDATE job SET snapshot = replace(snapshot, '\"running\"', '\"jogging\"') WHERE id = ?").run(id),
    why: /state "jogging" does not exist/,
  },
  "a newer version": {
    damage: (db, id) => db.prepare("UPDATE job SET version = 999 WHERE id = ?").run(id),
    why: /machine version 999/,
  },
  "broken JSON": {
    damage: (db, id) => db.prepare("UPDATE job SET snapshot = substr(snapshot, 1, 20) WHERE id = ?").run(id),
    why: /not JSON/,
  },
  "a context without its keys": {
    damage: (db, id) => db.prepare(`UPDATE job SET snapshot = '{"value":"running","context":{}}' WHERE id = ?`).run(id),
    why: /context/,
  },
  "a context that is no object": {
    damage: (db, id) => db.prepare(`UPDATE job SET snapshot = '{"value":"running","context":7}' WHERE id = ?`).run(id),
    why: /context/,
  },
  "no object at all": {
    damage: (db, id) => db.prepare("UPDATE job SET snapshot = 'null' WHERE id = ?").run(id),
    why: /state/,
  },
};

it("svc parks an unloadable job, continues with the rest, and releases on kill", async () => {
  place.file("wait.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
  const first = await place.serve();
  const ids = new Map<string, string>();
  for (const name of [...Object.keys(DAMAGE), "good"])
    ids.set(name, await first.submit({ entrypoint: "wait.py", label: undefined }));
  for (const id of ids.values())
    await until(async () => (await first.text(`/jobs/${id}/logs`)) === "up\n", "the script runs");
  const good = ids.get("good") as string;
  ids.delete("good");
  await first.kill();
  place.db((db) => {
    for (const [name, id] of ids) DAMAGE[name]?.damage(db, id);
  });

  const second = await place.serve();
  await until(() => second.err.includes("Parked"), "it says what it parked");
  for (const [name, id] of ids) {
    expect(second.err).toContain(id);
    const job = await second.job(id);
    expect(job.note?.kind, name).toBe("parked");
    expect(job.note?.message, name).toMatch(DAMAGE[name]?.why as RegExp);
    expect(job.note?.message, name).toContain("svc kill");
    expect(job.status, name).toBe("running");
  }
  expect((await second.job(good)).note).toBeNull();
  const report = place.svc("reconcile", "--json");
  expect(report.code).toBe(1);
  const replayed = JSON.parse(report.out).replayed as { job_id: string; ok: boolean }[];
  expect(replayed.find((r) => r.job_id === good)?.ok).toBe(true);
  // A reconcile must not treat a parked job's machine as an orphan.
  expect(JSON.parse(report.out).terminated).toEqual([]);

  // A job stays parked with its reason through another start, also after an orderly end.
  const before = performance.now();
  const [keep, ...others] = [...ids];
  for (const [name, id] of others) {
    const { status, body } = await second.post(`/jobs/${id}/kill`, {});
    expect([status, body["note"]], name).toEqual([202, null]);
  }
  for (const [name, id] of others) {
    const job = await second.ended(id);
    expect(job.status, name).toBe("cancelled");
    expect(
      job.machines.map((m) => m.state),
      name,
    ).toEqual(["released"]);
    const { transitions } = await second.timeline(id);
    expect(transitions.at(-1), name).toMatchObject({ to: "terminal" });
    expect(await second.text(`/jobs/${id}/logs`)).toBe("up\n");
    const events = place.db((db) =>
      db.prepare("SELECT type FROM journal WHERE job_id = ? ORDER BY seq").pluck().all(id),
    );
    expect(events, name).toContain("machine.rebased");
  }
  second.signal("SIGTERM");
  const { code } = await second.exited;
  expect(performance.now() - before, "a parked job does not hold up the end").toBeLessThan(60_000);
  expect(code, "something is left that was to be ended").toBe(1);
  const [, parked] = keep as [string, string];
  expect(second.err).toContain(parked);

  const third = await place.serve();
  expect((await third.job(good)).status).toBe("interrupted");
  expect((await third.job(parked)).note?.kind).toBe("parked");
  expect(await third.post("/jobs/kill", { all: true })).toMatchObject({ status: 202, body: { jobs: [parked] } });
  expect((await third.ended(parked)).status).toBe("cancelled");
  expect(place.refolds()).toBe(Object.keys(DAMAGE).length + 1);
  await until(() => place.processes().length === 0, "no process is left");
});
