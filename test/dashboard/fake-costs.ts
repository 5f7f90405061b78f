// Costs and a receipt for the fake control plane: with waste of every cause, an unknown price, and hostile words.

import type { CostGroup, CostReport, CostTotal, Receipt } from "../../src/schemas/costs.ts";

const NO_WASTE = { starting: 0, idle_gpu: 0, held: 0, lost: 0, failed: 0, proof: 0 };
const amounts = (cost_usd: number | null, waste: Partial<CostTotal["waste"]> = {}): CostTotal => {
  const all = { ...NO_WASTE, ...waste };
  const wasted = Object.values(all).reduce((sum, each) => sum + each, 0);
  return {
    cost_usd,
    cost_estimate_usd: cost_usd === null ? 3.2 : null,
    work_usd: (cost_usd ?? 0) - wasted,
    waste: all,
    hours: 12.5,
    hours_without_price: cost_usd === null ? 12.5 : 0,
    machines: 4,
    machines_without_price: cost_usd === null ? 4 : 0,
  };
};

const WASTE = { starting: 1.25, idle_gpu: 4.1, held: 0.4, lost: 2.2, failed: 3.5, proof: 0.05 };

/** Of the first group, by dimension. */
const KEYS: Partial<Record<CostReport["by"], string>> = { label: "digits, two hidden layers", provider: "market" };

export function fakeCosts(by: CostReport["by"]): CostReport {
  const groups: CostGroup[] = [
    { key: KEYS[by] ?? "/home/someone/projects/vision", ...amounts(41.75, WASTE) },
    { key: "<script>globalThis.hacked = 1</script>", ...amounts(7.5, { starting: 0.5 }) },
    { key: null, ...amounts(null) },
  ];
  const total = {
    ...amounts(49.25, { ...WASTE, starting: 1.75 }),
    hours_without_price: 12.5,
    machines_without_price: 4,
  };
  return { by, from: "2026-11-21", to: null, time_zone: "Europe/Berlin", groups, total };
}

export function fakeReceipt(id: string): Receipt {
  const machine = { id: "4711", provider: "market" as const, gpus: "A100:2", node: 0, hours: 2, price_changed: false };
  const { cost_estimate_usd, work_usd, waste } = amounts(3.6, { starting: 0.2, lost: 1 });
  const costs = { cost_usd: 3.6, cost_estimate_usd, work_usd, waste, price_per_hour_usd: 1.8 };
  return {
    job_id: id,
    label: "digits, two hidden layers",
    status: "running",
    project: "/home/someone/projects/vision",
    is_final: false,
    machines: [
      {
        ...machine,
        ...costs,
        name: `svc-abcdefgh-${id}-n0-1`,
        placement: 1,
        from: "2026-11-03T12:00:00.000Z",
        to: "2026-11-03T14:00:00.000Z",
        proof: "the provider says that it does not exist",
        unproven_usd: null,
      },
      {
        ...machine,
        ...costs,
        name: `svc-abcdefgh-${id}-n0-2`,
        placement: 2,
        from: "2026-11-03T14:00:00.000Z",
        to: null,
        proof: null,
        unproven_usd: null,
        price_changed: true,
      },
    ],
    total: amounts(7.2, { starting: 0.4, lost: 2 }),
  };
}
