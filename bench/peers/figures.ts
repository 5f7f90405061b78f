// Start, memory and lists of one program: `node figures.ts NAME ROUNDS ROWS DIR VENVS`, in a network and a process table of its own.
// `run.ts` starts it; the last line that it prints is the figures.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { loadavg } from "node:os";
import { pause } from "../lib/measure.ts";
import { NAMES, type Name } from "./contestant.ts";
import { makeContestant } from "./leaks.ts";
import { killMarked, marked, memoryOf, processorOf } from "./processes.ts";

/** Each list of each round: values in milliseconds. */
export interface ListFigures {
  rows: number;
  commandMs: number[];
  commandCpuMs: number[];
  apiMs: number[];
}

export interface Figures {
  name: Name;
  /** The server, from the command to its first answer, on a home that exists. */
  startMs: number[];
  /** Processor time of its processes at that moment. */
  startCpuMs: number[];
  memoryMb: number[];
  processes: number;
  lists: ListFigures[];
  load: [number, number];
}

/** Time from its start until the memory is read. */
const IDLE_MS = 15_000;
const ASKS = 2;

async function measure(name: Name, rounds: number, lists: number[], dir: string, venvs: string): Promise<Figures> {
  mkdirSync(dir, { recursive: true });
  const program = makeContestant(name, { dir, simUrl: null, apiKey: "peers-key-0123456789abcdef", venvs });
  const before = loadavg()[0] ?? 0;
  const say = (line: string): void => console.log(`${name}: ${line}`);
  // The first start makes the home, and is not counted.
  await program.start();
  const figures: Figures = {
    name,
    startMs: [],
    startCpuMs: [],
    memoryMb: [],
    processes: 0,
    lists: [],
    load: [before, before],
  };
  await pause(5_000);
  await killMarked();
  for (let round = 0; round < rounds; round++) {
    figures.startMs.push(await program.start());
    figures.startCpuMs.push(processorOf(marked()));
    await pause(IDLE_MS);
    const pids = marked();
    figures.processes = pids.length;
    figures.memoryMb.push(memoryOf(pids) / 1e6);
    say(`start ${figures.startMs.at(-1)?.toFixed(0)} ms, ${figures.memoryMb.at(-1)?.toFixed(0)} MB`);
    await killMarked();
  }
  for (const rows of lists) {
    if (rows > 0) await program.fill(rows);
    await program.start();
    await program.quiet();
    const list: ListFigures = { rows, commandMs: [], commandCpuMs: [], apiMs: [] };
    // The first list of a server loads what the others find.
    await program.listByCommand();
    await program.listByApi();
    for (let round = 0; round < rounds; round++) {
      const { ms, cpuMs } = await program.listByCommand();
      list.commandMs.push(ms);
      list.commandCpuMs.push(cpuMs);
      for (let ask = 0; ask < ASKS; ask++) list.apiMs.push(await program.listByApi());
    }
    say(`${rows} rows: ${list.commandMs.map((ms) => ms.toFixed(0)).join(" ")} ms by command`);
    figures.lists.push(list);
    await killMarked();
  }
  figures.load = [before, loadavg()[0] ?? 0];
  return figures;
}

if (process.argv[1] === import.meta.filename) {
  const [, , name, rounds, rows, dir, venvs] = process.argv;
  const known = NAMES.find((each) => each === name);
  if (!known || !rounds || !rows || !dir || !venvs) throw new Error("usage: figures.ts NAME ROUNDS ROWS DIR VENVS");
  const figures = await measure(known, Number(rounds), rows.split(",").map(Number), join(dir, "home"), venvs);
  console.log(`figures: ${JSON.stringify(figures)}`);
  process.exit(0);
}
