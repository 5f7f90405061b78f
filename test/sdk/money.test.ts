// Costs, receipts and limits as both SDKs read them from a real home: from its store, and through its control plane.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Workplace } from "../cli/serving.ts";
import { filledHome, inPython, inTypeScript, WHOLE_MS } from "./both.ts";

const at = new Workplace();
afterAll(() => at.close());
// Noon of the control plane's time zone.
const NOON = new Date(2026, 10, 3, 12).getTime();

/** A run with a machine for $3.00 and one without a price. */
beforeAll(() =>
  filledHome(at, Date.now(), (db) => {
    db.prepare(
      `INSERT INTO job (id, seq, version, state, status, snapshot, hash, label, provider, gpus, nodes, spec, created_at)
     VALUES ('job1', 1, 3, 'terminal', 'failed', '{}', '', '<b>sweep', 'market', 'A100', 1, ?, ?)`,
    ).run(JSON.stringify({ entrypoint: "train.py", project_dir: "/p/vision" }), NOON);
    const machine = db.prepare(
      `INSERT INTO machine (name, job_id, node, ordinal, provider, state, price_micro, created_at, horizon_at, held_at, empty_looks, released_at, proof)
     VALUES (?, 'job1', 0, 1, ?, 'released', ?, ?, 0, ?, 0, ?, 'the provider says that it does not exist')`,
    );
    machine.run("m1", "market", 1_500_000, NOON, NOON, NOON + 2 * 3_600_000);
    machine.run("m2", "cloudvm", null, NOON, NOON, NOON + 3_600_000);
  }),
);

const python = (body: string): unknown => inPython(at, body);
const typescript = (body: string): unknown => inTypeScript(at, "costs, limits, receipt, setLimits", body);

const PYTHON = `
report = svc.costs(by="provider", since=datetime.date(2026, 11, 1), until="2026-11-30")
slip = svc.job("job1").receipt()
first = svc.set_limits(usd_per_day=20, max_gpus=8)
then = svc.set_limits(usd_per_day=None)
answer = {"groups": [[g.key, g.cost_usd, g.shown, g.machines, g.waste.total + g.work_usd] for g in report.groups], "total": report.total.shown,
          "span": [report.since, report.until], "shown": repr(report), "html": slip._repr_html_(),
          "machines": [[m.name, m.ordered_at, m.hours, m.price_per_hour_usd, m.cost_usd, m.proof] for m in slip.machines],
          "final": slip.is_final, "limits": [first.usd_per_day.limit, first.max_gpus.limit, then.usd_per_day.limit],
          "table": repr(then).splitlines()[-1].split()}
`;

const TYPESCRIPT = `
const report = await costs({ by: "provider", from: "2026-11-01", to: "2026-11-30" });
const slip = await receipt("job1");
const first = await setLimits({ usd_per_day: 20, max_gpus: 8 });
const answer = {
  groups: report.groups.map((g) => [g.key, g.cost_usd, g.machines]), span: [report.from, report.to],
  machines: slip.machines.map((m) => [m.name, m.from, m.hours, m.price_per_hour_usd, m.cost_usd, m.proof]), final: slip.is_final,
  limits: [first.usd_per_day.limit, (await limits()).max_gpus.limit],
};
`;

const PROOF = "the provider says that it does not exist";
const FROM = new Date(NOON).toISOString();

/** The same answers from the store and through a control plane. */
function holds(): void {
  const answer = python(PYTHON) as { html: string; shown: string };
  expect(answer).toMatchObject({
    groups: [
      ["market", 3, "$3.00", 1, 3],
      ["cloudvm", null, "unknown", 1, 0],
    ],
    total: "> $3.00",
    span: ["2026-11-01", "2026-11-30"],
    machines: [
      ["m1", FROM, 2, 1.5, 3, PROOF],
      ["m2", FROM, 1, null, null, PROOF],
    ],
    final: true,
    limits: [20, 8, null],
    table: ["max_gpus", "8", "0", "0", "8"],
  });
  expect(answer.shown.split("\n").map((line) => line.split(/\s{2,}/))).toEqual([
    ["provider", "cost", "waste", "hours", "machines"],
    ["market", "$3.00", expect.any(String), "2.0", "1"],
    ["cloudvm", "unknown", "$0.00", "1.0", "1"],
    ["total", "> $3.00", expect.any(String), "3.0", "2"],
  ]);
  expect(answer.html).toContain("&gt; $3.00");
  expect(typescript(TYPESCRIPT)).toEqual({
    groups: [
      ["market", 3, 1],
      ["cloudvm", null, 1],
    ],
    span: ["2026-11-01", "2026-11-30"],
    machines: [
      ["m1", FROM, 2, 1.5, 3, PROOF],
      ["m2", FROM, 1, null, null, PROOF],
    ],
    final: true,
    limits: [20, 8],
  });
}

test("Both SDKs read costs and a receipt and set limits without a control plane", { timeout: WHOLE_MS }, holds);

test(
  "What is wrong is named by its argument, without a control plane, and nothing is changed",
  { timeout: WHOLE_MS },
  () => {
    const body = `
def refused(call, *args, **given):
    try:
        call(*args, **given)
    except svc.SvcError as error:
        return [type(error).__name__, *(field for field, _ in error.errors)]
answer = [refused(svc.costs, by="planet"), refused(svc.costs, since="yesterday"), refused(svc.costs, since="2026-11-04", until="2026-11-03"),
          refused(svc.receipt, "nothing"), refused(svc.set_limits, usd_per_week=1), refused(svc.set_limits, usd_per_day=float("nan"))]`;
    expect(python(body)).toEqual([
      ["ConfigError"],
      ["ConfigError", "since"],
      ["ConfigError", "until"],
      ["JobNotFound"],
      ["ConfigError", "usd_per_week"],
      ["ConfigError", "usd_per_day"],
    ]);
    const calls =
      'costs({ by: "planet" }), receipt("nothing"), setLimits({ usd_per_week: 1 }), setLimits({ usd_per_day: NaN })';
    expect(typescript(`const answer = await Promise.all([${calls}].map(refused));`)).toEqual([
      ["usage", null],
      ["job_not_found", null],
      ["invalid_request", "usd_per_week"],
      ["invalid_request", "usd_per_day"],
    ]);
  },
);

test("Both SDKs give the same through a control plane, which names a wrong field", { timeout: WHOLE_MS }, async () => {
  await at.serve();
  holds();
  const body = `
slip, report = svc.receipt("job1"), svc.costs(by="month")
answer = [asyncio.run(svc.aio.receipt("job1")) == slip, asyncio.run(svc.aio.costs(by="month")) == report, asyncio.run(svc.aio.limits()) == svc.limits()]
for call in (lambda: svc.costs(by="planet"), lambda: svc.set_limits(max_gpus=-1), lambda: svc.receipt("nothing")):
    try:
        call()
    except svc.SvcError as error:
        answer.append([error.code, *(field for field, _ in error.errors)])`;
  expect(python(body)).toEqual([
    true,
    true,
    true,
    ["invalid_request", "by"],
    ["invalid_request", "max_gpus"],
    ["job_not_found"],
  ]);
  const calls = 'costs({ by: "planet" }), costs({ from: "2026-11-04", to: "2026-11-03" }), setLimits({ max_gpus: -1 })';
  expect(typescript(`const answer = await Promise.all([${calls}].map(refused));`)).toEqual([
    ["invalid_request", "by"],
    ["invalid_request", "to"],
    ["invalid_request", "max_gpus"],
  ]);
});

test(
  "A home that was never used has empty costs and no limits, and reading does not create it",
  { timeout: WHOLE_MS },
  () => {
    at.env["SVC_HOME"] = join(at.root, "fresh");
    const body =
      "answer = [repr(svc.costs()), svc.costs().total.cost_usd, svc.limits().max_gpus.limit, svc.limits().waiting]";
    expect(python(body)).toEqual(["no costs", 0, null, []]);
    expect(typescript("const answer = [(await costs()).groups, (await limits()).usd_per_day.limit];")).toEqual([
      [],
      null,
    ]);
    expect(existsSync(join(at.root, "fresh"))).toBe(false);
  },
);
