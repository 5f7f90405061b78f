// One run from start to end: its input and its results.

import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { LocalHost } from "../../src/providers/local/local-host.ts";
import type { RunnerSpec } from "../../src/schemas/runner.ts";
import { changedRunner, ended, finish, never, newNonce, newRun, processesWith, python, runnerPath, startRun, until } from "./harness.ts";

const py = (code: string, ...args: string[]): string[] => [python, "-u", "-c", code, ...args];

describe("the environment of the script", () => {
  it("contains the arguments exactly: spaces, quotes, line breaks, Unicode, empty ones, option-like ones", async () => {
    const args = ["", " ", "a b", "it's", '"q"', "new\nline", "tab\t", "naïve ☃ 日本 🙂", "$HOME `id` $(id)", "--", "-x", "*", "\\", "\u007f\u0001"];
    const run = await startRun(py("import sys, json; print(json.dumps(sys.argv[1:]))", ...args));
    const { status, log } = await finish(run);
    expect(JSON.parse(log.toString())).toEqual(args);
    expect(status).toMatchObject({ phase: "exited", exit_code: 0, signal: null, stopped: false, oom: false, log_bytes: log.length });
  });

  it("adds and removes variables, and keeps secrets out of arguments and out of the directory", async () => {
    const secret = `s3cret-${newNonce()}`;
    process.env["SVC_TEST_GONE"] = "1";
    const run = newRun(py("import os, json, time; print(json.dumps(dict(os.environ)), flush=True); time.sleep(60)"), {
      env: { ADDED: "ü =x", SVC_TEST_GONE: null },
    });
    await run.host.start(run.spec, { SECRET: secret }, never);
    delete process.env["SVC_TEST_GONE"];
    const env = JSON.parse(await until(run, "\n")) as Record<string, string>;
    expect(env).toMatchObject({ ADDED: "ü =x", SECRET: secret, SVC_RUN_NONCE: run.spec.nonce });
    expect(env).not.toHaveProperty("SVC_TEST_GONE");
    expect(existsSync(join(run.runDir, "env.json"))).toBe(false);
    for (const pid of processesWith(run.spec.nonce)) expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toContain(secret);
    for (const name of readdirSync(run.runDir)) {
      const path = join(run.runDir, name);
      if (statSync(path).isFile()) expect(readFileSync(path, "utf8")).not.toContain(secret);
    }
    await run.host.stop(0, never);
  });

  it("leaves no descriptor, no ignored signal and no terminal to the script, and keeps the directory private", async () => {
    const code = `
import os, signal, json
fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))
status = dict(l.split(":", 1) for l in open("/proc/self/status").read().splitlines())
print(json.dumps({"fds": [f for f in fds if f > 2 and os.path.exists("/proc/self/fd/%d" % f)],
  "blocked": int(status["SigBlk"], 16), "sid": os.getsid(0) == os.getpid(), "stdin": os.readlink("/proc/self/fd/0"),
  "usr1": signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, "hup": signal.getsignal(signal.SIGHUP) == signal.SIG_DFL,
  "umask": os.umask(0)}))`;
    const run = await startRun(py(code));
    const { log } = await finish(run);
    expect(JSON.parse(log.toString())).toEqual({
      fds: [], blocked: 0, sid: true, stdin: "/dev/null", usr1: true, hup: true, umask: process.umask(),
    });
    expect(statSync(run.runDir).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(run.runDir)) {
      const stat = statSync(join(run.runDir, name));
      if (stat.isFile()) expect([name, stat.mode & 0o777]).toEqual([name, 0o600]);
    }
  });
});

describe("how it ends", () => {
  it.each([0, 1, 7, 137, 255])("reports exit code %i", async (code) => {
    const { status } = await finish(await startRun(`exit ${code}`));
    expect(status).toMatchObject({ phase: "exited", exit_code: code, signal: null, oom: false });
  });

  it.each([["TERM", 143], ["KILL", 137], ["SEGV", 139], ["HUP", 129]])("reports death by SIG%s as %i", async (name, code) => {
    const { status } = await finish(await startRun(`kill -${name} $$`));
    expect(status).toMatchObject({ phase: "exited", exit_code: code, signal: `SIG${name}`, stopped: false, oom: false });
  });

  it("reports exactly why a script cannot be started, at every attempt, and leaves no secret behind", async () => {
    const plain = newRun([]);
    mkdirSync(plain.runDir, { recursive: true });
    const script = join(plain.runDir, "plain.txt");
    writeFileSync(script, "echo hi\n", { mode: 0o644 });
    const shebang = join(plain.runDir, "lost.sh");
    writeFileSync(shebang, "#!/no/such/interpreter\n", { mode: 0o755 });
    const cases: [string[], string, RegExp][] = [
      [["/no/such/file"], "/tmp", /\/no\/such\/file does not exist/],
      [["no-such-program-anywhere"], "/tmp", /no-such-program-anywhere does not exist/],
      [[script], "/tmp", /may not be executed/],
      [[shebang], "/tmp", /begins with .* no such interpreter/],
      [["true"], "/no/such/folder", /working directory \/no\/such\/folder does not exist/],
      [["true"], script, /working directory .* is not a folder/],
      [["true", "a".repeat(3 << 20)], "/tmp", /too long/],
    ];
    for (const [argv, cwd, why] of cases) {
      const run = newRun(argv, { cwd });
      for (const _ of [1, 2]) {
        const failure = await run.host.start(run.spec, { SECRET: "x" }, never).catch((e: unknown) => e);
        expect(failure).toMatchObject({ code: "entrypoint_not_runnable", message: expect.stringMatching(why) as string });
      }
      expect(await run.host.status(never)).toMatchObject({ phase: "failed", pid: null, exit_code: null });
      expect(existsSync(join(run.runDir, "env.json"))).toBe(false);
    }
  });
});

describe("the log", () => {
  it("keeps raw bytes: bad UTF-8, NUL, \\r, a last line without end", async () => {
    const bytes = Buffer.concat([randomBytes(100_000), Buffer.from("\xff\xfe\0\r50%\rno end", "latin1")]);
    const run = newRun([]);
    mkdirSync(run.runDir, { recursive: true });
    writeFileSync(join(run.runDir, "bytes"), bytes);
    run.spec.argv = ["cat", join(run.runDir, "bytes")];
    await run.host.start(run.spec, {}, never);
    const { log } = await finish(run);
    expect(log.equals(bytes)).toBe(true);
  });

  it("shows a part of a line at once, and stdout and stderr in the order of writing", async () => {
    const run = await startRun("printf one; sleep 0.2; printf two >&2; sleep 0.2; printf three; sleep 60");
    expect(await until(run, "one")).toBe("one");
    expect(await until(run, "three")).toBe("onetwothree");
    await run.host.stop(0, never);
  });

  it("records when bytes were written, the first entry covering the first byte", async () => {
    const before = Date.now();
    const run = await startRun("echo first; sleep 0.4; echo second");
    await ended(run);
    const { times } = await run.host.readLog(0, 100, never);
    expect(times.map((t) => t.offset)).toEqual([0, 6]);
    const [a = 0, b = 0] = times.map((t) => t.atMs);
    expect(a).toBeGreaterThanOrEqual(before);
    expect(b - a).toBeGreaterThanOrEqual(300);
    expect((await run.host.readLog(3, 1, never)).times).toEqual([{ offset: 3, atMs: a }]);
    expect((await run.host.readLog(8, 100, never)).times).toEqual([{ offset: 8, atMs: b }]);
  });
});

describe("start, repeated", () => {
  it("starts a nonce once: at the same time, during the run, after its end, from another host", async () => {
    const run = newRun("echo x; sleep 0.3");
    const others = [run.host, run.host, new LocalHost({ runDir: run.runDir, runnerPath, python })];
    const all = await Promise.all(others.map((h) => h.start(run.spec, { A: "1" }, never)));
    expect(new Set(all.map((s) => s.pid)).size).toBe(1);
    const { status } = await finish(run);
    expect(await run.host.start(run.spec, {}, never)).toEqual(status);
    expect((await finish(run)).log.toString()).toBe("x\n");
    expect(existsSync(join(run.runDir, "env.json"))).toBe(false);
  });

  it("answers a repeated call when the result is known", async () => {
    for (const [argv, outcome] of [
      ["sleep 0.2", { phase: "running", pid: expect.any(Number) as number }],
      [["/no/such/program"], { code: "entrypoint_not_runnable" }],
    ] as const) {
      const run = newRun(typeof argv === "string" ? argv : [...argv]);
      const slow = changedRunner(
        run,
        `
start_script = m.start_script
def start_later(*args):
    m.time.sleep(0.5)
    return start_script(*args)
m.start_script = start_later
`,
      );
      const first = slow.start(run.spec, {}, never).catch((e: unknown) => e);
      while ((await run.host.status(never)) === null) await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await run.host.start(run.spec, {}, never).catch((e: unknown) => e)).toMatchObject(outcome);
      expect(await first).toMatchObject(outcome);
    }
  });

  it("refuses another run while one is active, and afterwards continues in the same log", async () => {
    const run = await startRun("echo a; sleep 60");
    await until(run, "a\n");
    const next = { ...run.spec, nonce: newNonce(), argv: ["echo", "b"] };
    await expect(run.host.start(next, {}, never)).rejects.toMatchObject({ code: "runner_failed" });
    await run.host.stop(0, never);
    await run.host.start(next, {}, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ nonce: next.nonce, exit_code: 0, stopped: false });
    expect(log.toString()).toBe("a\nb\n");
  });

  it("continues although the call that started it is killed at that very moment", async () => {
    const run = newRun("echo one; sleep 0.5; echo two");
    const killed = changedRunner(
      run,
      `
start_script = m.start_script
def start_and_kill(*args):
    started = start_script(*args)
    os.kill(os.getppid(), 9)
    m.time.sleep(0.1)
    return started
m.start_script = start_and_kill
`,
    );
    await expect(killed.start(run.spec, {}, never)).rejects.toMatchObject({ code: "runner_failed" });
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 0 });
    expect(log.toString()).toBe("one\ntwo\n");
  });

  it("passes the secrets, although the answer took longer than every caller waits", async () => {
    const run = newRun('echo "$TOKEN"');
    const [begun, go] = [join(run.runDir, "begun"), join(run.runDir, "go")];
    const slow = changedRunner(
      run,
      `
def main(argv):
    open(${JSON.stringify(begun)}, "w").close()
    while not os.path.exists(${JSON.stringify(go)}):
        m.time.sleep(0.01)
    m.main(argv)
`,
    );
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const starting = slow.start(run.spec, { TOKEN: "s3cret" }, never).catch((e: unknown) => e);
    while (!existsSync(begun)) await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(30_000);
    vi.useRealTimers();
    expect(await starting).toMatchObject({ code: "runner_failed" });
    writeFileSync(go, "");
    while ((await run.host.status(never)) === null) await run.host.follow({ offset: 0, max: 0, seen: 0, waitMs: 20 }, never);
    expect((await finish(run)).log.toString()).toBe("s3cret\n");
    expect(existsSync(join(run.runDir, "env.json"))).toBe(false);
  });

  it("may be repeated if it could not begin: nothing had claimed the nonce", async () => {
    const run = newRun("echo x");
    mkdirSync(run.runDir, { recursive: true });
    writeFileSync(join(run.runDir, "spool"), "in the way");
    await expect(run.host.start(run.spec, {}, never)).rejects.toMatchObject({ code: "runner_failed" });
    rmSync(join(run.runDir, "spool"));
    await run.host.start(run.spec, {}, never);
    expect((await finish(run)).status).toMatchObject({ phase: "exited", exit_code: 0 });
  });

  it("does not start a run that was stopped before it started", async () => {
    const run = newRun("echo never");
    mkdirSync(run.runDir, { recursive: true });
    writeFileSync(join(run.runDir, "spec.json"), JSON.stringify(run.spec));
    await run.host.stop(0, never);
    expect(await run.host.start(run.spec, {}, never)).toMatchObject({ phase: "failed", stopped: true, pid: null });
    expect((await run.host.readLog(0, 100, never)).bytes.length).toBe(0);
  });

  // Hosts answer from status.json if they can. Two calls may both find nothing there, so the program itself must start a nonce once.
  describe("of the program itself", () => {
    const start = ({ runDir }: { runDir: string }) => {
      const { status, stdout } = spawnSync(python, ["-I", "-S", runnerPath, "start", runDir], { encoding: "utf8" });
      return { code: status, answer: stdout === "" ? null : (JSON.parse(stdout) as unknown) };
    };
    const propose = (runDir: string, spec: RunnerSpec): void => {
      mkdirSync(runDir, { recursive: true });
      writeFileSync(join(runDir, "spec.json"), JSON.stringify(spec));
    };

    it("does not start a run that has ended, and unlinks its secrets", async () => {
      const run = await startRun("echo once");
      const { status } = await finish(run);
      writeFileSync(join(run.runDir, "env.json"), "{}");
      expect(start(run)).toEqual({ code: 0, answer: status });
      expect((await finish(run)).log.toString()).toBe("once\n");
      expect(existsSync(join(run.runDir, "env.json"))).toBe(false);
    });

    it("does not start a run whose runner was killed", async () => {
      const run = await startRun("echo once; sleep 60");
      await until(run, "once");
      process.kill((await run.host.status(never))?.runner_pid ?? 0, "SIGKILL");
      await ended(run);
      expect(start(run)).toMatchObject({ code: 0, answer: { phase: "failed", nonce: run.spec.nonce } });
      expect((await run.host.readLog(0, 100, never)).bytes.toString()).toBe("once\n");
      expect(processesWith(run.spec.nonce)).toEqual([]);
    });

    it("does not start a run that was ordered to stop, although nothing else says so yet", () => {
      const run = newRun("echo never");
      propose(run.runDir, run.spec);
      writeFileSync(join(run.runDir, "stop"), JSON.stringify({ nonce: run.spec.nonce, grace: 0 }));
      expect(start(run)).toMatchObject({ code: 0, answer: { phase: "failed", stopped: true, pid: null } });
      expect(existsSync(join(run.runDir, "spool"))).toBe(false);
    });

    it("starts no other run while one is active", async () => {
      const run = await startRun("echo a; sleep 60");
      await until(run, "a\n");
      propose(run.runDir, { ...run.spec, nonce: newNonce(), argv: ["echo", "b"] });
      expect(start(run)).toEqual({ code: 3, answer: null });
      expect(await run.host.status(never)).toMatchObject({ phase: "running", nonce: run.spec.nonce });
      expect((await run.host.readLog(0, 100, never)).bytes.toString()).toBe("a\n");
    });
  });
});

describe("samples", () => {
  it("measures the whole tree of processes, and returns null for an unmeasurable value", async () => {
    // Only the child computes, in a session of its own, and until even a busy computer has given it this much time.
    const spin = "import os, time\nx = bytearray(50 << 20)\nif os.fork():\n  os.wait()\nelse:\n  os.setsid()\n  x = bytearray(50 << 20)\n  while time.process_time() < 1.5: pass";
    const run = await startRun(py(spin), { sample_seconds: 0.5, env: {} });
    await ended(run);
    const { samples, next } = await run.host.readSamples(0, never);
    expect(samples.length).toBeGreaterThanOrEqual(2);
    const [first, ...later] = samples;
    expect(first?.processes).toBe(2);
    expect(first?.memory_bytes).toBeGreaterThan(100 << 20);
    expect(Math.max(...later.map((s) => s.cpu_cores ?? 0))).toBeGreaterThan(0.02);
    expect((await run.host.readSamples(next, never)).samples).toEqual([]);
  });

  it("report how long no key was pressed at a terminal, if there is a terminal", async () => {
    // A terminal of another user, from the run's view: a shell that reads keystrokes.
    const terminal = `import os, pty, sys
shell, keys = pty.fork()
if shell == 0:
    os.execvp("cat", ["cat"])
os.write(keys, b"typed\\n")
os.read(keys, 64)
print("open", flush=True)
sys.stdin.read()`;
    const other = spawn(python, ["-c", terminal], { stdio: ["pipe", "pipe", "inherit"] });
    try {
      await new Promise((done) => other.stdout.once("data", done));
      const run = await startRun("sleep 1.2");
      await ended(run);
      const [first] = (await run.host.readSamples(0, never)).samples;
      expect(first?.terminal_idle_seconds).toBeGreaterThanOrEqual(0);
    } finally {
      other.stdin.end();
    }
  });

  it("cannot end a run: a run continues when nothing can be opened or made, and nothing leaks", async () => {
    const run = newRun("sleep 1; ls /proc/$PPID/fd | wc -l", { sample_seconds: 0.1 });
    mkdirSync(run.runDir, { recursive: true });
    writeFileSync(join(run.runDir, "nvidia-smi"), "#!/bin/sh\n", { mode: 0o755 });
    const refused = changedRunner(
      run,
      `
os.environ["PATH"] = ${JSON.stringify(run.runDir)} + ":" + os.environ["PATH"]
begin, fork, listdir, tries = m.Sampler.begin, os.fork, os.listdir, [0]
def refuse(*_):
    raise OSError(11, "Resource temporarily unavailable")
def begin_without(self):
    tries[0] += 1
    os.fork = refuse
    if tries[0] % 2 == 0:
        os.listdir = refuse
    try:
        begin(self)
    finally:
        os.fork, os.listdir = fork, listdir
m.Sampler.begin = begin_without
`,
    );
    await refused.start(run.spec, {}, never);
    const { status, log } = await finish(run);
    expect(status).toMatchObject({ phase: "exited", exit_code: 0 });
    expect(Number(log.toString())).toBeLessThan(16);
    const { samples } = await run.host.readSamples(0, never);
    expect(samples.length).toBeGreaterThan(2);
    expect(samples[0]).toMatchObject({ gpus: null });
  });

  it("reads GPUs by nvidia-smi: a missing one is null, a failing or hanging one is null and delays nothing", async () => {
    const check = async (script: string): Promise<unknown> => {
      const run = newRun("sleep 1.2");
      mkdirSync(run.runDir, { recursive: true });
      writeFileSync(join(run.runDir, "nvidia-smi"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      const path = process.env["PATH"];
      process.env["PATH"] = `${run.runDir}:${path}`;
      await run.host.start(run.spec, {}, never).finally(() => (process.env["PATH"] = path));
      await ended(run);
      return (await run.host.readSamples(0, never)).samples[0]?.gpus;
    };
    expect(await check('echo "0, 97, 1024, 81559, 312.50, 61"; echo "1, [N/A], 5, 81559, [Not Supported], 40"')).toEqual([
      { index: 0, util_percent: 97, memory_used_mib: 1024, memory_total_mib: 81559, power_watts: 312.5, temperature_c: 61 },
      { index: 1, util_percent: null, memory_used_mib: 5, memory_total_mib: 81559, power_watts: null, temperature_c: 40 },
    ]);
    expect(await check('echo "NVIDIA-SMI has failed"; exit 9')).toBe(null);
    expect(await check("exec sleep 1000")).toBe(null);
  });
});
