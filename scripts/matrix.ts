// The fault matrix: every fault on every provider, with a control plane that either lives or is killed at a boundary
// and started again.
//
//   npm run matrix                                        all faults, some boundaries each; writes docs/quality/fault-matrix.md
//   npm run matrix -- --quick                             each fault once, and five boundaries without a fault; writes nothing
//   npm run matrix -- --every                             every fault at every boundary: some 3,000 cells, more than an hour
//   npm run matrix -- --draw N [--pairs]                  cells drawn from all of them, or pairs of faults, until they have N runs
//   npm run matrix -- --runs N                            N runs at once in each cell's world, which all meet its fault and its kill
//   npm run matrix -- --nodes N                           runs of N nodes, where their provider can
//   npm run matrix -- --moves                             only the cells in which another machine follows the one that the fault ended
//   npm run matrix -- --keep FILE                         adds the results to FILE, and skips cells that are already in it
//   npm run matrix -- --provider P --fault F --kill K     only those; K may be `lives`
//   npm run matrix -- --jobs N --seed S                   so many worlds at once; another seed for instants and boundaries
//   npm run matrix -- --minutes N                         starts no cell after this time; cells without a kill come first

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { flagsOf } from "./lib/flags.ts";
import { jsonLinesIn } from "./lib/json-lines.ts";
import { nameOf, runCell, runsOf, type Cell, type Outcome } from "../test/rented/cell.ts";
import { chooseCells, chooseMoves, drawCells, nodesIn, runsIn, type Choice } from "../test/rented/choose.ts";
import { matrixPage, matrixTable } from "../test/rented/page.ts";

/** All machines of one world are on this computer. */
const RUNS_MAX = 50;

const flags = flagsOf(import.meta.filename, {
  provider: { type: "string" },
  fault: { type: "string" },
  kill: { type: "string" },
  jobs: { type: "string", default: "4" },
  minutes: { type: "string", default: "25" },
  seed: { type: "string", default: "1" },
  quick: { type: "boolean", default: false },
  every: { type: "boolean", default: false },
  draw: { type: "string" },
  pairs: { type: "boolean", default: false },
  moves: { type: "boolean", default: false },
  runs: { type: "string", default: "1" },
  nodes: { type: "string", default: "1" },
  keep: { type: "string" },
});
const seed = Number(flags.seed);
const choice: Choice = {
  seed,
  kind: flags.quick ? "quick" : flags.every ? "every" : "usual",
  provider: flags.provider,
  fault: flags.fault,
  kill: flags.kill,
};
const draw = Number(flags.draw ?? 0);
const runs = Number(flags.runs);
const nodes = Number(flags.nodes);
if (!(draw >= 0) || ![runs, nodes].every((n) => Number.isInteger(n) && n >= 1 && n <= RUNS_MAX)) {
  process.stderr.write(`--draw takes a number, --runs and --nodes one from 1 to ${RUNS_MAX}; nothing was run.\n`);
  process.exit(2);
}
const cells = draw > 0 ? drawCells(choice, draw, flags.pairs, runs) : chosenCells();
function chosenCells(): Cell[] {
  const moves = runs > 1 || nodes > 1 ? [] : chooseMoves(choice);
  if (flags.moves) return moves;
  const usual = chooseCells(choice).map((cell) => ({
    ...cell,
    ...(runs > 1 && { runs: runsIn(cell.provider, runs) }),
    ...(nodes > 1 && { nodes: nodesIn(cell.provider, nodes) }),
  }));
  return [...usual, ...moves];
}
const kept = flags.keep === undefined ? [] : keptIn(flags.keep);
/** The results of earlier runs. */
function keptIn(file: string): Outcome[] {
  const outcomes = jsonLinesIn<Outcome>(file);
  // The last result of each cell.
  return [...new Map(outcomes.map((outcome) => [nameOf(outcome.cell), outcome])).values()];
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const began = performance.now();
const outcomes: Outcome[] = [];
const done = new Set(kept.map(({ cell }) => nameOf(cell)));
const todo = cells.filter((cell) => !done.has(nameOf(cell)));
const waiting = [...todo.filter(({ kill }) => kill === null), ...todo.filter(({ kill }) => kill !== null)];
const until = began + Number(flags.minutes) * 60_000;

async function lane(): Promise<void> {
  for (let cell = waiting.shift(); cell && performance.now() < until; cell = waiting.shift()) {
    const outcome = await runCell(cell);
    outcomes.push(outcome);
    if (flags.keep !== undefined) appendFileSync(flags.keep, `${JSON.stringify(outcome)}\n`);
    if (outcome.wrong.length > 0 || cells.length < 20) {
      const mark = outcome.wrong.length > 0 ? "FAIL" : "ok  ";
      say(`${mark} ${nameOf(cell)}: ${outcome.came} in ${outcome.seconds.toFixed(1)} s, ${outcome.lives} lives`);
      for (const what of outcome.wrong) say(`       ${what}`);
      if (outcome.dir !== null) say(`       seed ${cell.seed}; its home: ${outcome.dir}`);
    } else if (outcomes.length % 25 === 0) say(`${outcomes.length} of ${cells.length} cells`);
  }
}

const lanes = Math.max(1, Math.min(8, Number(flags.jobs) || 4));
await Promise.all(Array.from({ length: lanes }, lane));

const ordered = [...kept, ...cells.flatMap((cell) => outcomes.filter((outcome) => outcome.cell === cell))];
for (const line of matrixTable(ordered)) say(line);
const failed = ordered.filter(({ wrong }) => wrong.length > 0).length;
say(
  `\nseed ${seed}: ${outcomes.length} of ${todo.length} cells now with ${runsOf(outcomes)} runs, ${ordered.length} in all, ${failed} failed, ${((performance.now() - began) / 60_000).toFixed(1)} minutes`,
);
const whole =
  (flags.keep !== undefined || draw === 0) &&
  !flags.quick &&
  !(flags.moves && flags.keep === undefined) &&
  [flags.provider, flags.fault, flags.kill].every((flag) => flag === undefined);
if (whole)
  writeFileSync(
    join(import.meta.dirname, "../docs/quality/fault-matrix.md"),
    matrixPage(ordered, done.size + todo.length, `${flags.every ? "--every " : ""}--seed ${seed}`),
  );
process.exit(failed > 0 ? 1 : 0);
