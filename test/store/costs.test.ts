// Reports of costs over real stores: equal to the ledger, whether the sums are up to date, behind, or of another time zone.

import { afterAll, afterEach, describe, expect, it } from "vitest";
import { localCalendar } from "../../src/domain/calendar.ts";
import { CostStore } from "../../src/store/cost-store.ts";
import { ledgerMicro } from "../../src/store/cost-reads.ts";
import { CostReport, Receipt } from "../../src/schemas/costs.ts";
import { COST_DIMENSIONS, WASTE_KINDS } from "../../src/schemas/cost-names.ts";
import type { MachineRow } from "../../src/store/tables.ts";
import { Harness, removeHomes, START } from "../engine/harness.ts";

afterAll(removeHomes);
const zone = process.env["TZ"];
afterEach(() => {
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
});

const HOUR = 3_600_000;

function machine(h: Harness, name: string, patch: Partial<Record<keyof MachineRow, string | number | null>>): void {
  const row = {
    name,
    job_id: "job1",
    node: 0,
    ordinal: 1,
    provider: "market",
    state: "released",
    price_micro: 3_600_000,
    spent_micro: 0,
    created_at: START,
    horizon_at: 0,
    held_at: START,
    empty_looks: 0,
    placement: 1,
    spot: 0,
    released_at: START + HOUR,
    proof: "the provider says so",
    ...patch,
  };
  const names = Object.keys(row);
  h.store.db
    .prepare(`INSERT INTO machine (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`)
    .run(...Object.values(row));
}
const end = (h: Harness, job: string, outcome = "succeeded"): void => {
  h.store.db.prepare("UPDATE job SET state = 'terminal', status = ? WHERE id = ?").run(outcome, job);
  h.store.db.prepare("UPDATE placement SET closed_at = ?, outcome = ? WHERE job_id = ?").run(START, outcome, job);
};
const add = (h: Harness): number => {
  const store = new CostStore(h.store.db);
  store.useZone(localCalendar.zone);
  return store.addSome(10_000, h.clock.now(), localCalendar);
};
const rows = (h: Harness): MachineRow[] => h.store.db.prepare("SELECT * FROM machine").all() as MachineRow[];

/** Every report, held to the ledger to the micro-dollar. */
function agrees(h: Harness): void {
  const owed = ledgerMicro(rows(h), h.clock.now());
  for (const by of COST_DIMENSIONS) {
    const report = CostReport.parse(h.reads.costs({ by }));
    const micro = report.groups.reduce((sum, { cost_usd }) => sum + Math.round((cost_usd ?? 0) * 1e6), 0);
    expect(micro, by).toBe(owed);
    for (const group of [...report.groups, report.total]) {
      const parts = WASTE_KINDS.reduce((sum, kind) => sum + group.waste[kind], group.work_usd);
      expect(parts, `${by}: work and waste`).toBeCloseTo(group.cost_usd ?? 0, 6);
    }
  }
}

describe("a report", () => {
  it("agrees with the ledger before, after and between additions to the sums, with random rows and changes", async () => {
    process.env["TZ"] = "Europe/Berlin";
    const h = await Harness.open();
    const seed = Date.now() % 1_000_000;
    let state = seed;
    const random = (max: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((state / 4_294_967_296) * max);
    };
    console.log(`seed ${seed}`);
    for (let job = 0; job < 12; job++) {
      await h.create(`job${job}`, {
        spec: {
          provider: "market",
          gpus: ["A100:2", "H100", "A100"][random(3)] ?? "A100",
          project_dir: `/p/${random(3)}`,
        },
      });
      const count = random(5);
      for (let n = 0; n < count; n++) {
        const created_at = START + random(400 * 24 * HOUR);
        const released_at = random(5) === 0 ? null : created_at + random(60 * HOUR);
        machine(h, `m${job}-${n}`, {
          job_id: `job${job}`,
          provider: ["market", "podhost"][random(2)] ?? "market",
          created_at,
          held_at: created_at,
          released_at,
          state: released_at === null ? "held" : "released",
          price_micro: random(9e6),
          proof: released_at === null ? null : "gone",
        });
      }
      if (random(3) > 0) end(h, `job${job}`, random(3) === 0 ? "failed" : "succeeded");
    }
    agrees(h);
    expect(add(h)).toBeGreaterThan(0);
    agrees(h);
    for (let change = 0; change < 30; change++) {
      const name = rows(h)[random(rows(h).length)]?.name ?? "";
      const what = random(4);
      if (what === 0)
        h.store.db.prepare("UPDATE machine SET price_micro = ? WHERE name = ?").run(random(5_000_000), name);
      else if (what === 1)
        h.store.db
          .prepare("UPDATE machine SET state = 'released', released_at = created_at + ?, proof = 'gone' WHERE name = ?")
          .run(random(90 * HOUR), name);
      else if (what === 2)
        h.store.db
          .prepare("UPDATE machine SET state = 'held', released_at = NULL, proof = NULL WHERE name = ?")
          .run(name);
      else end(h, `job${random(12)}`);
      agrees(h);
      if (random(3) === 0) add(h);
      agrees(h);
    }
    process.env["TZ"] = "Pacific/Auckland";
    agrees(h);
    add(h);
    agrees(h);
  });

  it("follows a changed label, and keeps the keys of a run that was removed", async () => {
    const h = await Harness.open();
    await h.create("job1", { spec: { provider: "market", gpus: "A100", project_dir: "/home/me/vision" } });
    machine(h, "m1", {});
    end(h, "job1");
    add(h);
    h.store.db.prepare("UPDATE job SET label = 'sweep' WHERE id = 'job1'").run();
    expect(h.reads.costs({ by: "label" }).groups.map(({ key, cost_usd }) => [key, cost_usd])).toEqual([["sweep", 3.6]]);
    add(h);
    h.store.db.prepare("DELETE FROM job WHERE id = 'job1'").run();
    agrees(h);
    expect(h.reads.costs({ by: "project" }).groups.map(({ key }) => key)).toEqual(["/home/me/vision"]);
    process.env["TZ"] = "Asia/Tokyo";
    expect(h.reads.costs({ by: "project" }).groups.map(({ key }) => key)).toEqual(["/home/me/vision"]);
    add(h);
    expect(h.reads.costs({ by: "project" }).groups.map(({ key }) => key)).toEqual(["/home/me/vision"]);
    agrees(h);
  });

  it("never shows an unknown price as $0", async () => {
    const h = await Harness.open();
    const spec = { provider: "cloudvm" as const, gpus: "A100", project_dir: "/p" };
    await h.create("job1", { spec });
    machine(h, "m1", { provider: "cloudvm", price_micro: null });
    const [group] = h.reads.costs({ by: "provider" }).groups;
    expect(group).toMatchObject({ key: "cloudvm", cost_usd: null, machines_without_price: 1, hours_without_price: 1 });
    machine(h, "m2", { provider: "market", ordinal: 2 });
    expect(h.reads.costs({ by: "day" }).total).toMatchObject({ cost_usd: 3.6, machines: 2, machines_without_price: 1 });
    h.store.db.prepare("UPDATE job SET spec = json_set(spec, '$.rate_usd_per_hour', 2.5)").run();
    expect(h.reads.costs({ by: "provider" }).groups.map((each) => [each.key, each.cost_estimate_usd])).toEqual([
      ["market", null],
      ["cloudvm", 2.5],
    ]);
  });

  it("takes only the days that were asked for", async () => {
    const h = await Harness.open();
    await h.create("job1", { spec: { provider: "market", gpus: "A100", project_dir: "/p" } });
    const noon = new Date(2026, 10, 3, 12).getTime();
    machine(h, "m1", { created_at: noon, held_at: noon, released_at: noon + 48 * HOUR });
    end(h, "job1");
    for (let round = 0; round < 2; round++) {
      const days = h.reads.costs({ by: "day", from: "2026-11-04", to: "2026-11-04" });
      expect(days.groups.map(({ key, cost_usd }) => [key, cost_usd])).toEqual([["2026-11-04", 86.4]]);
      expect(h.reads.costs({ by: "month" }).groups.map(({ key, cost_usd }) => [key, cost_usd])).toEqual([
        ["2026-11", 172.8],
      ]);
      add(h);
    }
  });
});

describe("a receipt", () => {
  it("names each machine with its time, its price and the proof of its end", async () => {
    const h = await Harness.open();
    await h.create("job1", { spec: { provider: "market", gpus: "A100", project_dir: "/p" } });
    machine(h, "m1", {});
    machine(h, "m2", { ordinal: 2, released_at: null, state: "releasing", proof: null, created_at: START + HOUR });
    await h.clock.jump(START + 3 * HOUR - h.clock.now());
    const receipt = Receipt.parse(h.reads.receipt("job1"));
    expect(receipt).toMatchObject({ job_id: "job1", is_final: false, total: { cost_usd: 10.8, machines: 2 } });
    expect(receipt.machines.map(({ name, cost_usd, proof, to }) => [name, cost_usd, proof, to === null])).toEqual([
      ["m1", 3.6, "the provider says so", false],
      ["m2", 7.2, null, true],
    ]);
    expect(h.reads.receipt("nothing")).toBeNull();
  });
});
