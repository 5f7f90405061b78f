// The retention rule and archived runs, with whole processes: the command line, the API, and a control plane that is killed while it removes.

import Database from "better-sqlite3";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import type { HomeRetention } from "../../src/schemas/retention.ts";
import { Place, until, type Served } from "./harness.ts";

const TRAIN = `
import os, sys, svc
folder = svc.checkpoint_dir()
for n in range(400): open(folder + "/part-%d.bin" % n, "wb").write(b"w" * 300)
svc.log({"loss": float(sys.argv[1])}, step=1)
`;
const DAY = 86_400_000;

let place: Place;
beforeEach(() => {
  place = Place.own("its runs are removed, and it is killed");
  place.file("train.py", TRAIN);
});
afterEach(() => place.close());

async function runs(served: Served, losses: readonly number[]): Promise<string[]> {
  const ids: string[] = [];
  for (const loss of losses) {
    const id = await served.submit({ entrypoint: "train.py", args: [String(loss)] });
    expect((await served.ended(id)).status).toBe("succeeded");
    ids.push(id);
  }
  return ids;
}
const change = (sql: string): void => {
  const db = new Database(join(place.home, "svc.db"));
  db.exec(sql);
  db.close();
};
/** The runs were made and ended so long ago. */
const age = (days: number): void =>
  change(`UPDATE job SET created_at = created_at - ${days * DAY}, ended_at = ended_at - ${days * DAY}`);
const listed = async (served: Served, query = ""): Promise<string[]> =>
  (await served.get<{ jobs: JobRecord[] }>(`/jobs${query}`)).jobs.map(({ id }) => id).toSorted();
const put = (served: Served, body: object) =>
  fetch(`${served.url}/v1/retention`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

test("A run is archived and listed again, by the command and by the API", async () => {
  const served = await place.serve();
  const [first = "", second = ""] = await runs(served, [1, 2]);
  expect(place.svc("archive", first)).toMatchObject({ code: 0, out: `${first}\tarchived\t-\n` });
  expect([await listed(served), await listed(served, "?archived=only"), await listed(served, "?archived=all")]).toEqual(
    [[second], [first], [first, second].toSorted()],
  );
  expect(await listed(served, `?ids=${first},${second}`)).toHaveLength(2);
  expect(await served.get("/v1/summary")).toMatchObject({ total: 1 });
  expect(await served.get("/v1/summary?archived=only")).toMatchObject({ total: 1 });
  const shown = JSON.parse(place.svc("jobs", "--archived", "--json").out) as { jobs: JobRecord[] };
  expect(shown.jobs).toMatchObject([{ id: first, archived_at: expect.stringContaining("T") as string }]);
  age(40);
  const dry = JSON.parse(place.svc("prune", "--older-than", "30d", "--dry-run", "--json").out) as object;
  expect(dry).toMatchObject({ jobs: [{ id: second }], kept: { archived: 1 } });
  const undone = await fetch(`${served.url}/jobs/${first}/unarchive`, { method: "POST" });
  expect([undone.status, await undone.json()]).toMatchObject([200, { id: first, archived_at: null }]);
  expect(place.svc("archive", first, "--undo").code).toBe(0);
  expect(await listed(served)).toHaveLength(2);

  place.file("sleep.py", "import time; time.sleep(600)");
  const live = await served.submit({ entrypoint: "sleep.py" });
  const refused = place.svc("archive", live);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("cannot be archived: it has not ended")]);
  await fetch(`${served.url}/jobs/${live}/kill`, { method: "POST" });
  served.signal("SIGTERM");
  await served.exited;
  expect(place.svc("archive", first, "--json")).toMatchObject({ code: 0, err: "" });
  expect(place.svc("jobs", "--archived").out).toContain(first);
});

test("A rule is set, previewed, refused and cleared, with and without a control plane", async () => {
  const served = await place.serve();
  const ids = await runs(served, [3, 1, 2]);
  age(40);
  const none = place.svc("prune", "rule");
  expect([none.code, none.out]).toEqual([0, "No rule: nothing is deleted by age.\n"]);
  const preview = "/v1/retention/preview?older_than=30d&keep_best=loss:1";
  expect(await served.get(preview)).toMatchObject({
    count: 2,
    runs: ids.filter((_, i) => i !== 1).map((id) => ({ id })),
    kept: { best: 1 },
  });
  for (const rule of [
    { older_than: "soon" },
    { older_than: "30d", keep_best: "loss" },
    { older_than: "30d", keep_newest: 0 },
  ])
    expect((await put(served, { rule })).status).toBe(400);
  expect((await fetch(`${served.url}/v1/retention/preview?older_than=x`)).status).toBe(400);
  const set = place.svc("prune", "rule", "--older-than", "30d", "--keep-best", "loss:1", "--keep-newest", "2");
  expect([set.code, set.out]).toEqual([
    0,
    expect.stringMatching(
      /^Once an hour, and each time it starts, the control plane deletes runs that ended more than 30d ago, except the best by loss:1 and the newest 2\.\nDue now: 1 run, .+\.\n$/,
    ),
  ]);
  expect(await served.get("/v1/retention")).toMatchObject({
    rule: { older_than: "30d", keep_best: "loss:1", keep_newest: 2 },
    due: { count: 1, runs: [{ id: ids[0] }] },
    doubt: null,
  });
  // Nothing goes within the first hour.
  expect(await listed(served)).toHaveLength(3);
  for (const wrong of [
    ["rule", "off"],
    ["rule", "--keep-newest", "2"],
    ["rule", "--older-than", "30d", "--dry-run"],
    ["old"],
  ])
    expect(place.svc("prune", ...wrong).code).toBe(2);
  served.signal("SIGTERM");
  await served.exited;
  const shown = JSON.parse(place.svc("prune", "rule", "--json").out) as HomeRetention;
  expect(shown).toMatchObject({ rule: { older_than: "30d" }, due: { count: 1 } });
  expect(place.svc("prune", "rule", "clear").out).toBe("No rule: nothing is deleted by age.\n");
  expect(place.svc("prune", "rule", "--older-than", "2w", "--json").out).toContain('"older_than":"2w"');
});

test("A control plane that is killed while the rule removes runs goes on at the next start, and says what went", async () => {
  let served = await place.serve();
  const ids = await runs(served, [1, 2, 3, 4]);
  const [kept = ""] = await runs(served, [5]);
  change(
    `UPDATE job SET created_at = created_at - ${40 * DAY}, ended_at = ended_at - ${40 * DAY} WHERE id <> '${kept}'`,
  );
  expect((await put(served, { rule: { older_than: "30d" } })).status).toBe(200);
  served.signal("SIGTERM");
  await served.exited;
  // The first start applies the rule, and is killed as soon as one removal has begun.
  served = place.start();
  const begun = () =>
    place.db((db) => Number(db.prepare("SELECT count(*) FROM removal WHERE rule IS NOT NULL").pluck().get()));
  await until(() => begun() > 0, "a removal has begun", DEADLINE_MS);
  served.signal("SIGKILL");
  await served.exited;
  served = await place.serve();
  const open = () =>
    place.db((db) => Number(db.prepare("SELECT count(*) FROM removal WHERE ended_at IS NULL").pluck().get()));
  await until(() => begun() === 4 && open() === 0, "every removal is finished", DEADLINE_MS);
  expect(await listed(served)).toEqual([kept]);
  expect(readdirSync(join(place.home, "artifacts"))).toEqual([kept]);
  expect(existsSync(join(place.home, "artifacts", kept, "checkpoints", "part-0.bin"))).toBe(true);
  const state = () => served.get<HomeRetention>("/v1/retention");
  expect((await state()).removed.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  const notices = async () =>
    (await served.get<{ notices: { kind: string; title: string }[] }>("/v1/notices")).notices.filter(
      ({ kind }) => kind === "runs_removed",
    );
  await until(async () => (await notices()).length > 0, "a notice says what went", DEADLINE_MS);
  const told = (await notices()).map(({ title }) => Number(/removed (\d+) run/.exec(title)?.[1]));
  expect(told.reduce((sum, n) => sum + n, 0)).toBe(4);
  expect(place.svc("prune", "rule").out.match(/^.*removed .*$/gm)).toHaveLength(4);
  expect(place.refolds()).toBe(1);
});
