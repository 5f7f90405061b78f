// Rented machines, all of them on this computer: the cost of a run, a tree, a checkpoint and a log over real SSH,
// compared with the system's own ssh and rsync to the same sshd; and how many machines one control plane supervises.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { withFolder } from "./lib/home.ts";
import type { Bench, Row } from "./lib/measure.ts";
import { measureFirstLine } from "./rented/first-line.ts";
import { measureGate } from "./rented/gate.ts";
import { measureLog } from "./rented/log.ts";
import { measureLost } from "./rented/lost.ts";
import { measureMany, measureQuiet } from "./rented/many.ts";
import { measurePlan } from "./rented/plan.ts";
import { measurePull } from "./rented/pull.ts";
import { measureSmallFiles } from "./rented/small-files.ts";
import { measureTrees } from "./rented/trees.ts";
import { measureWaiting } from "./rented/waiting.ts";

const PARTS: Record<string, (folder: string) => Promise<Row[]>> = {
  "first-line": measureFirstLine,
  gate: measureGate,
  trees: measureTrees,
  pull: measurePull,
  "small-files": measureSmallFiles,
  log: measureLog,
  quiet: measureQuiet,
  many: measureMany,
  lost: measureLost,
  plan: measurePlan,
  waiting: measureWaiting,
};

/** `SVC_BENCH_RENTED=first-line,pull` measures only those. */
async function measure(): Promise<Row[]> {
  const wanted = process.env["SVC_BENCH_RENTED"]?.split(",") ?? Object.keys(PARTS);
  const rows: Row[] = [];
  for (const name of wanted) {
    const part = PARTS[name];
    if (!part) throw new Error(`there is no part ${name}; there are ${Object.keys(PARTS).join(", ")}`);
    const about = await withFolder(async (folder) => {
      mkdirSync(join(folder, name));
      return part(join(folder, name));
    });
    rows.push(...about);
  }
  return rows;
}

export const rented: Bench = {
  name: "rented",
  about: "rented machines over SSH on this computer",
  limitMs: 45 * 60_000,
  measure,
};
