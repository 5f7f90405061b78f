// The campaign: all tests that draw from a seed, at any scale, and one table at the end.
//
//   npm run campaign                            100,000 simulated worlds, 500 kills, each system call, 10,000 runs of the matrix, 1,000 preemptions, 1,000 budgets: half a day
//   npm run campaign -- --scale 0.01            a hundredth of each
//   npm run campaign -- --only kills,calls      some of: simulation, kills, calls, matrix, preemptions, budgets
//   npm run campaign -- --seed S --lanes N      another seed; so many at once
//   npm run campaign -- --runs N                 so many budgets, whatever the scale
//   npm run campaign -- --from N                system calls after the first N
//   npm run campaign -- --call JSON             one trial of a system call again, as a failure printed it
//   npm run campaign -- --sources               prints the digest of the program that each part tests: equal digests are equal programs
//   npm run campaign -- --round NAME            marks the results as a part of that round: the page has the newest round by itself
//   npm run campaign -- --keep FILE             adds the results to FILE, and writes docs/quality/campaign.md from all results in it;
//                                               what the page now shows is in docs/quality/campaign.jsonl
//
// It continues after a failure, prints the command that repeats it, and exits with 1 if there was any.

import { spawn } from "node:child_process";
import { appendFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { flagsOf } from "./lib/flags.ts";
import { commitHere } from "./lib/commit-here.ts";
import { campaignPage, campaignTable, keptIn, PARTS, type Kept } from "./lib/campaign-page.ts";
import { sourcesOf } from "./lib/sources-of.ts";
import { killLoop } from "../test/process/kill-loop.ts";
import { drawBudgetCell, runBudgetCell } from "../test/rented/budget-cell.ts";
import { budgetLine, budgetPage, budgetsIn, budgetTable } from "../test/rented/budget-page.ts";
import { preemptions as preempt } from "../test/rented/preemptions.ts";
import { canInject, trialsOf, tryCall, type Trial } from "../test/process/syscalls.ts";
import { inLanes, runSeeds } from "../test/sim/fleet.ts";

type Found = Pick<Kept, "counts" | "seeds" | "wrong">;

const flags = flagsOf(import.meta.filename, {
  scale: { type: "string", default: "1" },
  only: { type: "string", default: PARTS.join(",") },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
  lanes: { type: "string", default: String(availableParallelism()) },
  from: { type: "string", default: "0" },
  runs: { type: "string" },
  call: { type: "string" },
  keep: { type: "string" },
  round: { type: "string" },
  sources: { type: "boolean", default: false },
});
if (flags.sources) {
  for (const part of PARTS) process.stdout.write(`${part.padEnd(12)}${await sourcesOf(part)}\n`);
  process.exit(0);
}
if (flags.call !== undefined) {
  const why = await tryCall(JSON.parse(flags.call) as Trial);
  process.stdout.write(`${why ?? "as it should be"}\n`);
  process.exit(why === null ? 0 : 1);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
const scale = Number(flags.scale);
const seed = Number(flags.seed);
const lanes = Number(flags.lanes);
const from = Number(flags.from);
const chosen = flags.only.split(",");
const stranger = chosen.find((name) => !(PARTS as readonly string[]).includes(name));
if (stranger !== undefined || !(scale > 0) || !Number.isInteger(seed) || !(lanes >= 1) || !(from >= 0)) {
  process.stderr.write(`--only takes some of ${PARTS.join(", ")}; --scale, --seed, --lanes and --from take numbers.\n`);
  process.exit(2);
}
/** A world costs more than one run in it, and simultaneous runs affect each other. */
const RUNS_PER_CELL = 12;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const scaled = (count: number): number => Math.max(1, Math.round(count * scale));

async function simulation(): Promise<Found> {
  const count = scaled(100_000);
  const { crashes, creates, failures } = await runSeeds(seed, count, lanes);
  for (const f of failures) say(`simulation, seed ${f.seed}: ${f.what}\n  npm run sim -- --seed ${f.seed} --trace`);
  return {
    counts: { worlds: count, crashes, orders: creates },
    seeds: [seed, seed + count - 1],
    wrong: failures.length,
  };
}

/** Kills one control plane after the other; simultaneous ones would only slow each other down. */
async function kills(): Promise<Found> {
  const EACH = 25;
  const rounds = Math.ceil(scaled(500) / EACH);
  let wrong = 0;
  let runs = 0;
  for (let k = 0; k < rounds; k++) {
    try {
      runs += (await killLoop(EACH, seed + k)).runs;
    } catch (e) {
      wrong++;
      say(`kills, seed ${seed + k}: ${e instanceof Error ? e.message : String(e)}`);
    }
  }
  return { counts: { kills: rounds * EACH, runs }, seeds: [seed, seed + rounds - 1], wrong };
}

async function calls(): Promise<Found> {
  if (!canInject()) {
    say("not run: strace cannot inject faults here");
    return { counts: { calls: 0 }, seeds: [0, 0], wrong: 0 };
  }
  const all = trialsOf(seed);
  const trials = all.slice(from, from + scaled(all.length));
  let wrong = 0;
  await inLanes(trials, lanes, async (trial) => {
    const why = await tryCall(trial);
    if (why === null) return;
    wrong++;
    say(`calls: ${why}\n  npm run campaign -- --call '${JSON.stringify(trial)}'`);
  });
  return { counts: { calls: trials.length }, seeds: [seed, seed], wrong };
}

/** The matrix is a separate program: its worlds need new processes. Several runs share each world. */
async function matrix(): Promise<Found> {
  const count = scaled(10_000);
  const args = [
    "--draw",
    String(count),
    "--pairs",
    "--runs",
    String(Math.min(RUNS_PER_CELL, count)),
    "--seed",
    String(seed),
    "--jobs",
    String(lanes),
    "--minutes",
    "100000",
  ];
  const child = spawn(process.execPath, [join(import.meta.dirname, "matrix.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let wrong = 0;
  let cells = 0;
  let runs = 0;
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    say(line);
    if (line.startsWith("FAIL ")) wrong++;
    const sum = /^seed \d+: (\d+) of \d+ cells now with (\d+) runs/.exec(line);
    if (sum) [cells, runs] = [Number(sum[1]), Number(sum[2])];
  });
  const code = await new Promise<number | null>((done) => child.once("close", done));
  return { counts: { runs, cells }, seeds: [seed, seed], wrong: code === 0 ? 0 : Math.max(1, wrong) };
}

/** One job in each world; its machines are taken one after the other. */
async function preemptions(): Promise<Found> {
  const EACH = 12;
  const count = scaled(1_000);
  const jobs = Array.from({ length: Math.ceil(count / EACH) }, (_, k) => seed + k);
  let wrong = 0;
  let taken = 0;
  const lost: number[] = [];
  await inLanes(jobs, lanes, async (one) => {
    const found = await preempt(one, Math.min(EACH, count));
    taken += found.preempted;
    lost.push(...found.lost);
    if (found.wrong.length === 0) return;
    wrong++;
    say(`preemptions, seed ${one}: ${found.wrong.join("; ")}; its home: ${found.dir}`);
  });
  const most = lost.reduce((a, b) => Math.max(a, b), 0);
  say(`lines repeated after a preemption: ${most} at most, with a checkpoint at every tenth`);
  return { counts: { preemptions: taken, jobs: jobs.length }, seeds: [seed, seed + jobs.length - 1], wrong };
}

/** Each run takes a minute or two of real time, mostly without work. Results are kept one by one: the whole takes hours. */
async function budgets(): Promise<Found> {
  const count = flags.runs === undefined ? scaled(1_000) : Number(flags.runs);
  const file = flags.keep === undefined ? null : join(dirname(flags.keep), "budgets.jsonl");
  const cells = Array.from({ length: count }, (_, k) => drawBudgetCell(seed + k));
  const outcomes = file === null ? [] : budgetsIn(file);
  const before = outcomes.length;
  await inLanes(cells, lanes, async (cell) => {
    const outcome = await runBudgetCell(cell);
    outcomes.push(outcome);
    say(budgetLine(outcome));
    if (file !== null) appendFileSync(file, `${JSON.stringify(outcome)}\n`);
  });
  say(budgetTable(outcomes));
  if (file !== null) writeFileSync(join(dirname(file), "budgets.md"), budgetPage(budgetsIn(file)));
  const mine = outcomes.slice(before);
  const machines = mine.reduce((sum, outcome) => sum + outcome.machines, 0);
  const wrong = mine.filter((outcome) => outcome.wrong.length > 0).length;
  return { counts: { runs: count, machines }, seeds: [seed, seed + count - 1], wrong };
}

const commit = commitHere();
const found: Kept[] = [];
for (const part of PARTS.filter((name) => chosen.includes(name))) {
  say(`== ${part}`);
  // Before the part runs: the files may be others when it ends.
  const sources = await sourcesOf(part);
  const began = performance.now();
  const one = await { simulation, kills, calls, matrix, preemptions, budgets }[part]();
  const minutes = Math.round((performance.now() - began) / 6_000) / 10;
  const kept = {
    day: new Date().toISOString().slice(0, 10),
    part,
    ...one,
    minutes,
    commit,
    sources,
    ...(flags.round !== undefined && { round: flags.round }),
  };
  found.push(kept);
  if (flags.keep !== undefined) appendFileSync(flags.keep, `${JSON.stringify(kept)}\n`);
}
say(`\n${campaignTable(found)}`);
if (flags.keep !== undefined) {
  writeFileSync(join(import.meta.dirname, "../docs/quality/campaign.md"), campaignPage(keptIn(flags.keep)));
}
process.exit(found.every(({ wrong }) => wrong === 0) ? 0 : 1);
