// The campaign: everything that is drawn by a seed, at whatever scale there is time for, and one table at its end.
//
//   npm run campaign                            100,000 simulated worlds, 500 kills, 2,000 system calls, the fault matrix: a day
//   npm run campaign -- --scale 0.01            a hundredth of each
//   npm run campaign -- --only kills,calls      some of: simulation, kills, calls, matrix
//   npm run campaign -- --seed S --lanes N      another drawing; so many at once
//
// It goes on after a failure, prints what to run to see it again, and ends with 1 if there was any.

import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { killLoop } from "../test/process/kill-loop.ts";
import { canInject, trialOf, tryCall } from "../test/process/syscalls.ts";
import { inLanes, runSeeds } from "../test/sim/fleet.ts";

const PARTS = ["simulation", "kills", "calls", "matrix"] as const;
type Part = (typeof PARTS)[number];

const { values: flags } = parseArgs({
  options: {
    scale: { type: "string", default: "1" },
    only: { type: "string", default: PARTS.join(",") },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    lanes: { type: "string", default: String(availableParallelism()) },
  },
});
const scale = Number(flags.scale);
const seed = Number(flags.seed);
const lanes = Number(flags.lanes);
const chosen = flags.only.split(",");
const stranger = chosen.find((name) => !(PARTS as readonly string[]).includes(name));
if (stranger !== undefined || !(scale > 0) || !Number.isInteger(seed) || !(lanes >= 1)) {
  process.stderr.write(`--only takes some of ${PARTS.join(", ")}; --scale, --seed and --lanes take numbers.\n`);
  process.exit(2);
}
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const scaled = (count: number): number => Math.max(1, Math.round(count * scale));

interface Row {
  part: Part;
  what: string;
  wrong: number;
  minutes: number;
}

async function simulation(): Promise<Omit<Row, "part" | "minutes">> {
  const count = scaled(100_000);
  const { crashes, creates, failures } = await runSeeds(seed, count, lanes);
  for (const f of failures) say(`simulation, seed ${f.seed}: ${f.what}\n  npm run sim -- --seed ${f.seed} --trace`);
  const what = `${count} worlds from seed ${seed}, ${crashes} crashes, ${creates} orders`;
  return { what, wrong: failures.length };
}

/** Kills of one control plane after the other; more at once would only slow each other down. */
async function kills(): Promise<Omit<Row, "part" | "minutes">> {
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
  return { what: `${rounds * EACH} kills in ${rounds} rounds from seed ${seed}, ${runs} runs`, wrong };
}

async function calls(): Promise<Omit<Row, "part" | "minutes">> {
  if (!canInject()) return { what: "not run: strace cannot inject faults here", wrong: 0 };
  const count = scaled(2_000);
  let wrong = 0;
  await inLanes(
    Array.from({ length: count }, (_, k) => trialOf(seed * 1_000 + k)),
    lanes,
    async (trial) => {
      const why = await tryCall(trial);
      if (why === null) return;
      wrong++;
      say(`calls, ${JSON.stringify(trial)}: ${why}`);
    },
  );
  return { what: `${count} calls from seed ${seed * 1_000}`, wrong };
}

/** The matrix is a program of its own: its worlds need processes without a past. */
async function matrix(): Promise<Omit<Row, "part" | "minutes">> {
  const count = scaled(10_000);
  const args = [
    "--draw",
    String(count),
    "--pairs",
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
  let last = "";
  let wrong = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    process.stdout.write(text);
    last = (last + text).slice(-2_000);
    wrong += text.match(/^FAIL /gm)?.length ?? 0;
  });
  const code = await new Promise<number | null>((done) => child.once("close", done));
  const words = last.trim().split("\n").at(-1) ?? "";
  return { what: `${words} (seed ${seed})`, wrong: code === 0 ? 0 : Math.max(1, wrong) };
}

const rows: Row[] = [];
for (const part of PARTS.filter((name) => chosen.includes(name))) {
  say(`== ${part}`);
  const began = performance.now();
  const done = await { simulation, kills, calls, matrix }[part]();
  rows.push({ part, ...done, minutes: (performance.now() - began) / 60_000 });
}
say("\n| part | what | wrong | minutes |\n| --- | --- | --- | --- |");
for (const { part, what, wrong, minutes } of rows) say(`| ${part} | ${what} | ${wrong} | ${minutes.toFixed(1)} |`);
process.exit(rows.every(({ wrong }) => wrong === 0) ? 0 : 1);
