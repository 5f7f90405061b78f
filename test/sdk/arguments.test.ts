// Wrong arguments of the TypeScript SDK: each is refused with its name before anything is asked. No control plane runs.

import { existsSync, mkdirSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Workplace } from "../cli/serving.ts";
import { filledHome, inPython, inTypeScript, WHOLE_MS } from "./both.ts";

const at = new Workplace();
afterAll(() => at.close());
beforeAll(() =>
  filledHome(at, Date.now(), (db) =>
    db
      .prepare(
        `INSERT INTO job (id, seq, version, state, status, snapshot, hash, provider, gpus, nodes, spec, created_at, ended_at)
     VALUES ('old1', 1, 3, 'terminal', 'succeeded', '{}', '', 'local', 'cpu', 1, ?, ?, ?)`,
      )
      .run(JSON.stringify({ entrypoint: "train.py", project_dir: "/p" }), Date.now(), Date.now()),
  ),
);

const NAMES =
  "archive, costs, job, jobs, kill, listGpus, placements, receipt, reconcile, remove, removeCheckpoints, run, setLimits, setRetention, stream, update, wait";
const ask = (body: string): unknown => inTypeScript(at, NAMES, body);

test("a job instead of its id is refused by its name", { timeout: WHOLE_MS }, () => {
  const answer = ask(`
const first = async (lines) => { for await (const line of lines) return line; };
const asks = [job, wait, kill, remove, placements, receipt, archive, (id) => first(stream(id)),
  (id) => update(id, { label: "x" }), (id) => removeCheckpoints(id, ["x"])];
const answer = [];
for (const given of [undefined, null, "", 7, { id: "old1" }]) for (const ask of asks) answer.push(await refused(ask(given)));
`) as unknown[];
  expect(answer).toHaveLength(50);
  for (const found of answer) expect(found).toEqual(["invalid_request", "jobId"]);
  expect(existsSync(join(at.home, "control-plane.log"))).toBe(false);
});

test(
  "a limit that is not a number never removes the limit, and an unknown field is refused",
  { timeout: WHOLE_MS },
  () => {
    expect(
      ask(`
const answer = [];
for (const change of [{ budget_usd: NaN }, { price_cap: Infinity }, { label: "x", budget: 5 }]) answer.push(await refused(update("old1", change)));
answer.push(await refused(setRetention({ older_than: "30d", keep_newest: NaN })));
`),
    ).toEqual(["budget_usd", "price_cap", "budget", "keep_newest"].map((field) => ["invalid_request", field]));
  },
);

test("other wrong arguments are refused by their names, and nothing is started", { timeout: WHOLE_MS }, () => {
  const answer = ask(`
const task = { entrypoint: "train.py" };
const loop = {};
loop.on = [loop];
const answer = [];
for (const key of ["", "a b", "a\\nb", "\\u00e9", 5, "k".repeat(201)]) answer.push(await refused(run({ task, idempotency_key: key })));
for (const project_dir of [3, new URL("file:///tmp"), ""]) answer.push(await refused(run({ task, project_dir })));
answer.push(await refused(run({ task, retry: loop })));
for (const seconds of ["5", NaN, {}]) answer.push(await refused(wait("old1", seconds)));
answer.push(await refused(jobs(null)), await refused(setLimits(undefined)), await refused(update("old1")), await refused(update("old1", { tags: null })));
answer.push(await refused(removeCheckpoints("old1", "abc")), await refused((async () => listGpus("nowhere"))()));
for (const options of [{ dry_run: true }, true, { dryRun: "yes" }])
  answer.push(await refused(reconcile(options)), await refused(removeCheckpoints("old1", ["a"], options)));
`);
  const others = [
    "project_dir",
    "project_dir",
    "project_dir",
    "retry",
    "timeoutSeconds",
    "timeoutSeconds",
    "timeoutSeconds",
    "filter",
    "change",
    "change",
    "tags",
    "names",
    "provider",
    "dry_run",
    "dry_run",
    "options",
    "options",
    "dryRun",
    "dryRun",
  ];
  const fields = [...Array.from({ length: 6 }, () => "idempotency_key"), ...others];
  expect(answer).toEqual(fields.map((field) => ["invalid_request", field]));
  expect(existsSync(join(at.home, "control-plane.log"))).toBe(false);
});

test("a refusal names the caller's arguments and not the flags of the command", { timeout: WHOLE_MS }, () => {
  const answer = ask(`
const words = (p) => p.then(() => null, (e) => [e.code, e.message, e.hint]);
const answer = [await words(setRetention({ older_than: "x" })), await words(costs({ by: "colour" })), await words(job("a\\0b"))];
`) as string[][];
  expect(answer.map(([code]) => code)).toEqual(["usage", "usage", "invalid_request"]);
  expect(answer[0]?.join(" ")).toContain("needs older_than");
  expect(answer[1]?.[1]).toBe("by cannot be `colour`.");
  expect(answer.flat().join(" ")).not.toContain("--");
});

test("an optional field that is undefined counts as left out", { timeout: WHOLE_MS }, () => {
  const answer = ask(`
const { rule } = await setRetention({ older_than: "400d", keep_best: undefined, keep_newest: undefined });
const none = undefined;
const runs = await jobs({ status: none, provider: none, label: none, archived: none, tags: none, limit: none });
const { by } = await costs({ by: none, from: none, to: none });
const changed = await update("old1", { label: "x", budget_usd: none, max_runtime_minutes: none, price_cap: none, tags: none });
const found = await reconcile({ dryRun: none, gone: none });
const answer = [rule, runs.map(({ id }) => id), by, changed.label, found.dry_run];
await update("old1", { label: null });
answer.push((await setRetention(null)).rule, await refused(setRetention(undefined)), await refused(setRetention({ keep_newest: 2 })));
answer.push(await refused(setRetention({ older_than: "400d", keepBest: "loss:3" })));
`);
  const rule = { older_than: "400d", keep_best: null, keep_newest: null };
  const without = ["invalid_request", "older_than"];
  expect(answer).toEqual([rule, ["old1"], "day", "x", false, null, without, without, ["invalid_request", "keepBest"]]);
});

test("a relative home stays where it was at the first call", { timeout: WHOLE_MS }, () => {
  mkdirSync(join(at.root, "elsewhere"));
  const answer = ask(`
process.env.SVC_HOME = ${JSON.stringify(relative(at.project, at.home))};
const before = (await job("old1")).id;
process.chdir(${JSON.stringify(join(at.root, "elsewhere"))});
const answer = [before, (await job("old1")).id];
`);
  expect(answer).toEqual(["old1", "old1"]);
});

test(
  "without a control plane a label and all tags can be removed, by both SDKs and by the command",
  { timeout: WHOLE_MS },
  () => {
    expect(
      inPython(
        at,
        `
def after(**change):
    found = svc.update("old1", **change)
    return [found.label, list(found.tags)]
answer = [after(label="a", tags=["x", "y"]), after(label=None), after(tags=[]), after(label="b"), after(label="")]
`,
      ),
    ).toEqual([
      ["a", ["x", "y"]],
      [null, ["x", "y"]],
      [null, []],
      ["b", []],
      [null, []],
    ]);
    expect(
      ask(`
const after = async (change) => { const { label, tags } = await update("old1", change); return [label, tags]; };
const answer = [await after({ label: "a", tags: ["x", "y"] }), await after({ tags: [] }), await after({ label: null })];
`),
    ).toEqual([
      ["a", ["x", "y"]],
      ["a", []],
      [null, []],
    ]);
    expect(at.svc("set", "old1", "--label", "c", "--tags", "x").out).toContain("c; tags x");
    expect(at.svc("set", "old1", "--label", " ", "--tags", " ").out).not.toMatch(/; (c|tags)/);
  },
);

test("a kill of several runs, one of them unknown, says that none was killed", { timeout: WHOLE_MS }, () => {
  const { code, err } = at.svc("kill", "old1", "nope");
  expect([code, err]).toEqual([
    3,
    expect.stringContaining("svc killed no run: those that have not ended continue and may cost money."),
  ]);
  expect(at.svc("kill", "nope").err).not.toContain("svc killed no run");
});
