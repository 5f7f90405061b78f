// The fault matrix: every fault on every provider, with a control plane that lives or is killed at a boundary and started again.
//
//   npm run matrix                                        all faults, some boundaries each; writes docs/FAULT-MATRIX.md
//   npm run matrix -- --quick                             each fault once, and five boundaries without a fault; writes nothing
//   npm run matrix -- --every                             every fault at every boundary; takes hours
//   npm run matrix -- --provider P --fault F --kill K     only those; K may be `lives`
//   npm run matrix -- --jobs N --seed S                   so many worlds at once; another drawing of instants and boundaries
//   npm run matrix -- --minutes N                         begins no cell after so long; those with a control plane that lives come first

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { nameOf, runCell, type Outcome } from "../test/rented/cell.ts";
import { chooseCells } from "../test/rented/choose.ts";
import { matrixPage, matrixTable } from "../test/rented/page.ts";

const { values: flags } = parseArgs({
  options: {
    provider: { type: "string" },
    fault: { type: "string" },
    kill: { type: "string" },
    jobs: { type: "string", default: "4" },
    minutes: { type: "string", default: "25" },
    seed: { type: "string", default: "1" },
    quick: { type: "boolean", default: false },
    every: { type: "boolean", default: false },
  },
});
const seed = Number(flags.seed);
const cells = chooseCells({
  seed,
  kind: flags.quick ? "quick" : flags.every ? "every" : "usual",
  provider: flags.provider,
  fault: flags.fault,
  kill: flags.kill,
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const began = performance.now();
const outcomes: Outcome[] = [];
const waiting = [...cells.filter(({ kill }) => kill === null), ...cells.filter(({ kill }) => kill !== null)];
const until = began + Number(flags.minutes) * 60_000;

async function lane(): Promise<void> {
  for (let cell = waiting.shift(); cell && performance.now() < until; cell = waiting.shift()) {
    const outcome = await runCell(cell);
    outcomes.push(outcome);
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

const ordered = cells.flatMap((cell) => outcomes.filter((outcome) => outcome.cell === cell));
for (const line of matrixTable(ordered)) say(line);
const failed = ordered.filter(({ wrong }) => wrong.length > 0).length;
say(
  `\n${ordered.length} of ${cells.length} cells, ${failed} failed, ${((performance.now() - began) / 60_000).toFixed(1)} minutes`,
);
const whole = !flags.quick && [flags.provider, flags.fault, flags.kill].every((flag) => flag === undefined);
if (whole) writeFileSync(join(import.meta.dirname, "../docs/FAULT-MATRIX.md"), matrixPage(ordered, seed, cells.length));
process.exit(failed > 0 ? 1 : 0);
