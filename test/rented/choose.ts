// Chooses the cells of the matrix to run.

import { FAULTS, type FaultName } from "../sim/providers/parts.ts";
import type { Cell } from "./cell.ts";
import { appliesTo, having, MOVES, OWNED } from "./faults.ts";
import { KILL_POINTS, MOVE_POINTS, type KillPoint } from "./words.ts";
import { PROVIDERS, type ProviderCase } from "./world.ts";

export interface Choice {
  seed: number;
  kind: "quick" | "usual" | "every";
  provider?: string | undefined;
  fault?: string | undefined;
  kill?: string | undefined;
}

/** The boundaries of the quick run, which uses them only without a fault. */
const MAIN: readonly KillPoint[] = ["sim.made", "await_ssh.started", "sync.started", "log", "machine.releasing"];
/** Boundaries per fault and provider in the usual run, in addition to the cell without one. */
const DRAWN = 2;
/**
 * Both APIs of a provider lead to the same machines, so its second one only meets the faults of calls, unless another
 * fault is requested.
 */
const SECOND_API = /_create$|^listing|^delete_|^hang$|^rate_|^html|^cut|^json/;

export function chooseCells(choice: Choice): Cell[] {
  const cells: Cell[] = [];
  let drawn = choice.seed * 7;
  for (const fault of ["none", ...FAULTS] as const)
    for (const provider of PROVIDERS) {
      if (!appliesTo(provider, fault) || !wanted(provider, choice.provider) || !wanted(fault, choice.fault)) continue;
      if (choice.fault === undefined && skipped(provider, fault)) continue;
      for (const kill of killsOf(fault, choice, drawn++))
        if (wanted(kill ?? "lives", choice.kill))
          cells.push({ provider, fault, kill, seed: choice.seed + cells.length });
    }
  return cells;
}

/** Providers at which the cells of `chooseMoves` begin. */
const MOVING = OWNED.filter((name) => name !== "podhost-rest");

/** The cells in which a placement ends and another one follows: without a kill, and with one or all kills between the two. */
export function chooseMoves(choice: Choice): Cell[] {
  const cells: Cell[] = [];
  let turn = choice.seed;
  for (const fault of FAULTS) {
    const move = MOVES[fault];
    if (move === undefined || !wanted(fault, choice.fault)) continue;
    for (const provider of MOVING) {
      if (!appliesTo(provider, fault)) continue;
      if (!wanted(provider, choice.provider)) continue;
      const drawn = MOVE_POINTS[turn++ % MOVE_POINTS.length] ?? "placement.closed";
      const all = choice.kind === "every" || choice.kill !== undefined;
      const kills = choice.kind === "quick" ? [null] : [null, ...(all ? [...MOVE_POINTS, ...KILL_POINTS] : [drawn])];
      for (const kill of kills)
        if (wanted(kill ?? "lives", choice.kill))
          cells.push({ provider, fault, kill, seed: choice.seed + cells.length, moves: true });
    }
  }
  return cells;
}

/** Providers whose runs may have several nodes. */
const GANGS = having(({ nodes_max }) => nodes_max > 1);
/** The possible numbers of nodes of each run there; drawn cells take one of these. */
const NODES = [1, 1, 2, 3] as const;
export const nodesIn = (provider: ProviderCase, asked: number): number => (GANGS.includes(provider) ? asked : 1);

/** A notebook is one machine: several runs on it would disturb each other more than the fault does. */
export const runsIn = (provider: ProviderCase, asked: number): number => (provider === "notebook" ? 1 : asked);

/**
 * Cells of the whole matrix, shuffled by the seed, until they have `count` runs, with `each` machines in one world;
 * with `pairs`, each cell has a second fault. Some runs have several nodes, if their provider supports that.
 */
export function drawCells(choice: Choice, count: number, pairs: boolean, each = 1): Cell[] {
  const whole = chooseCells({ ...choice, kind: "every" }).filter(({ fault }) => !pairs || fault !== "none");
  const random = mulberry(choice.seed);
  for (let i = whole.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const one = whole[i];
    const other = whole[j];
    if (one && other) [whole[i], whole[j]] = [other, one];
  }
  if (whole.length === 0) return [];
  // If `count` exceeds the matrix, its cells are used again from the first one on, with other instants and other second
  // faults.
  const drawn: Cell[] = [];
  for (let n = 0, left = count; left > 0; n++) {
    const { provider, fault, kill } = whole[n % whole.length] as Cell; // not empty
    const nodes = nodesIn(provider, NODES[Math.floor(random() * NODES.length)] ?? 1);
    const runs = Math.min(Math.max(1, Math.floor(runsIn(provider, each) / nodes)), left);
    const others = FAULTS.filter((other) => other !== fault && appliesTo(provider, other));
    const also = pairs ? others[Math.floor(random() * others.length)] : undefined;
    const seed = choice.seed * 1_000 + n;
    drawn.push({
      provider,
      fault,
      kill,
      seed,
      ...(also && { also }),
      ...(runs > 1 && { runs }),
      ...(nodes > 1 && { nodes }),
    });
    left -= runs;
  }
  return drawn;
}

/** Numbers in [0, 1), the same for the same seed. */
function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

const wanted = (name: string, asked: string | undefined): boolean => asked === undefined || asked === name;

const skipped = (provider: ProviderCase, fault: FaultName | "none"): boolean =>
  provider === "podhost-rest" && fault !== "none" && !SECOND_API.test(fault);

function killsOf(fault: FaultName | "none", choice: Choice, drawn: number): (KillPoint | null)[] {
  if (choice.kind === "every" || choice.kill !== undefined) return [null, ...KILL_POINTS];
  if (choice.kind === "quick") return fault === "none" ? [null, ...MAIN] : [null];
  if (fault === "none") return [null, ...KILL_POINTS];
  // A step that has no common divisor with their number visits all of them in turn.
  const at = (k: number): number => ((drawn * DRAWN + k) * 7) % KILL_POINTS.length;
  return [null, ...Array.from({ length: DRAWN }, (_, k) => KILL_POINTS[at(k)] ?? null)];
}
