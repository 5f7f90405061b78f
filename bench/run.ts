// `npm run bench`: measures, and prints one table. Each group runs in a separate process, with a time limit.
//
//   npm run bench                    everything
//   npm run bench -- --only commits  one group, or several with commas; `--list` names them
//   npm run bench -- --keep FILE     replaces the figures of the measured groups in FILE; `npm run docs` then writes the
//                                    tables of docs/quality/benchmarks.md from docs/quality/benchmarks.jsonl

import { spawn } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { commits } from "./commits.ts";
import { controlPlane } from "./control-plane.ts";
import { dashboard } from "./dashboard.ts";
import { data } from "./data.ts";
import { firstLine } from "./first-line.ts";
import { flooding } from "./flood.ts";
import { commitHere } from "../scripts/lib/commit-here.ts";
import { flagsOf } from "../scripts/lib/flags.ts";
import { keepMeasured } from "../scripts/lib/bench-page.ts";
import type { Bench, Row } from "./lib/measure.ts";
import { table } from "./lib/table.ts";
import { hub } from "./hub.ts";
import { costs } from "./costs.ts";
import { growth } from "./growth.ts";
import { listing } from "./listing.ts";
import { live } from "./live.ts";
import { metrics } from "./metrics.ts";
import { runPage } from "./run-page.ts";
import { projectFiles } from "./project-files.ts";
import { recovery } from "./recovery.ts";
import { svcLog } from "./svc-log.ts";
import { rented } from "./rented.ts";

const BENCHES: Bench[] = [
  commits,
  firstLine,
  controlPlane,
  listing,
  growth,
  live,
  costs,
  recovery,
  flooding,
  metrics,
  svcLog,
  data,
  dashboard,
  rented,
  hub,
  projectFiles,
  runPage,
];
const LIMIT_MS = 10 * 60_000;
/** Marks the line with the rows in the output of a group's process. */
const MARK = "rows: ";

const flags = flagsOf(import.meta.filename, {
  only: { type: "string" },
  keep: { type: "string" },
  list: { type: "boolean", default: false },
  one: { type: "string" },
});

if (flags.one !== undefined) {
  const rows = await find(flags.one).measure();
  process.stdout.write(`${MARK}${JSON.stringify(rows)}\n`, () => process.exit(0));
} else if (flags.list) {
  for (const bench of BENCHES) console.log(`${bench.name}: ${bench.about}`);
} else {
  process.exit(await all(flags.only === undefined ? BENCHES : flags.only.split(",").map(find)));
}

function find(wanted: string): Bench {
  const bench = BENCHES.find((b) => b.name === wanted);
  if (bench) return bench;
  console.error(`There is no measurement called ${wanted}; there are ${BENCHES.map((b) => b.name).join(", ")}.`);
  process.exit(2);
}

async function all(benches: Bench[]): Promise<number> {
  const cpu = cpus();
  const computer = `${cpu.length} x ${cpu[0]?.model ?? "unknown"}`;
  console.log(`node ${process.version}, ${computer}, load ${loadavg()[0]?.toFixed(2)} at the start`);
  const rows: Row[] = [];
  const failed: string[] = [];
  for (const bench of benches) {
    console.error(`${bench.name}: ${bench.about}…`);
    const [load = 0] = loadavg();
    const began = performance.now();
    try {
      const mine = await inOwnProcess(bench);
      rows.push(...mine);
      const minutes = Math.round((performance.now() - began) / 6_000) / 10;
      const ended = { day: new Date().toISOString().slice(0, 10), commit: commitHere(), minutes };
      const here = { cpu: computer, node: process.version.slice(1), load };
      if (flags.keep !== undefined) keepMeasured(flags.keep, { group: bench.name, ...ended, ...here, rows: mine });
    } catch (e) {
      failed.push(bench.name);
      console.error(`${bench.name} failed: ${e instanceof Error ? e.message : String(e)}`);
    }
    // One group's pending disk writes must not slow the next one.
    await pause(500);
  }
  console.log(table(rows));
  const missed = rows.filter((row) => !row.met).length;
  console.log(`${rows.length - missed} of ${rows.length} targets met; load ${loadavg()[0]?.toFixed(2)} at the end.`);
  // A missed target is a result, not a failure of the program; a failed measurement is a failure.
  return failed.length > 0 ? 1 : 0;
}

function inOwnProcess({ name: group, limitMs = LIMIT_MS }: Bench): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [import.meta.filename, "--one", group], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const line = out.split("\n").find((l) => l.startsWith(MARK));
      if (code === 0 && line) resolve(JSON.parse(line.slice(MARK.length)) as Row[]);
      else reject(new Error(`its process ended with ${signal ?? `code ${code}`}`));
    });
  });
}
