// One run with a budget in a rented world, with the simulator's bill as the judge. The control plane lives, is killed for ever at a boundary,
// or sleeps from a boundary on; then only the machine's own guard holds the budget.

import { costUsd } from "../sim/providers/ledger.ts";
import { World, type ProviderCase } from "./world.ts";

export const MODES = ["alive", "killed", "asleep"] as const;
type Mode = (typeof MODES)[number];

/** Seconds of its rate by which a bill may pass the budget. */
const ALLOWED_SECONDS: Record<Mode, number> = { alive: 5, killed: 10, asleep: 10 };

export interface BudgetCell {
  provider: Extract<ProviderCase, "market">;
  mode: Mode;
  /** The boundary at which the control plane dies or falls asleep. */
  at: "sim.made" | "machine.held" | "sync.started" | "log";
}

interface BudgetOutcome {
  cell: BudgetCell;
  budget: number;
  bill: number;
  rate: number;
  /** Seconds of the rate by which the bill passed the budget; negative where money was left. */
  overSeconds: number;
  wrong: string[];
}

/** The least that svc accepts is 60 s for the start, 2 for the grace and 15 for the release. */
const BUDGET_SECONDS = 80;
const GRACE_SECONDS = 2;
const WAIT_MS = (BUDGET_SECONDS + 60) * 1_000;

/** Dollars per hour of the simulator's cheapest RTX 4090. */
const RATE = 0.3251;
const SLOW = `import time
print("line 1", flush=True)
time.sleep(3600)
`;

export async function runBudgetCell(cell: BudgetCell): Promise<BudgetOutcome> {
  const budget = (RATE * BUDGET_SECONDS) / 3_600;
  const world = await World.start({
    provider: cell.provider,
    factor: 1,
    script: SLOW,
    spec: { budget_usd: budget, stop_grace_seconds: GRACE_SECONDS, install: "none", health: "off", price_cap: 5 },
  });
  const wrong: string[] = [];
  try {
    if (cell.mode === "killed") world.once(cell.at, () => void world.kill());
    if (cell.mode === "asleep") world.once(cell.at, () => world.freeze());
    world.begin();
    await world.passed("sim.made");
    const until = Date.now() + WAIT_MS;
    while (world.ledger.alive().length > 0 && Date.now() < until) await new Promise((done) => setTimeout(done, 100));
    if (world.ledger.alive().length > 0) wrong.push("the machine is left");
    if (world.said.includes("refused")) wrong.push(world.said.slice(-300));
    const own = world.ledger.all().filter((line) => !line.foreign);
    const bill = own.reduce((sum, line) => sum + costUsd(line, Date.now()), 0);
    const rate = Math.max(0, ...own.map((line) => line.usdPerHour));
    const overSeconds = ((bill - budget) / rate) * 3_600;
    if (overSeconds > ALLOWED_SECONDS[cell.mode]) wrong.push(`${overSeconds.toFixed(1)} s over`);
    return { cell, budget, bill, rate, overSeconds, wrong };
  } finally {
    await world.close();
  }
}
