// Ending a run with processes of every kind of behaviour: none may be left afterwards.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { changedRunner, ended, finish, never, newRun, processesWith, python, runnerPath, startRun, until, type TestRun } from "./harness.ts";

const py = (code: string): string[] => [python, "-u", "-c", code];

/** Leaves a daemon (own session, double fork, its parent gone) that ignores TERM and HUP; prints its pid. */
const DAEMON = `
import os, signal, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.write(w, str(os.getpid()).encode())
        while True: time.sleep(100)
    os._exit(0)
os.wait()
print("daemon", os.read(r, 20).decode(), flush=True)
`;

async function leavesNothing(run: TestRun): Promise<void> {
  const left = processesWith(`SVC_RUN_NONCE=${run.spec.nonce}`);
  expect(left.map((pid) => readFileSync(`/proc/${pid}/cmdline`, "latin1"))).toEqual([]);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  process.kill(pid, signal);
}

async function runnerPid(run: TestRun): Promise<number> {
  const status = await run.host.status(never);
  if (!status) throw new Error("not started");
  return status.runner_pid;
}

describe("svc.should_stop()", () => {
  const package_ = join(import.meta.dirname, "../../python");
  const LOOP = `
import os, sys, time
sys.path.insert(0, ${JSON.stringify(package_)})
import svc
print("up", svc.should_stop(), flush=True)
while not svc.should_stop():
    time.sleep(0.02)
print("saved", flush=True)
`;

  it("is true once the run is asked to end, and the script ends itself within the grace", async () => {
    const run = await startRun(py(LOOP), { stop_grace_seconds: 20 });
    await until(run, "up False");
    await run.host.stop(20, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 0, stopped: true });
    expect(log.toString()).toBe("up False\nsaved\n");
    await leavesNothing(run);
  });

  it("is true in a process that ignores TERM, and false again in the next run of the folder", async () => {
    const deaf = LOOP.replace("import svc\n", "import signal, svc\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n");
    const run = await startRun(py(deaf), { stop_grace_seconds: 20 });
    await until(run, "up False");
    kill(await runnerPid(run), "SIGTERM");
    expect((await finish(run)).status).toMatchObject({ exit_code: 0, stopped: true });
    expect(existsSync(join(run.runDir, "stopping"))).toBe(true);
    await run.host.start({ ...run.spec, nonce: `${run.spec.nonce}a`, argv: py("print('next')") }, {}, never);
    await ended(run);
    expect(existsSync(join(run.runDir, "stopping"))).toBe(false);
  });

  it("is false outside a run", () => {
    const code = `import sys; sys.path.insert(0, ${JSON.stringify(package_)}); import svc; print(svc.should_stop())`;
    const { SVC_RUN_DIR: _, ...env } = process.env;
    expect(spawnSync(python, ["-c", code], { encoding: "utf8", env }).stdout).toBe("False\n");
  });
});

describe("stop", () => {
  it("lets a script that handles TERM end in its own way", async () => {
    const run = await startRun("trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.05; done", { stop_grace_seconds: 20 });
    await until(run, "up");
    await run.host.stop(20, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 5, signal: null, stopped: true });
    expect(log.toString()).toMatch(/^up\n(Terminated\n)?saved\n$/); // some shells name the signal that ended their sleep
    await leavesNothing(run);
  });

  it("kills a process that ignores TERM after the grace, and not before", async () => {
    const run = await startRun(py("import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\nwhile True: time.sleep(100)"));
    await until(run, "up");
    const begin = Date.now();
    await run.host.stop(0.7, never);
    expect(Date.now() - begin).toBeGreaterThanOrEqual(690);
    expect(await ended(run)).toMatchObject({ exit_code: 137, signal: "SIGKILL", stopped: true, oom: false });
    await leavesNothing(run);
  });

  it("ends a script that stopped itself, a tree that forks without end, and daemons in their own sessions", async () => {
    const stopped = await startRun("echo up; kill -STOP $$");
    // Only the first process forks on: a tree whose every member did would overload this computer before a busy one
    // came to end it.
    const forks = await startRun(py("import os, time\nprint('up')\nwhile True:\n  pid = os.fork()\n  if pid == 0:\n    if os.fork() == 0: os.setsid(); time.sleep(0.5)\n    os._exit(0)\n  os.waitpid(pid, 0)\n  time.sleep(0.02)"));
    const daemons = await startRun(py(`${DAEMON}\nprint('up')\ntime.sleep(100)`));
    for (const run of [stopped, forks, daemons]) {
      await until(run, "up");
      await run.host.stop(0.2, never);
      expect(await ended(run)).toMatchObject({ phase: "exited", stopped: true });
      await leavesNothing(run);
    }
  });

  it("reaches a script whose first thread has ended, and kills one that does not listen", async () => {
    const threads = (act: string) => `
import ctypes, os, signal, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
def work():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
    print("up", flush=True)
    ${act}
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
`;
    const saves = await startRun(py(threads(`signal.sigwait([signal.SIGTERM]); print("saved", flush=True); os._exit(3)`)));
    await until(saves, "up");
    await saves.host.stop(20, never);
    expect(await finish(saves)).toMatchObject({ status: { phase: "exited", exit_code: 3, left: [] }, log: Buffer.from("up\nsaved\n") });
    const deaf = await startRun(py(threads("time.sleep(1000)")));
    await until(deaf, "up");
    await deaf.host.stop(0.1, never);
    expect((await finish(deaf)).status).toMatchObject({ phase: "exited", signal: "SIGKILL", left: [] });
  });

  it("may be repeated, and a later order may shorten the grace", async () => {
    const run = await startRun(py("import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\nwhile True: time.sleep(100)"));
    await until(run, "up");
    const patient = run.host.stop(300, never);
    await run.host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 200 }, never);
    await Promise.all([run.host.stop(0.1, never), patient]);
    await run.host.stop(0, never);
    expect(await ended(run)).toMatchObject({ phase: "exited", stopped: true, signal: "SIGKILL" });
  });

  it("treats TERM to the runner itself as an order to stop", async () => {
    const run = await startRun("echo up; sleep 100");
    await until(run, "up");
    kill(await runnerPid(run), "SIGTERM");
    expect(await ended(run)).toMatchObject({ phase: "exited", exit_code: 143, signal: "SIGTERM", stopped: true });
    await leavesNothing(run);
  });

  it("works on a runner that was itself stopped", async () => {
    const run = await startRun("echo up; sleep 100");
    await until(run, "up");
    kill(await runnerPid(run), "SIGSTOP");
    await run.host.stop(0.2, never);
    expect(await ended(run)).toMatchObject({ phase: "exited", stopped: true });
    await leavesNothing(run);
  });

  it("at the same moment as a start either stops the run or prevents it: no process remains, and the nonce is used", async () => {
    for (let i = 0; i < 20; i++) {
      const run = newRun("setsid sleep 1000 & sleep 1000");
      const starting = run.host.start(run.spec, {}, never);
      while (!existsSync(join(run.runDir, "spec.json"))) await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setTimeout(resolve, i * 1.5));
      await run.host.stop(0.1, never);
      await starting;
      await leavesNothing(run);
      expect(await run.host.status(never)).toMatchObject({ stopped: true });
      expect(await run.host.start(run.spec, {}, never)).toMatchObject({ stopped: true });
      await leavesNothing(run);
    }
  });

  it("keeps its grace period if the order arrives during the start of the run", async () => {
    const run = newRun("trap '' TERM; sleep 1000", { stop_grace_seconds: 300 });
    const order = JSON.stringify({ nonce: run.spec.nonce, grace: 0.1 });
    const starting = changedRunner(
      run,
      `
read = m.read_json
def read_and_order(path):
    found = read(path)
    if path == "stop" and not os.path.exists(path):
        m.write_file("stop", ${JSON.stringify(order)}.encode(), False)
    return found
m.read_json = read_and_order
`,
    );
    await starting.start(run.spec, {}, never);
    await run.host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 5_000 }, never);
    expect(await run.host.status(never)).toMatchObject({ phase: "exited", stopped: true });
  });

  it("succeeds if nothing was ever started", async () => {
    const run = newRun("true");
    await run.host.stop(0, never);
    expect(await run.host.status(never)).toBe(null);
  });
});

describe("the end of the script", () => {
  it("ends leftover processes, keeps their last output, and does not count as stopped", async () => {
    const run = await startRun("(trap 'echo last words; exit' TERM; echo up; while :; do sleep 0.05; done) & sleep 0.3; exit 3", {
      stop_grace_seconds: 20,
    });
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 3, stopped: false });
    expect(log.toString()).toContain("last words");
    await leavesNothing(run);
  });

  it("leaves no daemon, even one that ignores TERM and has its own session", async () => {
    const run = await startRun(py(DAEMON), { stop_grace_seconds: 0.2 });
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 0 });
    expect(existsSync(`/proc/${/daemon (\d+)/.exec(log.toString())?.[1]}`)).toBe(false);
    await leavesNothing(run);
  });
});

describe("a runner that was killed", () => {
  it("ends its script with it, is reported as lost, and a sweep ends the daemons that it left", async () => {
    const run = await startRun(py(`${DAEMON}\nprint('up')\ntime.sleep(100)`));
    const log = await until(run, "up");
    const daemon = Number(/daemon (\d+)/.exec(log)?.[1]);
    const { pid } = (await run.host.status(never)) ?? {};
    kill(await runnerPid(run), "SIGKILL");
    expect(await ended(run)).toMatchObject({ phase: "failed", exit_code: null, error: expect.stringContaining("was killed") as string });
    // The kernel kills it shortly after the runner ends.
    await expect.poll(() => processesWith(`SVC_RUN_NONCE=${run.spec.nonce}`)).not.toContain(pid);
    expect(processesWith(`SVC_RUN_NONCE=${run.spec.nonce}`)).toContain(daemon);
    await run.host.stop(0.1, never);
    await leavesNothing(run);
    const stored = JSON.parse(readFileSync(join(run.runDir, "status.json"), "utf8")) as unknown;
    expect(stored).toMatchObject({ phase: "failed", log_bytes: log.length });
    expect(await run.host.start(run.spec, {}, never)).toMatchObject({ phase: "failed" });
    await leavesNothing(run);
  });

  it("is swept also of processes that wiped their environment, as far as a sample saw them", async () => {
    const run = await startRun("setsid env -i sleep 1000 & echo up; wait", { sample_seconds: 0.1 });
    await until(run, "up");
    const members = join(run.runDir, "members.json");
    let pids: [number, number][] = [];
    while (!pids.some(([pid]) => readCommand(pid).startsWith("sleep"))) {
      await run.host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 50 }, never);
      if (existsSync(members)) pids = (JSON.parse(readFileSync(members, "utf8")) as { processes: [number, number][] }).processes;
    }
    kill(await runnerPid(run), "SIGKILL");
    await run.host.stop(0, never);
    expect(pids.filter(([pid]) => readCommand(pid).startsWith("sleep"))).toEqual([]);
  });

  it("never harms a process that reused an old one's number", async () => {
    const run = await startRun("sleep 100");
    const status = await run.host.status(never);
    kill(await runnerPid(run), "SIGKILL");
    await ended(run);
    const innocent = await startRun("echo up; sleep 100");
    await until(innocent, "up");
    const other = (await innocent.host.status(never)) ?? { runner_pid: 0, pid: 0 };
    // Simulates that both pids were reused, by processes that started at another time.
    writeFileSync(join(run.runDir, "status.json"), JSON.stringify({ ...status, runner_pid: other.runner_pid, pid: other.pid }));
    writeFileSync(
      join(run.runDir, "members.json"),
      JSON.stringify({ nonce: run.spec.nonce, boot_id: status?.boot_id, processes: [[other.pid, 1], [other.runner_pid, 1]] }),
    );
    expect(await run.host.status(never)).toMatchObject({ phase: "failed" });
    await run.host.stop(0, never);
    expect(await innocent.host.status(never)).toMatchObject({ phase: "running" });
    expect(readCommand(other.pid ?? 0)).toContain("sleep 100");
    await innocent.host.stop(0, never);
  });

  it("leaves a process alone that reused a number after it was looked at, or after the runner recorded it", async () => {
    const run = newRun("echo never");
    mkdirSync(run.runDir, { recursive: true });
    const innocent = spawn("cat", { stdio: ["pipe", "pipe", "ignore"] });
    await once(innocent, "spawn");
    const code = `
import fcntl, importlib.util, json, os, signal, sys
spec = importlib.util.spec_from_file_location("m", ${JSON.stringify(runnerPath)})
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
os.chdir(sys.argv[1])
p = m.process(${innocent.pid})
p.start += 1
m.send(p, signal.SIGKILL)
for name, value in (("spec.json", {"nonce": "n"}), ("status.json", {"nonce": "n", "phase": "running", "boot_id": m.boot_id(), "runner_pid": p.pid, "runner_start": p.start})):
    with open(name, "w") as file:
        json.dump(value, file)
held = m.Lock()
assert held.take()
looks = 0
def sleep(seconds):
    global looks
    looks += 1
    if looks == 3:
        os.close(held.fd)
m.time.sleep = sleep
m.command_stop(0.0)
`;
    const { status, stderr } = spawnSync(python, ["-c", code, run.runDir], { encoding: "utf8" });
    expect([status, stderr]).toEqual([0, ""]);
    // A signal would come before these bytes.
    innocent.stdin.write("alive");
    const [answer] = (await Promise.race([once(innocent.stdout, "data"), once(innocent, "exit")])) as unknown[];
    expect(String(answer)).toBe("alive");
    innocent.stdin.end();
  });

  it("is distinguished from a restart of the machine", async () => {
    const run = await startRun("sleep 100");
    const status = await run.host.status(never);
    await run.host.stop(0, never);
    writeFileSync(join(run.runDir, "status.json"), JSON.stringify({ ...status, boot_id: "another-boot" }));
    expect(await run.host.status(never)).toMatchObject({ phase: "failed", error: expect.stringContaining("restarted") as string });
    await run.host.stop(0, never);
    const stored = JSON.parse(readFileSync(join(run.runDir, "status.json"), "utf8")) as unknown;
    expect(stored).toMatchObject({ phase: "failed", error: expect.stringContaining("restarted") as string });
  });
});

describe("a system without /proc and subreaper", () => {
  const call = (run: TestRun, ...args: string[]) =>
    spawnSync(python, ["-I", "-S", runnerPath, ...args], { env: { ...process.env, SVC_RUNNER_PORTABLE: "1" }, encoding: "utf8", cwd: run.runDir });

  it("still runs, reports the exit code, and ends the process group", async () => {
    const run = newRun("sleep 100 & echo out; exit 4", { stop_grace_seconds: 0.2 });
    spawnSync("mkdir", ["-p", run.runDir]);
    writeFileSync(join(run.runDir, "spec.json"), JSON.stringify(run.spec));
    expect(call(run, "start", run.runDir)).toMatchObject({ status: 0, stderr: "" });
    let status: { phase: string } = { phase: "running" };
    while (status.phase === "running") status = JSON.parse(call(run, "status", run.runDir).stdout) as { phase: string };
    expect(status).toMatchObject({ phase: "exited", exit_code: 4, runner_start: 0, boot_id: "", log_bytes: 4 });
    await leavesNothing(run);
  });
});

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
