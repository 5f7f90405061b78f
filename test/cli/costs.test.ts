// `svc costs`: sums and receipts, read from the store without a control plane.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openStore, prepareHome } from "../../src/store/database.ts";
import { wasteWords } from "../../src/cli/commands/costs/words.ts";
import { Workplace } from "./serving.ts";

const at = new Workplace();
const home = join(at.root, "used");
afterAll(() => at.close());

beforeAll(async () => {
  mkdirSync(home, { mode: 0o700 });
  prepareHome(home);
  const { db } = await openStore(home, { newInstallationId: "abcdefgh12345678", now: Date.now() });
  const noon = new Date(2026, 10, 3, 12).getTime();
  db.prepare(
    `INSERT INTO job (id, seq, version, state, status, snapshot, hash, label, provider, gpus, nodes, spec, created_at)
     VALUES ('job1', 1, 3, 'terminal', 'failed', '{}', '', 'sweep', 'market', 'A100:2', 1, '{"project_dir":"/p/vision"}', ?)`,
  ).run(noon);
  const machine = db.prepare(
    `INSERT INTO machine (name, job_id, node, ordinal, provider, state, price_micro, created_at, horizon_at, held_at, empty_looks, released_at, proof)
     VALUES (?, 'job1', 0, 1, ?, 'released', ?, ?, 0, ?, 0, ?, 'the provider says that it does not exist')`,
  );
  machine.run("m1", "market", 1_500_000, noon, noon, noon + 2 * 3_600_000);
  machine.run("m2", "cloudvm", null, noon, noon, noon + 3_600_000);
  db.close();
});

it("A home that rented nothing has no costs, and reading does not create it", () => {
  const { code, out } = at.svc("costs", "--json");
  expect([code, JSON.parse(out)]).toMatchObject([0, { by: "day", groups: [], total: { cost_usd: 0, machines: 0 } }]);
});

it("Sums are grouped as asked, and a machine without a price is counted and not $0", () => {
  expect(at.svcIn(home, "costs").out).toMatch(/^2026-11-03\t> \$3\.00\t/);
  const report = JSON.parse(at.svcIn(home, "costs", "--by", "provider", "--json").out) as { groups: object[] };
  expect(report.groups).toMatchObject([
    { key: "market", cost_usd: 3, machines: 1 },
    { key: "cloudvm", cost_usd: null, machines_without_price: 1 },
  ]);
  expect(at.svcIn(home, "costs", "--by", "gpu", "--csv").out.split("\r\n")[1]).toMatch(/^A100,3,,/);
  expect(at.svcIn(home, "costs", "--from", "2026-11-04").out).toBe("");
});

it("A receipt names each machine and the proof of its end", () => {
  const { out } = at.svcIn(home, "costs", "job1");
  expect(out).toMatch(/^1\tm1\tmarket\t.*\$1\.50\t\$3\.00\tended: the provider says that it does not exist$/m);
  expect(out).toMatch(/^1\tm2\tcloudvm\t.*unknown\tunknown\t/m);
  expect(JSON.parse(at.svcIn(home, "costs", "job1", "--json").out)).toMatchObject({ is_final: true, label: "sweep" });
});

it("An invalid day, and a period that ends before it begins, are wrong usage", () => {
  expect(at.svcIn(home, "costs", "--from", "yesterday").code).toBe(2);
  expect(at.svcIn(home, "costs", "--from", "2026-11-04", "--to", "2026-11-03").code).toBe(2);
  expect(at.svcIn(home, "costs", "nothing").code).toBe(3);
});

it("A cause of waste is named, also if it cost less than a cent", () => {
  const waste = { starting: 0.004, idle_gpu: 0, held: 1e-9, lost: 0, failed: 2, proof: 0 };
  expect(wasteWords({ waste })).toBe("starting $0.004, failed runs $2.00");
});
