// Prints the matrix as a table for people.

import { runsOf, type Outcome } from "./cell.ts";
import { FAULT_CASES } from "./faults.ts";
import { KILL_POINTS, MOVE_POINTS } from "./words.ts";
import { FACTOR, PROVIDERS } from "./world.ts";

const faultsOf = (outcomes: readonly Outcome[]): string[] => [...new Set(outcomes.map(({ cell }) => cell.fault))];

/** The results of some cells: how many were right, and how they ended. */
function summary(outcomes: readonly Outcome[]): string {
  if (outcomes.length === 0) return "";
  const wrong = outcomes.filter((outcome) => outcome.wrong.length > 0).length;
  const came = [...new Set(outcomes.map((outcome) => outcome.came))].toSorted();
  const count = wrong > 0 ? `FAIL ${wrong} of ${outcomes.length}` : `ok ${outcomes.length}`;
  return `${count}: ${came.join(", ")}`;
}

export function matrixTable(outcomes: readonly Outcome[]): string[] {
  const rows = [["fault", ...PROVIDERS]];
  for (const fault of faultsOf(outcomes))
    rows.push([
      fault,
      ...PROVIDERS.map((provider) =>
        summary(outcomes.filter(({ cell }) => cell.fault === fault && cell.provider === provider)),
      ),
    ]);
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    row
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

const markdown = (rows: readonly (readonly string[])[]): string => {
  const [head = [], ...body] = rows;
  const line = (row: readonly string[]): string => `| ${row.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...body.map(line)].join("\n");
};

function pairTable(pairs: readonly Outcome[]): string {
  const rows = PROVIDERS.map((provider) => {
    const mine = pairs.filter(({ cell }) => cell.provider === provider);
    const killed = mine.filter((outcome) => outcome.killed).length;
    return [provider, String(mine.length), String(killed), String(mine.filter(({ wrong }) => wrong.length > 0).length)];
  });
  return `## Two faults at once\n\n${markdown([["provider", "pairs", "with a kill", "wrong"], ...rows])}\n\n`;
}

/** The cells in which another placement followed. */
function moveTable(moves: readonly Outcome[]): string {
  const providers = PROVIDERS.filter((provider) => moves.some(({ cell }) => cell.provider === provider));
  const rows = faultsOf(moves).map((fault) => [
    `\`${fault}\``,
    ...providers.map((provider) =>
      summary(moves.filter(({ cell }) => cell.fault === fault && cell.provider === provider)),
    ),
  ]);
  const kills = MOVE_POINTS.map((kill) => {
    const mine = moves.filter(({ cell }) => cell.kill === kill);
    return [`\`${kill}\``, String(mine.length), String(mine.filter(({ killed }) => killed).length)];
  });
  return `## Another machine follows

Here the run resumes from its checkpoints, and a second provider is a candidate: the fault ends a placement and not the run. A cell is
right when the run succeeds, no two machines of it existed at the same time, none is left, each part of the log begins at a complete
checkpoint and has every line after it, and the last part reaches the end.

${markdown([["fault", ...providers], ...rows])}

${markdown([["killed at", "cells", "killed there"], ...kills])}

`;
}

/**
 * @param drawn the number of cells without a time limit.
 * @param flags of the command, as far as they say which cells.
 */
export function matrixPage(all: readonly Outcome[], drawn: number, flags: string): string {
  const outcomes = all.filter(({ cell }) => cell.also === undefined && cell.moves !== true);
  const moves = all.filter(({ cell }) => cell.moves === true);
  const pairs = all.filter(({ cell }) => cell.also !== undefined);
  const failed = all.filter(({ wrong }) => wrong.length > 0);
  const faults = faultsOf(outcomes).map((fault) => [
    `\`${fault}\``,
    ...PROVIDERS.map((provider) =>
      summary(outcomes.filter(({ cell }) => cell.fault === fault && cell.provider === provider)),
    ),
  ]);
  const kills = ["lives", ...KILL_POINTS].map((kill) => {
    const mine = outcomes.filter(({ cell }) => (cell.kill ?? "lives") === kill);
    const passed = kill === "lives" ? mine : mine.filter(({ killed }) => killed);
    const wrong = mine.filter(({ wrong: all }) => all.length > 0).length;
    return [`\`${kill}\``, String(mine.length), String(passed.length), String(wrong)];
  });
  return `<!-- Written by \`npm run matrix\`; do not edit. -->

# Fault matrix

Every fault that the simulated providers can commit, on every provider, with a control plane that lives or is killed
(\`SIGKILL\`) at a boundary of its steps and started again. The control plane is the product in a process of its own; the
provider is a simulator with its own books; the machines have a kernel's own networks, processes and disks, and a real sshd.
Control plane and provider go by a clock that runs ${FACTOR} times as fast as this computer's.

A cell is right when, at its end, by the simulator's books:

- no machine of ours is left, and never were two alive for one node;
- the machine of another user on the account is unchanged;
- no machine above the price cap was kept longer than it takes to be told its price;
- the job is terminal with a reason that fits the fault, and its record has no machine that is not released;
- this computer has the numbered lines of the run, each once and in order: all of them where the run succeeded, else the first ones;
  and it has the run's checkpoint.

${all.length < drawn ? `${all.length} cells of ${drawn} were run within the time limit` : `${all.length} cells`} with ${runsOf(all)} runs, ${pairs.length} of them with two faults at once; ${failed.length} wrong. Made by \`npm run matrix -- ${flags}\`; one
cell again by \`npm run matrix -- --provider P --fault F --kill K --seed S\`.

## By fault and provider

\`ok 4: succeeded\` says that four cells were right and ended so. A field is empty if no such cell was drawn, if the provider has no such
thing, or if the fault has nothing to do with an API, which is all that podhost-rest changes.

${markdown([["fault", ...PROVIDERS], ...faults])}

## By the boundary at which the control plane was killed

Some boundaries are never passed: a run that got no machine has no log.

${markdown([["boundary", "cells", "killed there", "wrong"], ...kills])}

${moves.length === 0 ? "" : moveTable(moves)}${pairs.length === 0 ? "" : pairTable(pairs)}## What fits

${markdown([
  ["fault", "when", "measure", "the job may come to"],
  ...Object.entries(FAULT_CASES).map(([fault, { when, measure, ends }]) => [
    `\`${fault}\``,
    when === "any" ? "at an instant drawn by the seed" : `\`${when}\``,
    measure === undefined ? "its usual one" : String(measure),
    ends.map((end) => `\`${end}\``).join(", "),
  ]),
])}

The notebook has no API, so svc cannot ask whether its machine still exists. It gives up a run whose tunnel refuses every connection for
minutes (\`runtime_gone\`). In these cells the owner enters the tunnel's new port where it has one.
${
  failed.length === 0
    ? ""
    : `\n## Wrong\n\n${failed.map(({ cell, wrong }) => `- ${cell.provider}, ${cell.also === undefined ? cell.fault : `${cell.fault} and ${cell.also}`}, ${cell.kill ?? "lives"}, seed ${cell.seed}: ${wrong.join("; ").replaceAll(/\s+/g, " ")}`).join("\n")}\n`
}`;
}
