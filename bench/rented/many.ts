// Many machines on one control plane, each with its own sshd, agent, guard, runner and script, all on this computer;
// and the cost of a few runs without output.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, freemem, setPriority } from "node:os";
import { join } from "node:path";
import type { LoopDelay } from "../lib/loop-delay.ts";
import { pause, rowOf, type Row } from "../lib/measure.ts";
import { RentedWorld } from "../lib/rented-world.ts";

const MANY = Number(process.env["SVC_BENCH_MACHINES"] ?? 200);
/** Memory of one machine with all its processes. */
const BYTES_EACH = 60_000_000;
const RUNNING_WITHIN_MS = 8 * 60_000;
const STEADY_MS = 20_000;
const STEADY_ROUNDS = 3;
const QUIET = 10;
const SETTLE_MS = 20_000;
const MB = 1_000_000;

const TALKS = `import time
n = 0
while True:
    print("line", n, flush=True)
    n += 1
    time.sleep(1)
`;
const SILENT = "import time\nwhile True:\n    time.sleep(3600)\n";

async function worldWith(folder: string, script: string): Promise<RentedWorld> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "run.py"), script);
  return RentedWorld.start(folder, project, { isLoopMeasured: true });
}

const idsOf = (world: RentedWorld, to: string): Set<string | null> =>
  new Set(
    world.events
      .filter(
        (e) => (e.type === "job.transition" && e.data["to"] === to) || (to === "line" && e.type === "log.advanced"),
      )
      .map((e) => e.jobId),
  );

/**
 * In real use the machines and their provider are elsewhere. Here they share the processor, so this lowers the priority
 * of every process that this one starts from now on; the control plane started before. Priorities count within a
 * session, and each machine has its own sessions; between sessions the kernel shares evenly by default
 * (sched_autogroup), and changing that requires root. Returns a function that undoes it.
 */
function machinesGiveWay(): () => void {
  const session = "/proc/self/autogroup";
  setPriority(10);
  if (existsSync(session)) writeFileSync(session, "-20");
  return () => {
    setPriority(0);
    if (existsSync(session)) writeFileSync(session, "0");
  };
}

/**
 * Starts `count` runs; resolves with the milliseconds until each has sent a line, or until it is in `running` if it
 * prints none.
 */
async function startAll(world: RentedWorld, count: number, seen: "line" | "running"): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < count; i++) await world.submit({ entrypoint: "run.py", idle_timeout_minutes: 0 });
  const failed = (): boolean => idsOf(world, "terminating").size > 0;
  await world
    .until(() => failed() || idsOf(world, seen).size === count, RUNNING_WITHIN_MS, `${count} runs`)
    .catch((e) => {
      throw new Error(`${idsOf(world, seen).size} of ${count} runs came up`, { cause: e });
    });
  if (failed()) throw new Error(`a run failed when ${idsOf(world, seen).size} of ${count} were up`);
  return performance.now() - start;
}

interface Steady {
  cpu: number[];
  rss: number[];
  loop: LoopDelay[];
}

async function steady(world: RentedWorld): Promise<Steady> {
  const found: Steady = { cpu: [], rss: [], loop: [] };
  for (let round = 0; round < STEADY_ROUNDS; round++) {
    world.forgetLoop();
    found.cpu.push(await world.served.cpuDuring(() => pause(STEADY_MS)));
    found.rss.push(world.served.rss() / MB);
    found.loop.push(await world.loop());
  }
  return found;
}

export async function measureMany(folder: string): Promise<Row[]> {
  const count = Math.min(MANY, Math.floor(freemem() / BYTES_EACH));
  const world = await worldWith(folder, TALKS);
  const asBefore = machinesGiveWay();
  try {
    const upMs = await startAll(world, count, "line");
    const starting = await world.loop();
    await pause(SETTLE_MS);
    const { cpu, rss, loop } = await steady(world);
    const end = performance.now();
    await world.endAll(10 * 60_000);
    await world.until(() => idsOf(world, "terminal").size === count, 120_000, "every run is over");
    const overMs = performance.now() - end;
    const all = `${count} machines`;
    const cores = `(with all machines on ${availableParallelism()} cores)`;
    const told = (what: string, unit: string, values: number[], target = "(none)", met = (_: number) => true): Row =>
      rowOf({ what, unit, values, target, met });
    return [
      told(`${all}: POST /jobs until each has sent a line`, "s", [upMs / 1000], cores),
      told(`${all}, a line a second each: resident memory`, "MB", rss, "< 600 MB", (f) => f < 600),
      told(`${all}: processor of the control plane`, "%", cpu),
      told(
        `${all}: event loop late by, p50`,
        "ms",
        loop.map((l) => l.p50),
        "< 20 ms",
        (f) => f < 20,
      ),
      told(
        `${all}: event loop late by, p99`,
        "ms",
        loop.map((l) => l.p99),
        "< 100 ms",
        (f) => f < 100,
      ),
      told(`${all}: event loop late by, p99 while they start`, "ms", [starting.p99], "< 100 ms", (f) => f < 100),
      told(`${all}: POST /jobs/kill until all are proven gone`, "s", [overMs / 1000], cores),
    ];
  } finally {
    asBefore();
    await world.close();
  }
}

export async function measureQuiet(folder: string): Promise<Row[]> {
  const world = await worldWith(folder, SILENT);
  try {
    await startAll(world, QUIET, "running");
    await pause(SETTLE_MS);
    const { cpu, rss } = await steady(world);
    await world.endAll();
    return [
      rowOf({
        what: `${QUIET} quiet runs on machines: processor, over 20 s`,
        unit: "%",
        values: cpu,
        target: "< 2 %",
        met: (f) => f < 2,
      }),
      rowOf({
        what: `${QUIET} quiet runs: resident memory`,
        unit: "MB",
        values: rss,
        target: "(none)",
        met: () => true,
      }),
    ];
  } finally {
    await world.close();
  }
}
