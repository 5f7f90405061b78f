// The time from the request to the first line of a run on a rented machine, minus the machine's own start: from the
// order until a poll of the provider reports it as ready.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause, rowOf, type Row } from "../lib/measure.ts";
import { firstByte, RentedWorld, type Seen } from "../lib/rented-world.ts";

const ROUNDS = 7;
const SCRIPT = 'import time\nprint("here", flush=True)\ntime.sleep(60)\n';

const PARTS = ["provision", "greet", "sync", "launch", "line"] as const;
type Parts = Record<(typeof PARTS)[number] | "boot" | "late", number>;

const WORDS: Record<(typeof PARTS)[number], string> = {
  provision: "POST /jobs to the machine ordered",
  greet: "machine ready to greeted and guarded",
  sync: "sync",
  launch: "install (none) and launch",
  line: "launched to the line in GET logs",
};

async function one(world: RentedWorld): Promise<{ parts: Parts; bareMs: number }> {
  const from = world.events.length;
  const startMs = performance.now();
  const id = await world.submit({ entrypoint: "hello.py" });
  const shown = portsShown(world);
  await world.until(() => find("step.succeeded", "launch") !== undefined, 60_000, "a run that is launched");
  for (;;) {
    const log = await world.served.get(`/jobs/${id}/logs`);
    if (log.status === 200 && log.body.includes("here")) break;
    if (performance.now() - startMs > 60_000) throw new Error("no line within 60 s");
    await pause(1);
  }
  const lineMs = performance.now();
  const machine = await world.machineOf(id);
  const script = `.svc-machine/${machine.name}/project/hello.py`;
  // The first login warms the machine's caches; svc has logged in already.
  const bareMs = await firstByte("ssh", [...(await world.ssh(machine)), `python3 -u ${script}`]);
  const at = (type: string, step: string): number => find(type, step)?.atMs ?? Number.NaN;
  const waitingMs = at("step.started", "await_ssh");
  const readyMs =
    world.events.slice(from).find((e) => e.jobId === id && e.type === "machine.changed" && e.atMs > waitingMs)?.atMs ??
    Number.NaN;
  await world.endAll();
  return {
    bareMs,
    parts: {
      provision: at("step.succeeded", "provision") - startMs,
      boot: readyMs - at("step.succeeded", "provision"),
      late: readyMs - (await shown),
      greet: at("step.succeeded", "await_ssh") - readyMs,
      sync: at("step.succeeded", "sync") - at("step.succeeded", "await_ssh"),
      launch: at("step.succeeded", "launch") - at("step.succeeded", "sync"),
      line: lineMs - at("step.succeeded", "launch"),
    },
  };

  function find(type: string, step: string): Seen | undefined {
    return world.events.slice(from).find((e) => e.jobId === id && e.type === type && e.data["step"] === step);
  }
}

/** The time when the provider first reports the machine's ports. */
async function portsShown(world: RentedWorld): Promise<number> {
  for (;;) {
    if ([...world.sim.pods.all.values()].some((pod) => pod.portsShown && pod.exitedAtMs === null))
      return performance.now();
    await pause(2);
  }
}

export async function measureFirstLine(folder: string): Promise<Row[]> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "hello.py"), SCRIPT);
  const world = await RentedWorld.start(folder, project);
  const rounds: { parts: Parts; bareMs: number }[] = [];
  try {
    // The first run creates the key and fills the compile cache for all others.
    await one(world);
    for (let round = 0; round < ROUNDS; round++) rounds.push(await one(world));
  } finally {
    await world.close();
  }
  const bare = rounds.map(({ bareMs }) => bareMs);
  const whole = rounds.map(({ parts }) => PARTS.reduce((sum, part) => sum + parts[part], 0));
  const told = (what: string, values: number[]): Row =>
    rowOf({ what, unit: "ms", values, target: "(part of the above)", met: () => true });
  return [
    rowOf({
      what: "rented: POST /jobs to the first line, less the boot",
      unit: "ms",
      values: whole,
      baseline: bare,
      target: "< 1,000 ms",
      met: (f) => f < 1_000,
    }),
    ...PARTS.map((part) =>
      told(
        `of which: ${WORDS[part]}`,
        rounds.map(({ parts }) => parts[part]),
      ),
    ),
    rowOf({
      what: "beside it: ready at the provider to seen by us",
      unit: "ms",
      values: rounds.map(({ parts }) => parts.late),
      target: "(the provider's list is asked every 2 s)",
      met: () => true,
    }),
  ];
}
