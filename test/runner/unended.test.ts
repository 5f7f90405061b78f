// Processes that KILL does not end: those of another user, in the kernel (state D), or held by a tracer.

import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { LocalHost } from "../../src/providers/local/local-host.ts";
import { listLocalRuns, terminateLocal } from "../../src/providers/local/local-runs.ts";
import type { RunnerSpec } from "../../src/schemas/runner.ts";
import { FREEZER } from "../needs.ts";
import { changedRunner, finish, never, newRun, processesWith, python, runnerPath, until, type TestRun } from "./harness.ts";

const home = mkdtempSync(join(tmpdir(), "svc-unended-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** What a test leaves behind. */
let cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const act of cleanUp.toReversed()) act();
  cleanUp = [];
});

const SHORT = "m.UNENDED_SECONDS = 0.5\n";
/** The runner and its commands belong to user 1000, and the script, at first, to root. */
const AS_USER = `
m.UNENDED_SECONDS, m.REFUSED_SECONDS = 3600.0, 0.5
import encodings.idna, json, signal, sys, traceback
start_script = m.start_script
def give(folder):
    for path in [folder] + [os.path.join(folder, name) for name in os.listdir(folder)]:
        os.chown(path, 1000, 1000)
def drop():
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
def start_as_root(*args):
    started = start_script(*args)
    give(".")
    drop()
    return started
m.start_script = start_as_root
def main(argv):
    give(argv[2])
    if argv[1] != "start":
        drop()
    m.main(argv)
`;
const CHILD = `
import os, signal, sys, time
def child(act):
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(w, b"x")
        act()
        while True:
            time.sleep(100)
    os.read(r, 1)
    os.setresuid(1000, 1000, 1000)
`;

function madeRun(code: string, how: string, changes: Partial<RunnerSpec> = {}): TestRun & { host: LocalHost } {
  chmodSync(home, 0o755);
  const run = newRun([python, "-u", "-c", CHILD + code], { stop_grace_seconds: 0.2, ...changes }, home);
  mkdirSync(run.runDir, { recursive: true });
  cleanUp.push(() => {
    for (const pid of processesWith(`SVC_RUN_NONCE=${run.spec.nonce}`)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
  });
  return { ...run, host: changedRunner(run, how) };
}

const CHILD_OF_ROOT = { pid: expect.any(Number) as number, start: expect.any(Number) as number, name: expect.stringMatching(/^python/) as string };

describe("a process of another user", { tags: "needs/root" }, () => {
  it("does not keep a finished run: its exit code and whole log are stored, and the process is named", async () => {
    const run = madeRun("child(lambda: None)\nprint('x' * 100000 + 'last')\nsys.exit(3)", AS_USER);
    await run.host.start(run.spec, {}, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 3, stopped: false, left: [CHILD_OF_ROOT] });
    expect(existsSync(`/proc/${status.left[0]?.pid}`)).toBe(true);
    expect(log.toString()).toBe(`${"x".repeat(100000)}last\n`);
    expect(readFileSync(join(run.runDir, "runner.err"), "utf8")).toMatch(/could not be ended: \d+ \(python/);
  }, 15_000);

  it("does not keep it by writing without end to the log, the records and the pipe of a rank", async () => {
    const flood = `
end = time.time() + 20  # in case that its end is awaited
def flood():
    paths = [os.environ["SVC_RECORDS"], os.environ["SVC_RUN_DIR"] + "/ranks/0"]
    pipes = [1] + [os.open(path, os.O_WRONLY) for path in paths]
    for fd in pipes[1:]:
        if os.fork() == 0:
            while time.time() < end: os.write(fd, b"y" * 1000 + b"\\n")
            os._exit(0)
    while time.time() < end: os.write(1, b"z" * 1000 + b"\\n")
child(flood)
time.sleep(0.2)
sys.exit(4)`;
    const run = madeRun(flood, AS_USER, { ranks: { first: 0, count: 1 }, spool_cap_bytes: 1 << 20 });
    await run.host.start(run.spec, {}, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 4, left: [CHILD_OF_ROOT, CHILD_OF_ROOT, CHILD_OF_ROOT] });
    expect(log.length).toBe(status.log_bytes);
  }, 15_000);

  it("delays a stop by a bounded time, and keeps the script's own end", async () => {
    const run = madeRun(
      "child(lambda: None)\nsignal.signal(15, lambda *_: sys.exit(5))\nprint('up')\nwhile True: time.sleep(0.05)",
      AS_USER,
      { sample_seconds: 0.1 },
    );
    await run.host.start(run.spec, {}, never);
    await until(run, "up");
    const members = join(run.runDir, "members.json");
    await expect.poll(() => existsSync(members) && JSON.parse(readFileSync(members, "utf8"))).toMatchObject({ processes: [{}, {}] });
    await run.host.stop(0.2, never);
    const { status } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 5, stopped: true, left: [CHILD_OF_ROOT] });
  });

  it("fails the run by its name if it is the script itself, and a stop succeeds however often it is repeated", async () => {
    const run = madeRun("print('up')\nwhile True: time.sleep(100)", AS_USER);
    await run.host.start(run.spec, {}, never);
    await until(run, "up");
    await run.host.stop(0.2, never);
    const { status } = await finish(run);
    expect(status).toMatchObject({
      phase: "failed",
      exit_code: null,
      stopped: true,
      error: expect.stringMatching(/^the script could not be ended: \d+ \(python[^ ]*\)/) as string,
      left: [CHILD_OF_ROOT],
    });
    await run.host.stop(0.2, never);
    expect(await run.host.status(never)).toEqual(status);
  });

  it("is named by the stop that could not end it, if a killed runner left it", async () => {
    const run = madeRun(
      "child(lambda: None)\nprint('up')\nwhile True: time.sleep(0.05)",
      `${AS_USER}\nm.SWEEP_SECONDS = 0.3\n`,
      { sample_seconds: 0.1 },
    );
    await run.host.start(run.spec, {}, never);
    await until(run, "up");
    const members = join(run.runDir, "members.json");
    await expect.poll(() => existsSync(members) && JSON.parse(readFileSync(members, "utf8"))).toMatchObject({ processes: [{}, {}] });
    process.kill((await run.host.status(never))?.runner_pid ?? 0, "SIGKILL");
    await run.host.stop(0.1, never);
    const { status } = await finish(run);
    expect(status).toMatchObject({ phase: "failed", error: expect.stringContaining("was killed") as string, left: [CHILD_OF_ROOT] });
    await run.host.stop(0.1, never);
    expect(await run.host.status(never)).toEqual(status);
  });
});

describe("a process in the kernel (state D)", { tags: "needs/freezer" }, () => {
  const frozen = `
def freeze(folder):
    with open(folder + "/cgroup.procs", "w") as f: f.write(str(os.getpid()))
    with open(folder + "/freezer.state", "w") as f: f.write("FROZEN")
`;

  async function frozenRun(code: string): Promise<TestRun> {
    const folder = join(FREEZER, `svc-test-${process.pid}`);
    mkdirSync(folder);
    cleanUp.push(() => {
      writeFileSync(join(folder, "freezer.state"), "THAWED");
      // It ends once it is thawed, by the signals that it got before.
      for (let n = 0; n < 10_000; n++) {
        try {
          rmdirSync(folder);
          return;
        } catch {
          // Not yet.
        }
      }
    });
    const run = madeRun(`${frozen}folder = ${JSON.stringify(folder)}\n${code}`, SHORT);
    await run.host.start(run.spec, {}, never);
    return run;
  }

  it("does not keep a finished run, nor what ends and lists the runs of this computer", async () => {
    const run = await frozenRun("if os.fork() == 0: freeze(folder)\nelse:\n  time.sleep(0.3)\n  print('end')\n  os._exit(6)");
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 6, left: [CHILD_OF_ROOT] });
    expect(log.toString()).toBe("end\n");
    await run.host.stop(0, never);
    await terminateLocal({ runDir: run.runDir, runnerPath, python }, 0, never);
    expect(readFileSync(`/proc/${status.left[0]?.pid}/stat`, "latin1")).toMatch(/\) D /);
    // The runner may still be exiting.
    await expect.poll(() => listLocalRuns(home)).toEqual([]);
    // The next run of the folder starts at once.
    const again = { ...run.spec, nonce: `${run.spec.nonce}a`, argv: ["echo", "again"] };
    await run.host.start(again, {}, never);
    expect((await finish(run)).status).toMatchObject({ nonce: again.nonce, exit_code: 0, left: status.left });
    await terminateLocal({ runDir: run.runDir, runnerPath, python }, 0, never);
  });

  it("does not keep a run that is stopped, even if it is the script itself", async () => {
    const run = await frozenRun("print('up')\nfreeze(folder)\nwhile True: time.sleep(100)");
    await until(run, "up");
    await terminateLocal({ runDir: run.runDir, runnerPath: join(run.runDir, "../changed/changed_runner.py"), python }, 0.1, never);
    const status = await run.host.status(never);
    expect(status).toMatchObject({ phase: "failed", stopped: true, left: [CHILD_OF_ROOT] });
    expect(listLocalRuns(home)).toEqual([]);
  });
});

describe("a process that ended for everyone but a stopped tracer", { tags: "needs/strace" }, () => {
  it("does not keep a finished run", async () => {
    const go = join(home, "go");
    const run = madeRun(
      `import subprocess\nprint('pid', subprocess.Popen(["sleep", "1000"]).pid)\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.02)\nsys.exit(7)`,
      SHORT,
    );
    await run.host.start(run.spec, {}, never);
    const pid = /pid (\d+)\n/.exec(await until(run, "\n"))?.[1] ?? "";
    const tracer = spawn("strace", ["-qq", "-p", pid], { stdio: "ignore" });
    cleanUp.push(() => tracer.kill("SIGKILL"));
    await expect.poll(() => readFileSync(`/proc/${pid}/status`, "latin1")).toMatch(/TracerPid:\t[1-9]/);
    tracer.kill("SIGSTOP");
    await expect.poll(() => readFileSync(`/proc/${tracer.pid}/stat`, "latin1")).toMatch(/\) [Tt] /);
    writeFileSync(go, "");
    const { status } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 7, left: [{ pid: Number(pid), name: "sleep" }] });
  });
});
