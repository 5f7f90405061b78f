// Deliberate defects in rules that the simulation cannot judge: it moves no bytes and loads no old snapshots. Tests must detect them.

import { spawn } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inLanes, ROOT } from "./fleet.ts";
import { DASHBOARD_MUTANTS } from "./dashboard-mutants.ts";
import { COLLECTING_MUTANTS } from "./collecting-mutants.ts";
import { DATA_MUTANTS } from "./data-mutants.ts";
import { ENGINE_MUTANTS } from "./engine-mutants.ts";
import { FACING_MUTANTS } from "./facing-mutants.ts";
import { GUARDING_MUTANTS } from "./guarding-mutants.ts";
import { HUB_MUTANTS } from "./hub-mutants.ts";
import { KEEPING_MUTANTS } from "./keeping-mutants.ts";
import { MACHINE_MUTANTS } from "./machine-mutants.ts";
import { MONEY_MUTANTS } from "./money-mutants.ts";
import { MOVING_MUTANTS } from "./moving-mutants.ts";
import { PROJECT_MUTANTS } from "./project-mutants.ts";
import { PROVIDER_MUTANTS } from "./provider-mutants.ts";
import { RENTING_MUTANTS } from "./renting-mutants.ts";
import { RUNNING_MUTANTS } from "./running-mutants.ts";
import { SINK_MUTANTS } from "./sink-mutants.ts";
import { TELLING_MUTANTS } from "./telling-mutants.ts";
import { patched, type Patch, type Score, type TestedMutant } from "./mutants.ts";

const patch = (file: string, find: string, replace: string): Patch => ({ file, find, replace });
const LOG = ["test/engine/run-log-writer.test.ts"];
const CHOICES = ["test/steps/checkpoints/resume-choices.test.ts"];

/** The simulation has these as well, but needs many seeds to meet them: `late answers` more than 2,000, `rare` more than 600. */
const LATE = ["test/engine/late-answers.test.ts"];

export const TESTED_MUTANTS: readonly TestedMutant[] = [
  {
    name: "late answers: a machine of an earlier placement is used",
    patches: [patch("src/steps/provision.ts", "|| entry.placement !== placement", "")],
    tests: LATE,
  },
  {
    name: "late answers: the sweep leaves one to a job that has moved on",
    patches: [
      patch(
        "src/engine/reconcile.ts",
        'job.state !== "waiting" && order.placement === engine.placement(job.id).n && !ledger.isSuperseded(order)',
        "order.placement > 0 * engine.placement(job.id).n",
      ),
    ],
    tests: LATE,
  },
  {
    name: "late answers: the machine of an order that the node has replaced is used",
    patches: [
      patch(
        "src/steps/rental/held-entry.ts",
        "entry.handle !== null && entry.superseded !== true",
        "entry.handle !== null",
      ),
    ],
    tests: LATE,
  },
  {
    name: "late answers: the sweep leaves the machine of an order that the node has replaced",
    patches: [patch("src/engine/reconcile.ts", "&& !ledger.isSuperseded(order)", "")],
    tests: LATE,
  },
  {
    name: "late answers: the sweep goes by a machine's name and not by its id",
    patches: [
      patch(
        "src/engine/reconcile.ts",
        "return !isOwn(parts, row, handle) && (",
        "return isOwn(parts, row, handle) !== null && (",
      ),
    ],
    tests: LATE,
  },
  {
    name: "late answers: one that names a second machine is closed by the proof about the first",
    patches: [patch("src/engine/ledger.ts", "|| (of !== undefined && row?.resource_id !== of)", "")],
    tests: LATE,
  },
  {
    name: "rare: an empty listing counts from its answer",
    patches: [
      patch(
        "src/steps/rental/resolve-lost-order.ts",
        "const wait = certainAt - askedAt;",
        "const wait = certainAt - ports.now() + 0 * askedAt;",
      ),
    ],
    tests: ["test/steps/provision.test.ts"],
  },
  {
    name: "rare: a listing that failed counts as an empty one",
    patches: [
      patch(
        "src/steps/rental/resolve-lost-order.ts",
        "await ownedMachines(provider, prefix, signal);",
        "await ownedMachines(provider, prefix, signal).catch(() => ({ machines: [], missing: null }));",
      ),
    ],
    tests: ["test/steps/incomplete-lists.test.ts", "test/steps/provision.test.ts"],
  },
  {
    name: "rare: a machine found again is not held to the price cap",
    patches: [
      patch(
        "src/steps/provision.ts",
        'if (found.is === "held") return affordably(provider, spec, found.handle);',
        'if (found.is === "held") return done(found.handle);',
      ),
    ],
    tests: ["test/steps/price-cap.test.ts", "test/steps/provision.test.ts"],
  },
  {
    name: "rare: a list opens the row of a machine that was proven gone after it",
    patches: [
      patch(
        "src/engine/reconcile.ts",
        'if ((await provider.inspect(handle, signal)).phase !== "gone") return false;',
        "if (provider.inspect !== undefined) return false;",
      ),
    ],
    tests: ["test/engine/reconcile.test.ts"],
  },
  {
    name: "rare: a machine that is listed in spite of its proof is not released again",
    patches: [patch("src/engine/reconcile.ts", "if (!dryRun) await provider.terminate(handle, signal);", "")],
    tests: ["test/engine/reconcile.test.ts"],
  },
  {
    name: "rare: a sweep passes by what a row explains",
    patches: [
      patch(
        "src/engine/reconcile.ts",
        "if (isOrphan(parts, handle) &&",
        "if (!parts.ledger.row(handle.name) && isOrphan(parts, handle) &&",
      ),
    ],
    tests: ["test/engine/reconcile.test.ts", ...LATE],
  },
  {
    name: "budgets: an order counts though a list was taken in time",
    patches: [
      patch("src/steps/rental/resolve-lost-order.ts", "firstAt >= (entry.endsFrom ?? Infinity)", "firstAt >= 0"),
    ],
    tests: ["test/steps/rental/unproven-order.test.ts"],
  },
  {
    name: "budgets: another machine is ordered though the rest is too small",
    patches: [patch("src/steps/terminate.ts", "const lack = ports.budget?.lack(jobId) ?? null;", "const lack = null;")],
    tests: ["test/steps/rental/unproven-order.test.ts"],
  },
  {
    name: "rows: the cost of earlier placements is forgotten",
    patches: [
      patch(
        "src/domain/billing.ts",
        "const existed = machine.held_at !== null;",
        "const existed = machine.held_at !== null;\n  if (existed && !mayCost(machine)) return 0;",
      ),
    ],
    tests: ["test/engine/budgets.test.ts", "test/domain"],
  },
  {
    name: "log: a later placement begins without a seam",
    patches: [
      patch(
        "src/engine/run-log-writer.ts",
        "if (from.sourceOffset > 0) return;",
        "if (from.sourceOffset >= 0) return;",
      ),
    ],
    tests: LOG,
  },
  {
    name: "log: the seam is written again when its step is",
    patches: [
      patch("src/engine/run-log-writer.ts", "const to = { ...from, sourceOffset: 1 };", "const to = { ...from };"),
    ],
    tests: LOG,
  },
  {
    name: "account: an empty answer counts for another key, while the API that names accounts is away",
    patches: [
      patch(
        "src/steps/rental/account-check.ts",
        'return one.print === two.print ? "same" : "another key";',
        'return "unknown";',
      ),
    ],
    tests: ["test/steps/rental/account-check.test.ts"],
  },
  {
    name: "account: the user's word closes the order of a machine that the provider shows",
    patches: [
      patch(
        "src/engine/confirm-gone.ts",
        "machine.name === name || machine.id === row.resource_id",
        "machine === null",
      ),
    ],
    tests: ["test/engine/confirm-gone.test.ts"],
  },
  {
    name: "renting: svc renews the lease of a machine that it cannot end",
    patches: [patch("src/steps/terminate.ts", "if (provider.info.capabilities.bills) ports.gone?.(entry.name);", "")],
    tests: ["test/steps/terminate.test.ts"],
  },
  {
    name: "guard: G6: ranks have less time at the machine's start than their launcher waits for them",
    patches: [
      patch(
        "src/domain/guard-script.ts",
        "stopSeconds: stopGraceSeconds(spec),",
        "stopSeconds: spec.stop_grace_seconds,",
      ),
    ],
    tests: ["test/providers/cloudvm-create.test.ts"],
  },
  {
    name: "log: L4: a script's first line continues the last one of the installation",
    patches: [patch("src/engine/run-log-writer.ts", "if (!begins || start === 0", "if (!begins || start >= 0")],
    tests: LOG,
  },
  {
    name: "log: a node's last words and another node's line are one line",
    patches: [
      patch(
        "src/steps/follow/log-follower.ts",
        "if (last !== 0x0a && last !== 0x0d) pieces",
        "if (last === undefined) pieces",
      ),
    ],
    tests: ["test/steps/follow/log-follower.test.ts"],
  },
  {
    name: "log: the next machine's log continues at the cursor of the last one",
    patches: [patch("src/engine/run-log-writer.ts", "placement <= 1 ? stream", "placement > 0 ? stream")],
    tests: LOG,
  },
  {
    name: "resume: a later placement starts from what the first one was given",
    patches: [
      patch(
        "src/steps/checkpoints/resume-choices.ts",
        "if (before?.placement === placement) return before.resume;",
        "if (before !== undefined) return before.resume;",
      ),
    ],
    tests: CHOICES,
  },
  {
    name: "resume: the script is not told the checkpoint",
    patches: [patch("src/steps/launch/runner-spec.ts", "SVC_RESUME_FROM: input.resumeFrom,", "SVC_RESUME_FROM: null,")],
    tests: ["test/steps/launch/runner-spec.test.ts"],
  },
  {
    name: "resume: the checkpoint of the last placement does not count for the decision",
    patches: [
      patch(
        "src/machines/job-machine.ts",
        "checkpoint: ({ context, event }) => checkpointOf(event) ?? context.checkpoint",
        "checkpoint: ({ context }) => context.checkpoint",
      ),
    ],
    tests: ["test/machines/placements.test.ts", "test/engine/placements.test.ts"],
  },
  {
    name: "old snapshots: a run of before placements is parked",
    patches: [patch("src/machines/versions.ts", "on_demand: false,", "")],
    tests: ["test/machines/versions.test.ts"],
  },
  {
    name: "old snapshots: a run of before placements opens its first one again",
    patches: [patch("src/machines/versions.ts", "placement: 1,", "placement: 0,")],
    tests: ["test/machines/versions.test.ts"],
  },
  ...MONEY_MUTANTS,
  ...MOVING_MUTANTS,
  ...DATA_MUTANTS,
  ...GUARDING_MUTANTS,
  ...MACHINE_MUTANTS,
  ...RENTING_MUTANTS,
  ...SINK_MUTANTS,
  ...TELLING_MUTANTS,
  ...KEEPING_MUTANTS,
  ...FACING_MUTANTS,
  ...DASHBOARD_MUTANTS,
  ...RUNNING_MUTANTS,
  ...COLLECTING_MUTANTS,
  ...HUB_MUTANTS,
  ...ENGINE_MUTANTS,
  ...PROJECT_MUTANTS,
  ...PROVIDER_MUTANTS,
];

/** The files that the tests and their configuration read. */
const TREE = [
  "src",
  "test",
  "scripts",
  "sdk",
  "python",
  "runner",
  "bin",
  "examples/digits",
  "dashboard/index.html",
  "dashboard/public",
  "dashboard/src",
  "dashboard/vite.config.ts",
  "vitest.config.ts",
  "package.json",
  "tsconfig.json",
];

const fileOf = (test: string): string => test.split(" > ")[0] ?? "";
const escaped = (title: string): string => title.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&");
const titleOf = (test: string): string | null => test.split(" > ")[1] ?? null;

function run(root: string, tests: readonly string[]): Promise<{ failed: boolean; what: string }> {
  return new Promise((resolve, reject) => {
    const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
    // The dashboard's tests build it first, from this tree.
    const dashboard = tests.some((test) => test.startsWith("test/dashboard/")) ? ["dashboard"] : [];
    const projects = ["quick", "machines", "whole", ...dashboard].flatMap((name) => ["--project", name]);
    const titles = tests.map(titleOf).filter((title) => title !== null);
    const chosen = titles.length < tests.length ? [] : ["-t", titles.map(escaped).join("|")];
    const files = new Set(tests.map(fileOf));
    const child = spawn(process.execPath, [vitest, "run", "--root", root, ...projects, ...files, ...chosen], {
      cwd: root,
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, NO_COLOR: "1", CI: "true" },
    });
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.on("error", reject);
    child.on("close", () => {
      const what = /^ *(?:FAIL|×) +(.*)$/m.exec(out)?.[1] ?? "";
      // A title that no test has chooses none.
      if (!/\d+ passed, \d+ failed/.test(out) || /\b0 passed, 0 failed/.test(out))
        reject(new Error(`the tests ${tests.join(", ")} did not run: ${out.slice(-2_000)}`));
      else resolve({ failed: !/ 0 failed/.test(out), what });
    });
  });
}

function copyTree(root: string): void {
  mkdirSync(root, { recursive: true });
  for (const name of TREE) cpSync(join(ROOT, name), join(root, name), { recursive: true });
}

/** As `score`, with the tests in place of seeds: a mutant that is caught has seed 1. Throws if a test fails without any. */
export async function scoreByTests(
  mutants: readonly TestedMutant[],
  lanes: number,
  done: (score: Score) => void,
): Promise<Score[]> {
  const folder = join(ROOT, ".cache", `tested-mutants-${process.pid}`);
  try {
    const control = join(folder, "control");
    copyTree(control);
    const all = [...new Set(mutants.flatMap(({ tests }) => tests))];
    const [titled, whole] = [all.filter((test) => titleOf(test)), all.filter((test) => !titleOf(test))];
    for (const tests of [titled, whole].filter(({ length }) => length > 0)) {
      const without = await run(control, tests);
      if (without.failed) throw new Error(`without any defect, tests fail: ${without.what}`);
    }
    return await inLanes(mutants, lanes, async (mutant) => {
      const root = join(folder, String(mutants.indexOf(mutant)));
      copyTree(root);
      for (const [file, text] of patched(mutant)) writeFileSync(join(root, file), text);
      const { failed, what } = await run(root, mutant.tests);
      rmSync(root, { recursive: true, force: true });
      const result: Score = { name: mutant.name, seed: failed ? 1 : null, what, runs: 1 };
      done(result);
      return result;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
