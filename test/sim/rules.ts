// The invariants in the heads of source files (`// X1. …`), and the deliberate defects that break them.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./fleet.ts";
import { MUTANTS, type Patch } from "./mutants.ts";
import { TESTED_MUTANTS } from "./tested-mutants.ts";

const HEAD = /^(?:\/\/| \*|#) +([A-Z]{1,3}\d+)\. /;
/** No head is longer. */
const HEAD_LINES = 80;

/** Each invariant as its file and its label: `src/ssh/tree.ts T1`. */
export function rulesOfHeads(): string[] {
  const listed = execFileSync("git", ["ls-files", "src", "sdk", "runner", "python", "dashboard/src"], { cwd: ROOT });
  const files = listed.toString().split("\n");
  return files
    .filter((file) => /\.(?:ts|tsx|py)$/.test(file))
    .flatMap((file) => {
      const lines = readFileSync(join(ROOT, file), "utf8").split("\n", HEAD_LINES);
      return lines.flatMap((line) => {
        const label = HEAD.exec(line)?.[1];
        return label === undefined ? [] : [`${file} ${label}`];
      });
    });
}

/** The invariants that a defect breaks: those that it names, and those of the files that it changes with a label in its name. */
function brokenBy(mutant: { name: string; patches: readonly Patch[]; rules?: readonly string[] }): string[] {
  const labels = [...mutant.name.matchAll(/\b([A-Z]{1,3}\d+)\b/g)].map(([, label]) => label);
  return [
    ...(mutant.rules ?? []),
    ...mutant.patches.flatMap(({ file }) => labels.map((label) => `${file} ${String(label)}`)),
  ];
}

export const brokenRules = (): Set<string> => new Set([...MUTANTS, ...TESTED_MUTANTS].flatMap(brokenBy));
