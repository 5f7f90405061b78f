// The test of a rented machine while its files are sent: how long a healthy machine waits for it, and how long its program takes.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pythonProgram } from "../../src/platform/python-program.ts";
import { PROBE_NAMES } from "../../src/schemas/gate.ts";
import type { Timeline } from "../../src/schemas/job.ts";
import { rowOf, type Row } from "../lib/measure.ts";
import { RentedWorld } from "../lib/rented-world.ts";

const ROUNDS = 7;
const LOAD = "import sys; t = sys.stdin.buffer.read(); exec(compile(t, 'svc_gate', 'exec')); main(t)";

/** Milliseconds that the steps of one run waited for the gate, in all. */
async function waited(world: RentedWorld): Promise<number> {
  const from = world.events.length;
  const id = await world.submit({ entrypoint: "hello.py" });
  const launched = () =>
    world.events.slice(from).some((e) => e.jobId === id && e.type === "step.succeeded" && e.data["step"] === "launch");
  await world.until(launched, 60_000, "a run that is launched");
  const { steps } = JSON.parse((await world.served.get(`/jobs/${id}/timeline`)).body.toString()) as Timeline;
  await world.endAll();
  const gates = steps.flatMap(({ detail }) => (detail?.["gate"] as { waited_ms: number } | undefined) ?? []);
  if (gates.length !== 2) throw new Error(`the gate was looked at ${gates.length} times`);
  return gates.reduce((sum, { waited_ms }) => sum + waited_ms, 0);
}

/** From the start of the program to the answer of its last probe. */
async function took(text: Buffer, folder: string): Promise<number> {
  const probes = PROBE_NAMES.filter((name) => name !== "download");
  const ask = JSON.stringify({ seconds: 20, python: "python3", folder, probes });
  const startMs = performance.now();
  const child = spawn("python3", ["-I", "-S", "-B", "-c", LOAD, ask], { stdio: ["pipe", "ignore", "ignore"] });
  child.stdin.end(text);
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`the gate ended with ${code}`);
  return performance.now() - startMs;
}

export async function measureGate(folder: string): Promise<Row[]> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "hello.py"), "import time\ntime.sleep(60)\n");
  const { text } = pythonProgram(resolve(import.meta.dirname, "../../runner/svc_gate"));
  const world = await RentedWorld.start(folder, project);
  const [waits, whole]: [number[], number[]] = [[], []];
  try {
    await waited(world);
    for (let round = 0; round < ROUNDS; round++) {
      waits.push(await waited(world));
      whole.push(await took(text, join(folder, "tested")));
    }
  } finally {
    await world.close();
  }
  return [
    rowOf({
      what: "gate: a healthy machine waits after an upload of one small file",
      unit: "ms",
      values: waits,
      target: "<= 1,000 ms",
      met: (f) => f <= 1_000,
    }),
    rowOf({
      what: "gate: the whole program, without torch and download",
      unit: "ms",
      values: whole,
      target: "< 20,000 ms",
      met: (f) => f < 20_000,
    }),
  ];
}
