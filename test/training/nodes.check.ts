// Two nodes of two ranks on simulated machines: installed, started, failing, lost.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeFleet } from "../sim/machines/fleet.ts";
import { mayMakeNamespaces } from "../sim/machines/namespaces.ts";
import { realClock } from "../sim/providers/clock.ts";
import { makeFaults } from "../sim/providers/faults.ts";
import { makeLedger } from "../sim/providers/ledger.ts";
import type { Fleet, SimLedger } from "../sim/providers/parts.ts";
import { PodhostSim } from "../sim/providers/podhost.ts";
import { bindsOf, Plane, RANKS, TORCH_PYTHON } from "./plane.ts";

const RAY = TORCH_PYTHON !== undefined && spawnSync(TORCH_PYTHON, ["-c", "import ray"]).status === 0;
const able = TORCH_PYTHON !== undefined && (await mayMakeNamespaces());
let dir: string;
let fleet: Fleet;
let ledger: SimLedger;
let sim: PodhostSim;
let plane: Plane;

beforeAll(async () => {
  if (!able) return;
  dir = mkdtempSync(join(tmpdir(), "svc-nodes-"));
  const base = execFileSync(TORCH_PYTHON!, ["-c", "import sys; print(sys._base_executable)"], { encoding: "utf8" });
  fleet = await makeFleet({ dir: join(dir, "fleet"), binds: bindsOf(TORCH_PYTHON!, base.trim()) });
  ledger = makeLedger();
  sim = await PodhostSim.start({ fleet, ledger, faults: makeFaults(), clock: realClock(), apiKey: "podhost-key-1" });
  const home = join(dir, "home");
  mkdirSync(home, { mode: 0o700 });
  // Nodes reach each other through the network between pods, which this API can request.
  const settings = { providers: { podhost: { network: "global", api: "rest" } } };
  writeFileSync(join(home, "credentials.json"), JSON.stringify(settings), { mode: 0o600 });
  plane = await Plane.open(home, sim.settings().env);
});
afterAll(async () => {
  if (!able) return;
  await plane.cp.close();
  await sim.close();
  await fleet.close();
  rmSync(dir, { recursive: true, force: true });
});

/** A project that requires a package of the image: the image's torch stays. */
function project(script: string): string {
  const folder = mkdtempSync(join(dir, "project-"));
  writeFileSync(join(folder, "requirements.txt"), "torch\n");
  execFileSync("cp", [script, join(folder, "train.py")]);
  return folder;
}
const spec = (mode: string) => ({
  provider: "podhost" as const,
  gpus: "RTX4090:2",
  nodes: 2,
  entrypoint: "train.py",
  project_dir: project(join(RANKS, "train.py")),
  args: [mode],
});

describe.skipIf(!able)("two nodes of two ranks", () => {
  it("train together over their own network, in an environment that sees the image's torch", async () => {
    const { job, log } = await plane.run(spec("ok"));
    expect([job.status, job.exit_code, job.error]).toEqual(["succeeded", 0, null]);
    for (let rank = 0; rank < 4; rank++) expect(log).toContain(`[node${rank >> 1}] rank ${rank} of 4: 6; pid`);
    expect(log).toMatch(
      /^\[node1\] svc: installing from requirements\.txt for \/opt\/venv\/bin\/python, torch [0-9.]+/m,
    );
    expect(log).toMatch(/^\[node1\] svc: node 1 of 2, \S+ on eth0; rank 0 is at \S+, which answers$/m);
  });

  it.each([
    ["exit", 7, "The script on rank 3 (local rank 1 of node 1) ended with exit code 7."],
    [
      "raise",
      1,
      "The script on rank 3 (local rank 1 of node 1) ended with exit code 1: RuntimeError: this rank went wrong.",
    ],
    ["killed", 137, "The script on rank 3 (local rank 1 of node 1) was ended by SIGKILL (exit code 137)."],
  ])(
    "when the last one ends by %s, the cause is told and not its echo on the other node",
    async (mode, code, words) => {
      const { job } = await plane.run(spec(mode));
      expect([job.status, job.exit_code, job.error?.message]).toEqual(["failed", code, words]);
      expect(ledger.alive()).toEqual([]);
    },
  );

  it("end together when one of them vanishes", async () => {
    const id = await plane.start(spec("wait"));
    await plane.until(() => (plane.log(id).match(/\] rank /g)?.length ?? 0) === 4);
    const lost = ledger.alive().find((line) => line.name.includes("-n1-"));
    await sim.pods.end(sim.pods.all.get(lost!.id), "vanished");
    const { job } = await plane.end(id);
    expect([job.status, job.error?.code]).toEqual(["failed", "machine_lost"]);
    expect(job.error?.message).toContain(`${lost!.name} (node 1) no longer exists`);
    expect(ledger.alive()).toEqual([]);
  });
});

describe.skipIf(!able || !RAY)("Ray on two nodes", () => {
  const overRay = (mode: string) => ({
    provider: "podhost" as const,
    gpus: "RTX4090:1",
    nodes: 2,
    launcher: "ray" as const,
    entrypoint: "train.py",
    project_dir: project(join(RANKS, "over_ray.py")),
    args: [mode],
  });

  it("has a worker on each of them; their records arrive, and no process is left", async () => {
    const { job, log } = await plane.run(overRay("ok"));
    expect([job.status, job.exit_code, job.error], log).toEqual(["succeeded", 0, null]);
    expect(log).toContain("[node0] svc: Ray: 2 of 2 nodes are alive");
    // Ray writes its prefix and a line's end separately, so lines of several processes may mix.
    expect(log).toContain("nodes: 2");
    expect(log).toContain("dedup 0, mode token");
    const values = plane.cp.reads.metrics(job.id, {}).series["worker"]?.map((point) => point.value);
    expect(values?.toSorted()).toEqual([0, 1]);
    expect(ledger.alive()).toEqual([]);
  });

  it("ends with the script's own code, and as a whole when a node is lost", async () => {
    const { job, log } = await plane.run(overRay("exit"));
    expect([job.status, job.exit_code, job.error?.message], log).toEqual([
      "failed",
      5,
      "The script on node 0 ended with exit code 5.",
    ]);
    const id = await plane.start(overRay("wait"));
    await plane.until(() => plane.log(id).includes("nodes: 2"));
    const lost = ledger.alive().find((line) => line.name.includes("-n1-"));
    await sim.pods.end(sim.pods.all.get(lost!.id), "vanished");
    const ended = await plane.end(id);
    expect(ended.job.status).toBe("failed");
    expect(ledger.alive()).toEqual([]);
  });
});

describe.skipIf(!able)("a run on a machine", () => {
  it("resumes from a checkpoint of another one, which is not downloaded as its own", async () => {
    const folder = mkdtempSync(join(dir, "project-"));
    const script = `import os, svc
path = svc.latest_checkpoint()
print("from", path == os.environ.get("SVC_RESUME_FROM"), open(path).read() if path else None)
if path is None:
    with svc.atomic_save("state.txt", mode="w") as file:
        file.write("one")
`;
    writeFileSync(join(folder, "train.py"), script);
    const one = { provider: "podhost" as const, gpus: "RTX4090:1", entrypoint: "train.py", project_dir: folder };
    const first = await plane.run(one);
    expect(plane.cp.reads.checkpoints(first.job.id).map((f) => f.path)).toEqual(["state.txt"]);
    const second = await plane.run({ ...one, resume_from: first.job.id });
    expect(second.log).toContain("from True one");
    expect(plane.cp.reads.checkpoints(second.job.id)).toEqual([]);
  });

  it("resumes after a preemption from its last complete checkpoint, never from a torn one", async () => {
    const folder = mkdtempSync(join(dir, "project-"));
    const script = `import os, svc, time
path = svc.latest_checkpoint()
print("from", path and open(path).read())
if path is None:
    for n in range(3):
        with svc.atomic_save("state.txt", step=n, mode="w") as file:
            file.write("step %d" % n)
    with open(os.path.join(svc.checkpoint_dir(), "later.pt"), "wb") as file:
        file.write(b"PK torn")
        file.flush()
        print("saved", flush=True)
        time.sleep(600)
`;
    writeFileSync(join(folder, "train.py"), script);
    const spec = { provider: "podhost" as const, gpus: "RTX4090:1", entrypoint: "train.py", project_dir: folder };
    const id = await plane.start(spec);
    const home = () => plane.cp.reads.checkpoints(id).map((file) => file.path);
    await plane.until(() => plane.log(id).includes("saved") && home().includes("state.txt"));
    await sim.pods.end(sim.pods.all.get(ledger.alive()[0]!.id), "vanished");
    const lost = await plane.end(id);
    expect([lost.job.status, lost.job.error?.code]).toEqual(["failed", "machine_lost"]);
    const second = await plane.run({ ...spec, resume_from: id });
    expect(second.job.status, second.log).toBe("succeeded");
    expect(second.log).toContain("from step 2");
  });
});
