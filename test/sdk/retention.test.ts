// Archiving runs and the rule of a home by both SDKs: without a control plane, by the command, and through one.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Workplace } from "../cli/serving.ts";
import { filledHome, inPython, inTypeScript, WHOLE_MS } from "./both.ts";

const DAY_MS = 86_400_000;

const at = new Workplace();
afterAll(() => at.close());

const then = Date.now() - 60 * DAY_MS;
/** Two runs that ended 60 days ago, and one that has not ended. */
beforeAll(() =>
  filledHome(at, then, (db) => {
    const insert = db.prepare(
      `INSERT INTO job (id, seq, version, state, status, snapshot, hash, provider, gpus, nodes, spec, created_at, ended_at)
     VALUES (?, 1, 3, ?, ?, '{}', '', 'market', 'A100', 1, ?, ?, ?)`,
    );
    const spec = JSON.stringify({ entrypoint: "train.py", project_dir: "/p/vision" });
    insert.run("old1", "terminal", "succeeded", spec, then, then);
    insert.run("old2", "terminal", "failed", spec, then, then);
    insert.run("new1", "waiting", "waiting", spec, Date.now(), null);
    // The events tell in which order the runs were made.
    for (const id of ["old1", "old2", "new1"])
      db.prepare("INSERT INTO feed (job_id, at, type, data) VALUES (?, ?, 'job.created', '{}')").run(id, then);
  }),
);

const python = (body: string): unknown => inPython(at, body);
const typescript = (body: string): unknown =>
  inTypeScript(at, "archive, jobs, retention, setRetention, unarchive", body);

/** No run is as old as these rules ask for: a control plane deletes none while the test serves them. */
const PYTHON = `
def short(found):
    return [found.rule and [found.rule[name] for name in ("older_than", "keep_best", "keep_newest")], found.due and found.due["count"]]
answer = [short(svc.retention())]
answer.append(short(svc.set_retention("400d", keep_best="loss:3", keep_newest=2)))
answer.append(short(svc.retention()))
answer.append(short(svc.set_retention("90d")))
answer.append(short(svc.set_retention(None)))
there = svc.archive("old1")
answer.append([[run.id for run in svc.jobs(archived=True)], "old1" in [run.id for run in svc.jobs()]])
back = svc.unarchive("old1")
answer.append([there.id, there.archived_at is not None, back.archived_at])
`;
const TYPESCRIPT = `
const short = ({ rule, due }) => [rule && [rule.older_than, rule.keep_best, rule.keep_newest], due && due.count];
const answer = [short(await retention())];
answer.push(short(await setRetention({ older_than: "400d", keep_best: "loss:3", keep_newest: 2 })));
answer.push(short(await retention()));
answer.push(short(await setRetention({ older_than: "90d" })));
answer.push(short(await setRetention(null)));
const there = await archive("old1");
answer.push([(await jobs({ archived: true })).map(({ id }) => id), (await jobs()).some(({ id }) => id === "old1")]);
const back = await unarchive("old1");
answer.push([there.id, there.archived_at !== null, back.archived_at]);
`;
const WHOLE = ["400d", "loss:3", 2];

/** The same answers from the store and through a control plane. */
function holds(): void {
  const expected = [
    [null, null],
    [WHOLE, 0],
    [WHOLE, 0],
    [["90d", null, null], 0],
    [null, null],
    [["old1"], false],
    ["old1", true, null],
  ];
  expect(python(PYTHON)).toEqual(expected);
  expect(typescript(TYPESCRIPT)).toEqual(expected);
}

/** What is wrong is named, and nothing is changed. */
function refuses(): void {
  const body = `
def refused(call, *args, **given):
    try:
        call(*args, **given)
    except svc.SvcError as error:
        return [type(error).__name__, error.code]
answer = [refused(svc.set_retention, "soon"), refused(svc.set_retention, "30d", keep_best="loss"), refused(svc.set_retention, None, keep_newest=3),
          refused(svc.archive, "nothing"), refused(svc.archive, "new1"), svc.retention().rule]`;
  expect(python(body)).toEqual([
    ["ConfigError", expect.any(String)],
    ["ConfigError", expect.any(String)],
    ["ConfigError", "invalid_request"],
    ["JobNotFound", "job_not_found"],
    ["SvcError", "job_not_archivable"],
    null,
  ]);
  const calls =
    'setRetention({ older_than: "soon" }), setRetention({ older_than: "30d", keep_best: "loss" }), archive("nothing"), archive("new1")';
  const [age, best, ...others] = typescript(
    `const answer = [...await Promise.all([${calls}].map(refused)), (await retention()).rule];`,
  ) as unknown[];
  expect([age, best]).not.toContain(null);
  expect(others).toEqual([["job_not_found", null], ["job_not_archivable", null], null]);
}

test("Both SDKs archive runs and set the rule of a home without a control plane", { timeout: WHOLE_MS }, () => {
  holds();
  refuses();
});

test(
  "A rule without a control plane says which runs it would remove, and spares archived ones",
  { timeout: WHOLE_MS },
  () => {
    const due = (found: string): string =>
      `[sorted(run["id"] for run in ${found}.due["runs"]), ${found}.due["kept"]["archived"]]`;
    const body = `
found = svc.set_retention("30d")
answer = [${due("found")}]
svc.archive("old1")
found = svc.retention()
answer.append(${due("found")})
svc.unarchive("old1")
svc.set_retention(None)`;
    expect(python(body)).toEqual([
      [["old1", "old2"], 0],
      [["old2"], 1],
    ]);
  },
);

test("Both SDKs give the same through a control plane, also for asyncio", { timeout: WHOLE_MS }, async () => {
  await at.serve();
  holds();
  refuses();
  const body = `
found = asyncio.run(svc.aio.set_retention("400d", keep_newest=1))
answer = [found == svc.retention(), found.rule["keep_newest"], asyncio.run(svc.aio.retention()) == found,
          asyncio.run(svc.aio.archive("old2")).archived_at is not None, asyncio.run(svc.aio.unarchive("old2")).archived_at]
svc.set_retention(None)`;
  expect(python(body)).toEqual([true, 1, true, true, null]);
});

test("A home that was never used has no rule, and reading does not create it", { timeout: WHOLE_MS }, () => {
  at.env["SVC_HOME"] = join(at.root, "fresh");
  expect(python("answer = [svc.retention().rule, svc.retention().removed]")).toEqual([null, []]);
  expect(typescript("const answer = [(await retention()).rule];")).toEqual([null]);
  expect(existsSync(join(at.root, "fresh"))).toBe(false);
});
