// Runs without a job: a control plane ends those that it finds at its start. It leaves those of another home alone.

import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { never, newRun } from "../runner/harness.ts";
import { Place, processesWith, until, type Served } from "./harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("it is ended or killed, or its home is prepared");
});
afterEach(() => place.close());

it("svc ends an orphan at the next start, and touches no run of another home", async () => {
  const before = await place.serve();
  before.signal("SIGTERM");
  await before.exited;
  const orphan = newRun("echo up; sleep 600 & sleep 600", {}, place.home);
  await orphan.host.start(orphan.spec, {}, never);
  const foreign = newRun("sleep 600", {}, join(place.root, "other-home"));
  await foreign.host.start({ ...foreign.spec, cwd: place.root }, {}, never);
  expect(place.processes().length).toBeGreaterThan(1);
  const served = await place.serve();
  await until(() => place.processes().length === 0, "the orphan is gone");
  expect((await foreign.host.status(never))?.phase).toBe("running");
  await foreign.host.stop(0, never);
  await until(
    async () => (await served.get<{ machines: unknown[] }>("/v1/machines")).machines.length === 0,
    "nothing is owed",
  );
});

it("a run folder that cannot be removed is reported, and delays neither the job nor the next start", async () => {
  place.file(
    "wait.py",
    'import os, sys, time\nprint("up", flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n',
  );
  const go = join(place.root, "go");
  const served = await place.serve();
  const id = await served.submit({ entrypoint: "wait.py", args: [go] });
  await until(async () => (await served.text(`/jobs/${id}/logs`)) === "up\n", "it is up");
  const stuck = join(place.home, "runs", id, "node0", "stuck");
  mkdirSync(stuck);
  const mounted =
    process.getuid?.() === 0 && spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", stuck]).status === 0;
  if (!mounted) {
    writeFileSync(join(stuck, "file"), "");
    chmodSync(stuck, 0o000); // root could remove the folder anyway: then the test only shows that nothing breaks
  }
  try {
    writeFileSync(go, "");
    expect((await served.ended(id)).status).toBe("succeeded");
    if (mounted) await until(() => served.err.includes("could not be removed"), "it is told");
    await served.kill();
    const next = await place.serve();
    expect((await next.job(id)).status).toBe("succeeded");
    if (mounted) expect(next.err).toContain("could not be removed");
    await next.kill();
  } finally {
    if (mounted) spawnSync("umount", [stuck]);
    else if (existsSync(stuck)) chmodSync(stuck, 0o700);
  }
  await place.serve();
  expect(existsSync(join(place.home, "runs", id))).toBe(false);
});

it("a reconcile leaves active runs alone: an install, a run, also in a home behind a symlink", async () => {
  mkdirSync(join(place.root, "real-home"), { mode: 0o700 });
  symlinkSync(join(place.root, "real-home"), place.home);
  const gate = (name: string): string => join(place.root, `leave-${name}`);
  const env = { INSTALLING: gate("installing"), RUNNING: gate("running") };
  place.file(
    "hello.py",
    'import os, time\nwhile not os.path.exists(os.environ["RUNNING"]): time.sleep(0.02)\nprint("hello")\n',
  );
  const served = await place.serve();
  const install = `echo begin; while [ ! -e ${gate("installing")} ]; do sleep 0.05; done; echo end`;
  const id = await served.submit({ entrypoint: "hello.py", install, env });
  const seen: string[] = [];
  for (;;) {
    const { status } = await served.job(id);
    if (!["provisioning", "awaiting_ssh", "syncing", "installing", "running"].includes(status)) break;
    seen.push(status);
    const { body } = await served.post("/v1/reconcile", { dry_run: false });
    expect([body["terminated"], body["failed"]], status).toEqual([[], []]);
    // Each of the two scripts continues after ten polls.
    if (seen.filter((one) => one === status).length === 10) writeFileSync(gate(status), "");
    await new Promise((r) => setTimeout(r, 25));
  }
  expect(seen).toEqual(expect.arrayContaining(["installing", "running"]));
  expect((await served.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe("begin\nend\nhello\n");
});

it.each([
  ["and ends by itself", "sleep 0.5; echo bye"],
  ["and writes on without end", "while :; do echo on and on; done"],
])("a run whose directory is removed %s leaves no process behind", async (_, script) => {
  const run = newRun(script, { spool_cap_bytes: 1 << 20 }, place.root);
  await run.host.start(run.spec, {}, never);
  expect(processesWith(`SVC_RUN_DIR=${run.runDir}`).length).toBeGreaterThan(0);
  await until(() => {
    try {
      rmSync(run.runDir, { recursive: true, force: true });
    } catch (e) {
      // The run created a file in a folder after the folder was emptied and before it was removed.
      if ((e as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw e;
    }
    return processesWith(`SVC_RUN_DIR=${run.runDir}`).length === 0;
  }, "nothing of the run is left");
});

describe("a control plane that runs on", () => {
  const shared = new Place();
  let served: Served;
  beforeAll(async () => {
    served = await shared.serve();
  });
  afterAll(() => shared.close());

  it("svc ends the whole tree of a killed run: children, daemons, processes that ignore TERM", async () => {
    shared.file(
      "tree.sh",
      `(trap '' TERM; while :; do sleep 1; done) &
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo up
wait
`,
    );
    const id = await served.submit({ entrypoint: "tree.sh" });
    await until(async () => (await served.text(`/jobs/${id}/logs`)) === "up\n", "it is up");
    await until(() => shared.scripts(id).length > 3, "both loops run");
    expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(202);
    expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(202);
    const job = await served.ended(id);
    expect([job.status, job.machines[0]?.state]).toEqual(["cancelled", "released"]);
    expect(shared.processes(id)).toEqual([]);
    expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(200);
  });

  it("a runner that is killed behind the control plane's back: the run fails, and its processes are ended", async () => {
    shared.file("wait.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
    const id = await served.submit({ entrypoint: "wait.py" });
    await until(async () => (await served.text(`/jobs/${id}/logs`)) === "up\n", "it is up");
    const scripts = new Set(shared.scripts(id));
    for (const pid of shared.processes(id)) if (!scripts.has(pid)) process.kill(pid, "SIGKILL");
    const job = await served.ended(id);
    expect([job.status, job.error?.code, job.exit_code]).toEqual(["failed", "run_lost", null]);
    expect(shared.processes(id)).toEqual([]);
    expect(shared.log(id).toString()).toBe("up\n");
  });
});
