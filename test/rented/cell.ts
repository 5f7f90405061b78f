// One cell of the fault matrix: one provider, one fault, and at most one boundary at which the control plane is killed;
// and the checks at its end.

import { FACTOR, SPECS, World, type Ending, type ProviderCase } from "./world.ts";
import type { FaultName, LedgerLine } from "../sim/providers/parts.ts";
import { endsOfAll, FAULT_CASES, MOVES } from "./faults.ts";
import { COUNTING, wrongEnd, wrongLog, wrongMachines } from "./placed.ts";
import type { KillPoint } from "./words.ts";

export interface Cell {
  provider: ProviderCase;
  fault: FaultName | "none";
  /** A second fault, committed together with the first one. */
  also?: FaultName;
  /** Null: the control plane is not killed. */
  kill: KillPoint | null;
  seed: number;
  /** Number of simultaneous runs in this cell's world; one by default. */
  runs?: number;
  /** Nodes of each run; one by default. */
  nodes?: number;
  /** Whether the run resumes from its checkpoints and may use a second provider, so that the fault ends a placement and not the run. */
  moves?: boolean;
}

export interface Outcome {
  cell: Cell;
  /** The job's result: `succeeded`, or the code of its error. */
  came: string;
  /** The failed checks; empty if the cell is right. */
  wrong: string[];
  /** Whether the control plane reached the boundary at which it is killed. */
  killed: boolean;
  lives: number;
  seconds: number;
  /** The folder of the world, which is kept if a check failed. */
  dir: string | null;
}

const FOREIGN = "somebody-elses-0";
/** The provider's time from a price above the cap until the machine is released for it. */
const TOO_DEAR_MS = 6 * 60_000;
const WHEN_ANY = ["start", "machine.intended", "sim.made", "machine.held", "log", "machine.releasing"] as const;

export const nameOf = ({ provider, fault, also, kill, runs = 1, nodes = 1, moves = false }: Cell): string =>
  `${provider} ${also === undefined ? fault : `${fault}+${also}`} ${kill ?? "lives"}${runs > 1 ? ` x${runs}` : ""}${nodes > 1 ? ` of ${nodes} nodes` : ""}${moves ? " moves" : ""}`;

/** The number of runs in the worlds of some cells. */
export const runsOf = (outcomes: readonly Pick<Outcome, "cell">[]): number =>
  outcomes.reduce((sum, { cell }) => sum + (cell.runs ?? 1), 0);

export async function runCell(cell: Cell): Promise<Outcome> {
  if (cell.moves === true) return runMove(cell);
  const began = performance.now();
  const { provider, fault, also, kill, seed, runs = 1, nodes = 1 } = cell;
  const both = also === undefined ? [fault] : [fault, also];
  const cases = both.map((name) => FAULT_CASES[name]);
  const longest = Math.max(...cases.map(({ seconds }) => seconds ?? 0));
  const seconds = longest > 0 ? longest : undefined;
  const gang = nodes > 1 ? { nodes, launcher: "single" } : {};
  const spec = Object.assign(gang, ...cases.map((one) => one.spec ?? {})) as Record<string, unknown>;
  const world = await World.start({
    provider,
    spec,
    jobs: runs,
    ...(seconds !== undefined && { seconds, lines: seconds * 60 }),
  });
  const wrong: string[] = [];
  let came = "?";
  try {
    addForeign(world);
    both.forEach((name, nth) => commitWhenDue(world, name, seed + nth));
    // Jobs that take offers from one another, on machines that none can reach, need three phases of twenty minutes each.
    const ending = await world.live(kill, 150_000 + 10_000 * runs);
    came = [...new Set(ending.records.map(({ error, status }) => error?.code ?? status))].join(" and ");
    // With several runs, one of them may meet the fault and the others not.
    const ends = [...endsOfAll(provider, both), ...(runs > 1 ? ["succeeded"] : [])];
    // Runs that replace their machines at once take the offers of one list from each other, and this clock makes each order slow.
    // When prices rise, the market refuses a bid for it, and lists offers that other runs are renting.
    // After `sold_out`, all runs order at once, and the minute in which a run retries has passed for those that come late.
    const takesAllOffers =
      ends.includes("machine_unfit") || ends.includes("price_cap_exceeded") || both.includes("sold_out");
    if (runs > 1 && provider === "market" && takesAllOffers) ends.push("no_offer");
    if (nodes > 1 && ends.includes("no_offer")) ends.push("gang_incomplete");
    wrong.push(...verdict(world, ending, ends));
  } catch (error) {
    wrong.push(error instanceof Error ? error.message : String(error));
    const left = world.ledger.alive().map(({ name }) => name);
    if (left.length > 0) wrong.push(`left: ${left.join(", ")}`);
  }
  return outcomeOf(world, cell, came, wrong, began);
}

async function outcomeOf(world: World, cell: Cell, came: string, wrong: string[], began: number): Promise<Outcome> {
  await world.close({ keep: wrong.length > 0 });
  return {
    cell,
    came,
    wrong,
    killed: world.lives > 1,
    lives: world.lives,
    seconds: (performance.now() - began) / 1000,
    dir: wrong.length > 0 ? world.dir : null,
  };
}

const MOVE_LINES = 120;
const MOVE_SECONDS = 6;

/** The fault ends a placement, and another one follows, with the same provider or the second one. */
async function runMove(cell: Cell): Promise<Outcome> {
  const began = performance.now();
  const { provider, fault, kill } = cell;
  const first = provider === "podhost-rest" || provider === "notebook" ? "podhost" : provider;
  const move = fault === "none" ? undefined : MOVES[fault];
  const isSpot = move?.candidate?.["spot"] !== undefined;
  const second = first !== "market" ? "market" : isSpot ? "cloudvm" : "podhost";
  const spec = {
    ...move?.spec,
    candidates: ([first, second] as const).map((name) => ({ ...SPECS[name], ...move?.candidate })),
    price_cap: undefined,
    wait_for_capacity_minutes: 30,
    args: [String(MOVE_LINES), String(MOVE_SECONDS), ...(move?.holds === true ? ["hold"] : [])],
  };
  const world = await World.start({
    provider,
    others: [second],
    script: COUNTING,
    lines: MOVE_LINES,
    seconds: MOVE_SECONDS,
    spec,
  });
  const wrong: string[] = [];
  let came = "?";
  try {
    addForeign(world);
    if (fault === "none" || move === undefined) throw new Error(`${fault} ends no placement`);
    const { measure } = FAULT_CASES[fault];
    // A candidate that answers late is passed over, and the machine to be taken may be the second one's.
    const all = move.holds === true ? [world.faults, world.faultsOf(second)] : [world.faults];
    const commit = (): void => all.forEach((faults) => faults.set(fault, measure));
    if (move.when === "start") commit();
    else world.once(move.when, commit);
    if (move.until !== undefined || move.holds === true)
      world.once("placement.closed", () => all.forEach((faults) => faults.clear(fault)));
    const ending = await world.live(kill);
    came = ending.records[0]?.error?.code ?? ending.records[0]?.status ?? "?";
    const log = ending.logs[0] ?? "";
    wrong.push(...wrongEnd(ending), ...wrongMachines(world), ...wrongLog(log, { every: 10, last: MOVE_LINES }));
    if (world.ledger.all().some((line) => line.foreign && line.endedBy !== null))
      wrong.push(`the machine ${FOREIGN} of somebody else was ended`);
    const open = ending.records[0]?.machines.filter(({ state }) => state !== "released") ?? [];
    if (open.length > 0) wrong.push(`the record has ${open.length} machines that are not released`);
    if (move.holds === true && (ending.placements[0] ?? []).length < 2) wrong.push("the fault ended no placement");
  } catch (error) {
    wrong.push(error instanceof Error ? error.message : String(error));
  }
  return outcomeOf(world, cell, came, wrong, began);
}

function commitWhenDue(world: World, fault: Cell["fault"], seed: number): void {
  const { when, measure } = FAULT_CASES[fault];
  const at = when === "any" ? (WHEN_ANY[seed % WHEN_ANY.length] ?? "start") : when;
  const commit = (): void => {
    if (fault !== "none") world.faults.set(fault, measure);
    if (world.provider === "notebook") ownerActs(world, fault, measure ?? 0);
  };
  if (at === "start") commit();
  else world.once(at, commit);
}

/** Acts as the owner of a notebook: a notebook has no API that could commit the fault. */
function ownerActs(world: World, fault: Cell["fault"], measure: number): void {
  const later = (ms: number, act: () => void): void => void setTimeout(act, ms).unref();
  if (fault === "hang") later(measure / FACTOR, () => world.faults.clear("hang"));
  if (fault === "port_swap") later(1_500, () => world.tellSettings());
}

/** A foreign machine on the account, if the provider has accounts. */
export function addForeign({ sim }: World): void {
  if ("addForeign" in sim && typeof sim.addForeign === "function") sim.addForeign(FOREIGN);
  else if ("pods" in sim) (sim.pods as { foreign(name: string): void }).foreign(FOREIGN);
}

/** All failed checks of a world that has ended. */
export function verdict(world: World, ending: Ending, ends: readonly string[]): string[] {
  const wrong: string[] = [];
  const { ledger } = world;
  for (const { name } of ledger.alive()) wrong.push(`the machine ${name} is left`);
  for (const line of ledger.all()) {
    if (line.foreign && line.endedBy !== null && world.provider !== "notebook")
      wrong.push(`the machine ${line.name} of somebody else was ended`);
    if (line.foreign) continue;
    if (ledger.mostAtOnce(line.name) > 1) wrong.push(`two machines at once for ${line.name}`);
    if (tooDear(line, ending)) wrong.push(`${line.name} was kept at $${line.usdPerHour}/hr`);
  }
  for (const [n, record] of ending.records.entries()) {
    const came = record.error?.code ?? record.status;
    if (!ends.includes(came)) wrong.push(`came to ${came}, not ${ends.join(" or ")}: ${record.error?.message ?? ""}`);
    if (record.error && record.error.message.length < 20) wrong.push(`the error says nothing: ${record.error.message}`);
    const open = record.machines.filter(({ state }) => state !== "released");
    if (open.length > 0) wrong.push(`the record has ${open.length} machines that are not released`);
    const total = record.status === "succeeded" ? world.lines : null;
    wrong.push(...linesOf(ending.logs[n] ?? "", { total, mayBeCut: world.lives > 1 }, record.nodes));
    if (record.status === "succeeded" && !(ending.checkpoints[n] ?? []).some((path) => path.endsWith("half.bin")))
      wrong.push("the checkpoint did not come home");
  }
  return [...new Set(wrong)];
}

function tooDear(line: LedgerLine, { records }: Ending): boolean {
  const cap = Number(records[0]?.spec["price_cap"] ?? Infinity);
  return line.usdPerHour > cap && (line.endedAtMs ?? Infinity) - line.madeAtMs > TOO_DEAR_MS;
}

/**
 * Expects each line once and in order from the first, and all `total` lines if that is given. Bytes that a dead control
 * plane had not committed were lost with a machine that vanished meanwhile: then the last line may be partial.
 */
function linesOf(
  log: string,
  { total, mayBeCut }: { total: number | null; mayBeCut: boolean },
  nodes: number,
): string[] {
  const wrong: string[] = [];
  // The script of these cells begins again on each machine; only the last one's lines must be complete.
  const last = log.split(/^svc: placement \d+ on .*$/m).at(-1) ?? "";
  for (let node = 0; node < nodes; node += 1) {
    const tag = nodes > 1 ? `[node${node}] ` : "";
    const printed = last.split("\n").filter((text) => text.startsWith(`${tag}line `));
    // Among several nodes, every line has an end.
    const isOpen = nodes > 1 || !log.endsWith("\n");
    const unfinished = mayBeCut && total === null && isOpen ? printed.at(-1) : undefined;
    if (unfinished !== undefined && `${tag}line ${printed.length}`.startsWith(unfinished)) printed.pop();
    const numbers = printed.map((text) => Number(text.slice(`${tag}line `.length)));
    const at = numbers.findIndex((number, index) => number !== index + 1);
    if (at >= 0) wrong.push(`log: line ${at + 1} reads "${printed[at]}"`);
    if (total !== null && numbers.length !== total) wrong.push(`log: ${numbers.length} lines of ${total}`);
  }
  return wrong;
}
