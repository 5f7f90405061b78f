// One run with a budget in a rented world, with the simulator's bill as the judge. The control plane lives, is killed for ever, or falls
// asleep at a drawn moment; then only the machine's own guard holds the budget. A test runs three, `npm run campaign -- --only budgets` many.

import { numbersFrom } from "../sim/providers/numbers.ts";
import { costUsd, isBilled } from "../sim/providers/ledger.ts";
import type { FaultName, LedgerLine } from "../sim/providers/parts.ts";
import { pause, World, type ProviderCase } from "./world.ts";

export const MODES = ["alive", "killed", "asleep"] as const;
export type Mode = (typeof MODES)[number];
const BILLED = ["market", "podhost", "podhost-rest", "cloudvm"] as const;
type Billed = Extract<ProviderCase, (typeof BILLED)[number]>;

/** Seconds of its rate by which a bill may pass the budget. */
export const ALLOWED_SECONDS: Readonly<Record<Mode, number>> = { alive: 5, killed: 10, asleep: 10 };
const MINIMUM_SECONDS: Readonly<Record<Billed, number>> = { market: 0, podhost: 0, "podhost-rest": 0, cloudvm: 60 };

const BOUNDARIES = [
  "machine.intended",
  "sim.made",
  "machine.held",
  "await_ssh.started",
  "sync.started",
  "log",
] as const;
type Boundary = (typeof BOUNDARIES)[number];

export interface BudgetCell {
  provider: Billed;
  mode: Mode;
  fault: FaultName | "none";
  /** When the fault begins. */
  faultAt: "start" | "log";
  /** How long the control plane still works after this boundary; it has no meaning for one that stays alive. */
  at: Boundary;
  afterMs: number;
  budgetSeconds: number;
  seed: number;
}

export interface BudgetOutcome {
  cell: BudgetCell;
  /** `alive` where the drawn boundary was never reached. */
  situation: Mode;
  budget: number;
  /** The provider's bill, with its minimum for each machine, without the disks of halted ones. */
  bill: number;
  machines: number;
  /** Seconds of the rate by which the bill passed the budget; negative where money was left. */
  overSeconds: number;
  /** The cause of the job's end; empty without a control plane. */
  came: string;
  wrong: string[];
  dir: string | null;
}

/** The least that svc accepts is 60 s for the start, 2 for the grace and 15 for the release. */
export const BUDGET_SECONDS = 80;
const GRACE_SECONDS = 2;
/** A machine that is billed for this long after the budget is left. */
const LATE_SECONDS = 60;
/** A busy computer may need minutes for a start. */
const WAIT_MS = 15 * 60_000;

/** Dollars per hour that the simulators ask for at first. */
const RATES: Readonly<Record<Billed, number>> = { market: 0.3251, podhost: 0.69, "podhost-rest": 0.69, cloudvm: 2 };
const SLOW = `import time
print("line 1", flush=True)
time.sleep(3600)
`;

interface BudgetFault {
  measure?: number;
  faultAt?: "log";
  /** Providers without this fault are not drawn. */
  only?: readonly Billed[];
  /** Another machine follows, for which the budget has to suffice. */
  moves?: true;
  /** Only a control plane can know of it, or deal with it: not drawn without one. docs/quality/budgets.md says what happens then. */
  alive?: true;
}
const PRICED = ["market", "podhost", "podhost-rest"] as const;

/** The faults of the matrix that can change a bill, in real time. */
export const BUDGET_FAULTS: Readonly<Partial<Record<FaultName | "none", BudgetFault>>> = {
  none: {},
  lost_after_create: {},
  error_after_create: {},
  slow_create: { measure: 6_000 },
  listing_lag: { measure: 20_000 },
  offer_taken: { measure: 2 },
  delete_ignored: { measure: 2 },
  delete_errors: { measure: 60_000 },
  delete_lost: {},
  hang: { measure: 8_000, faultAt: "log" },
  rate_limited: { measure: 4, faultAt: "log" },
  html_200: { measure: 2 },
  cut_json: { measure: 2, faultAt: "log" },
  price_higher: { measure: 150, only: PRICED, alive: true },
  price_rises: { measure: 150, faultAt: "log", only: PRICED, alive: true },
  boot_never: { alive: true },
  boot_fails: { moves: true, alive: true },
  container_refused: { moves: true, only: PRICED, alive: true },
  bad_hosts: { moves: true },
  vanishes: { measure: 1_000, faultAt: "log", moves: true },
  preempted: { measure: 1_000, faultAt: "log", moves: true },
  key_refused_first: { measure: 8_000 },
  host_key_changes: { measure: 1_000, faultAt: "log" },
  freezes: { measure: 4_000, faultAt: "log" },
  black_hole: { measure: 15_000, faultAt: "log" },
  slow_link: {},
  port_swap: { measure: 1_000, faultAt: "log" },
};

/** The cell of a seed; the seeds of a campaign visit the situations in turn. */
export function drawBudgetCell(seed: number): BudgetCell {
  // Neighbouring seeds begin with similar numbers.
  const draw = numbersFrom(seed * 2_654_435);
  for (let k = 0; k < 8; k++) draw();
  const one = <T>(list: readonly T[]): T => {
    const item = list[Math.floor(draw() * list.length)];
    if (item === undefined) throw new Error("nothing to draw from");
    return item;
  };
  const mode = MODES[seed % MODES.length] ?? "alive";
  const provider = one(BILLED);
  const faults = Object.entries(BUDGET_FAULTS).filter(
    ([, { only, alive }]) => (only?.includes(provider) ?? true) && (mode === "alive" || alive !== true),
  );
  const [fault, { faultAt = "start", moves = false }] = one(faults);
  return {
    provider,
    mode,
    fault: fault as BudgetCell["fault"],
    faultAt,
    at: one(BOUNDARIES),
    afterMs: draw() < 0.5 ? 0 : Math.round(draw() ** 2 * 60_000),
    budgetSeconds: BUDGET_SECONDS + Math.round(draw() * 30) + (moves ? 40 : 0),
    seed,
  };
}

export const nameOfBudget = ({ provider, mode, fault, at, afterMs, budgetSeconds, seed }: BudgetCell): string =>
  `seed ${seed}: ${provider} ${fault}, ${budgetSeconds} s, ${mode}${mode === "alive" ? "" : ` ${at} + ${(afterMs / 1_000).toFixed(1)} s`}`;

export async function runBudgetCell(cell: BudgetCell): Promise<BudgetOutcome> {
  const { provider, mode, fault, faultAt, at, afterMs, budgetSeconds } = cell;
  const rate = RATES[provider];
  const budget = (rate * budgetSeconds) / 3_600;
  const world = await World.start({
    provider,
    factor: 1,
    script: SLOW,
    spec: {
      budget_usd: budget,
      stop_grace_seconds: GRACE_SECONDS,
      install: "none",
      // The gate would notice a host whose GPU is broken, and take another one.
      health: fault === "bad_hosts" ? "quick" : "off",
      // An order without an answer counts at this price.
      price_cap: 1.2,
      retry: { max: 4, on: ["machine_lost", "preempted", "machine_unfit", "boot_failed"] },
      // Its provider reports no price, and its prices have no cap.
      ...(provider === "cloudvm" && { rate_usd_per_hour: rate, price_cap: undefined }),
    },
  });
  const wrong: string[] = [];
  const ours = (): LedgerLine[] => world.ledger.all().filter((line) => !line.foreign);
  const billed = (): boolean => ours().some(isBilled);
  const spent = (): number => ours().reduce((sum, line) => sum + costUsd(line, Date.now()), 0);
  const over = (): string | null => {
    const seen = world.events.find(({ name }) => name === "over");
    return seen === undefined ? null : (world.ending?.records[0]?.error?.code ?? "?");
  };
  let isAway = false;
  try {
    const { measure } = BUDGET_FAULTS[fault] ?? {};
    if (fault !== "none" && faultAt === "start") world.faults.set(fault, measure);
    if (fault !== "none" && faultAt === "log") world.once("log", () => world.faults.set(fault, measure));
    if (mode !== "alive")
      world.once(at, () => {
        const leave = (): void => {
          isAway = true;
          if (mode === "killed") void world.kill();
          else world.freeze();
        };
        if (afterMs === 0) leave();
        else setTimeout(leave, afterMs).unref();
      });
    world.begin();
    const until = Date.now() + WAIT_MS;
    const tooMuch = (rate * (budgetSeconds + LATE_SECONDS)) / 3_600;
    // A machine may be made late, by a request that was under way when the control plane left.
    let quietSince = Date.now();
    while (Date.now() < until && spent() < tooMuch) {
      if (billed()) quietSince = Date.now();
      const isSettled = Date.now() - quietSince > (ours().length === 0 ? 20_000 : 8_000);
      if (isSettled && (isAway || over() !== null)) break;
      if ((over() !== null && !billed()) || world.refused !== null) break;
      await pause(100);
    }
    if (billed()) wrong.push("a machine is left");
    if (!isAway && over() === null) wrong.push(`the job is not over; ${world.story()}`);
    if (world.refused !== null) wrong.push(`refused: ${world.refused}`);
  } finally {
    await world.end();
  }
  const now = Date.now();
  const minimum = MINIMUM_SECONDS[provider];
  const bill = ours().reduce((sum, line) => sum + Math.max(costUsd(line, now), (line.usdPerHour * minimum) / 3_600), 0);
  const highest = Math.max(
    rate,
    ...ours().flatMap((line) => [line.usdPerHour, ...line.prices.map((p) => p.usdPerHour)]),
  );
  const overSeconds = ((bill - budget) / highest) * 3_600;
  const situation = isAway ? mode : "alive";
  const allowed = ALLOWED_SECONDS[situation] + minimum;
  if (overSeconds > allowed) wrong.push(`${overSeconds.toFixed(1)} s over, ${allowed} allowed`);
  await world.close({ keep: wrong.length > 0 });
  const dir = wrong.length > 0 ? world.dir : null;
  return { cell, situation, budget, bill, machines: ours().length, overSeconds, came: over() ?? "", wrong, dir };
}
