// The guard of a machine, for real: the script that providers give to a machine runs here as root; instead of ending
// the machine it writes to a file. Only its clock is faster.
// @module-tag needs/sshd

import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { guardDir, guardScript, type OrderLimit } from "../../src/domain/guard-script.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { processesWith } from "../process/harness.ts";
import { runnerPath } from "../runner/programs.ts";
import { endAll, guards, quickened } from "./guard-process.ts";
import { TestMachine, ended, never, until as logged } from "./machine.ts";
import { until } from "./sshd.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-guard-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let name = "";
let file = (_: string): string => "";
beforeEach(() => {
  name = `svc-test-${randomBytes(5).toString("hex")}`;
  const mine = name;
  file = (path) => join(guardDir(mine), path);
  onTestFinished(() => {
    endAll(mine);
    rmSync(guardDir(mine), { recursive: true, force: true });
  });
});

const uptime = (): number => Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]));
const setKeep = (text: string | number): void => writeFileSync(file("keep"), `${text}\n`);
const keep = (): number => Number(readFileSync(file("keep"), "utf8"));
const looks = (n: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, n * 50));

/** Starts the guard like a machine does, with all pauses shortened. */
async function boot(
  selfEnd: string,
  {
    shell = "sh",
    env = {},
    limit,
    stepped = false,
    changes = [],
  }: {
    shell?: string;
    env?: NodeJS.ProcessEnv;
    limit?: OrderLimit;
    stepped?: boolean;
    changes?: readonly (readonly [string, string])[];
  } = {},
): Promise<void> {
  const watching = (): string => (existsSync(file("pid")) ? readFileSync(file("pid"), "utf8") : "");
  const before = watching();
  const guard = { name, graceSeconds: 60, stopSeconds: 60, selfEnd, limit: limit ?? null };
  const text = quickened(guardScript(guard), stepped, changes);
  const done = spawnSync(shell, [], {
    input: text,
    encoding: "utf8",
    timeout: DEADLINE_MS,
    env: { ...process.env, ...env },
  });
  expect(done).toMatchObject({ status: 0, stderr: "" });
  await until(() => watching() !== before && watching() !== "", "the guard runs");
}

/** Lets a guard that was booted `stepped` look once more; its look before this one is over then. */
async function step(): Promise<void> {
  writeFileSync(file("go"), "");
  await until(() => !existsSync(file("go")), "another look");
}

const times = (path: string): number => (existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0);

/** Starts a run that saves for a while when it is asked to end, and a way to end the machine that writes down whether it had saved. */
async function runThatSaves(): Promise<{ ending: string; selfEnd: string }> {
  const ending = join(folder, name);
  const runDir = join(folder, `${name}-run`);
  mkdirSync(runDir);
  // Longer than several looks of the guard, each of which reads every process of this computer.
  const script = `trap 'sleep 4; echo saved >saved; exit 0' TERM; echo up >up; while :; do sleep 0.05; done`;
  const spec = { nonce: name, argv: ["sh", "-c", script], cwd: runDir, env: { KEEP: file("keep") } };
  const rest = { stop_grace_seconds: 60, spool_cap_bytes: 1 << 20, sample_seconds: 10 };
  writeFileSync(join(runDir, "spec.json"), JSON.stringify({ ...spec, ...rest }));
  expect(spawnSync("python3", ["-I", "-S", runnerPath, "start", runDir]).status).toBe(0);
  onTestFinished(() => void spawnSync("python3", ["-I", "-S", runnerPath, "stop", runDir, "--grace", "0"]));
  await until(() => existsSync(join(runDir, "up")), "the script runs");
  return { ending, selfEnd: `[ -e ${runDir}/saved ] && echo in order >>${ending} || echo too early >>${ending}` };
}

describe("the guard", { tags: "needs/root" }, () => {
  for (const shell of ["dash", "bash", "busybox"]) {
    it(`ends the machine when its time has passed, again and again, and not before (${shell})`, async (ctx) => {
      if (spawnSync(shell, ["true"]).error) return ctx.skip(`no ${shell} here`);
      const ending = join(folder, name);
      await boot(`echo ended >>${ending}`, { shell: shell === "busybox" ? "sh" : shell });
      await until(() => guards(name).length === 1, "the guard runs");
      expect(keep()).toBeGreaterThanOrEqual(uptime() + 60 + 290);
      await looks(20);
      expect(times(ending)).toBe(0);
      setKeep(uptime() - 1);
      await until(() => times(ending) >= 3, "three attempts");
      expect(readFileSync(file("log"), "utf8")).toContain("nobody came");
      // A contact is early enough while the machine still exists.
      setKeep(uptime() + 100);
      await looks(40);
      const before = times(ending);
      await looks(20);
      expect(times(ending)).toBe(before);
    });
  }

  for (const text of ["garbage", "", "12x", "-5", "99999999999999999999", "1e9", "$(touch /tmp/x)"]) {
    it(`treats ${JSON.stringify(text)} as a missing answer: waits a while, then ends the machine`, async () => {
      const ending = join(folder, name);
      await boot(`echo ended >>${ending}`);
      setKeep(text);
      await until(() => times(ending) >= 1, "an attempt");
    });
  }

  it("asks an active run to end, waits for it, and only then ends the machine", async () => {
    const { ending, selfEnd } = await runThatSaves();
    await boot(selfEnd);
    setKeep(uptime() - 1);
    await until(() => times(ending) >= 1, "the machine is ended");
    expect(readFileSync(ending, "utf8")).not.toContain("too early");
    expect(readFileSync(file("log"), "utf8")).toContain("asking the run to end");
    // A runner of another machine is not affected: it names another `keep`.
  });

  it("does not take a look that lasts too long for the end of the run", async () => {
    const { ending, selfEnd } = await runThatSaves();
    // Each second look through the processes lasts too long, from the first one on.
    const slow = join(folder, `${name}-slow`);
    const late = `runners() {\n  if rm ${slow} 2>/dev/null; then :; else : >${slow}; sleep 100; fi\n`;
    await boot(selfEnd, { changes: [["runners() {\n", late]] });
    setKeep(uptime() - 1);
    await until(() => times(ending) >= 1, "the machine is ended");
    expect(readFileSync(ending, "utf8")).not.toContain("too early");
  });

  describe("with the deadlines of a budget", () => {
    const setLimit = (stop: number | string, end: number | string): void =>
      writeFileSync(file("limit"), `${stop} ${end}\n`);
    const limits = (): number[] => readFileSync(file("limit"), "utf8").trim().split(" ").map(Number);

    for (const shell of ["dash", "bash"]) {
      it(`ends the machine when the budget is spent, although its keep has time (${shell})`, async (ctx) => {
        if (spawnSync(shell, ["true"]).error) return ctx.skip(`no ${shell} here`);
        const ending = join(folder, name);
        const limit = { stopSeconds: 3_000, endSeconds: 4_000, madeAtMs: Date.now() };
        await boot(`echo ended >>${ending}`, { shell, limit });
        const [stop = 0, end = 0] = limits();
        expect(stop - uptime()).toBeGreaterThan(2_980);
        expect([end - stop, end - uptime() <= 4_000]).toEqual([1_000, true]);
        await looks(20);
        expect(times(ending)).toBe(0);
        setLimit(1, uptime());
        await until(() => times(ending) >= 2, "two attempts");
        expect(readFileSync(file("log"), "utf8")).toContain("the budget is spent");
        setLimit("-", "-");
        await looks(40);
        const before = times(ending);
        await looks(20);
        expect(times(ending)).toBe(before);
      });
    }

    it("counts the time before its first start, and a restart gives no more", async () => {
      const order = { stopSeconds: 100, endSeconds: 200 };
      await boot("true", { limit: { ...order, madeAtMs: Date.now() - 60_000 } });
      const [stop = 0, end = 0] = limits();
      expect([stop - uptime() <= 41, end - uptime() <= 141]).toEqual([true, true]);
      await boot("true", { limit: { ...order, madeAtMs: Date.now() } });
      expect(limits()).toEqual([stop, end]);
      // A clock that cannot be right counts for nothing.
      rmSync(file("limit"));
      await boot("true", { limit: { ...order, madeAtMs: Date.now() + 1e9 } });
      expect((limits()[1] ?? 0) - uptime()).toBeGreaterThan(190);
    });

    it.each(["", "- -", "x y", "12", "99999999999 99999999999"])("treats %j as no deadline", async (text) => {
      const ending = join(folder, name);
      await boot(`echo ended >>${ending}`);
      writeFileSync(file("limit"), `${text}\n`);
      await looks(20);
      expect(times(ending)).toBe(0);
    });

    it("asks the run to end at `stop`, and keeps the machine until `end`", async () => {
      const ending = join(folder, name);
      const runDir = join(folder, `${name}-run`);
      mkdirSync(runDir);
      const script = `trap 'echo saved >saved; exit 0' TERM; echo up >up; while :; do sleep 0.05; done`;
      const spec = { nonce: name, argv: ["sh", "-c", script], cwd: runDir, env: { KEEP: file("keep") } };
      const rest = { stop_grace_seconds: 60, spool_cap_bytes: 1 << 20, sample_seconds: 10 };
      writeFileSync(join(runDir, "spec.json"), JSON.stringify({ ...spec, ...rest }));
      expect(spawnSync("python3", ["-I", "-S", runnerPath, "start", runDir]).status).toBe(0);
      onTestFinished(() => void spawnSync("python3", ["-I", "-S", runnerPath, "stop", runDir, "--grace", "0"]));
      await until(() => existsSync(join(runDir, "up")), "the script runs");
      await boot(`echo ended >>${ending}`);
      setLimit(1, uptime() + 1_000);
      await until(() => existsSync(join(runDir, "saved")), "the script saves");
      await looks(20);
      expect(times(ending)).toBe(0);
      setLimit(1, 1);
      await until(() => times(ending) >= 1, "the machine is ended");
    });

    it("tells each attempt when a machine that cannot be deleted is to be stopped: sooner once the budget is spent", async () => {
      const ending = join(folder, name);
      await boot(`echo "$tries \${patience:-as usual}" >>${ending}`);
      setKeep(1);
      await until(() => times(ending) >= 1, "the machine is ended");
      setLimit(1, 1);
      await until(() => times(ending) >= 3, "the machine is ended again");
      const lines = readFileSync(ending, "utf8").trim().split("\n");
      expect([lines[0], lines.at(-1)]).toEqual(["1 as usual", `${lines.length} 1`]);
    });
  });

  it("tolerates a keep that was unreadable for a moment", async () => {
    const ending = join(folder, name);
    await boot(`echo ended >>${ending}`, { stepped: true });
    // Each time less than the ten looks after which the machine would be ended, together more.
    for (let i = 0; i < 5; i++) {
      rmSync(file("keep"), { force: true });
      for (let looked = 0; looked < 5; looked++) await step();
      setKeep(uptime() + 1_000);
      for (let looked = 0; looked < 2; looked++) await step();
    }
    expect(times(ending)).toBe(0);
  });

  it("restarts with its container: one guard, one time, whatever was there", async () => {
    const ending = join(folder, name);
    await boot(`echo first >>${ending}`);
    await until(() => guards(name).length === 1, "the first guard");
    const [first] = guards(name);
    setKeep(999_999_999);
    await boot(`echo second >>${ending}`);
    await until(() => guards(name).length === 1 && guards(name)[0] !== first, "the second guard alone");
    expect(keep()).toBeLessThanOrEqual(uptime() + 361);
    setKeep(1);
    await until(() => times(ending) >= 1, "an attempt");
    expect(readFileSync(ending, "utf8")).not.toContain("first");
  });

  it("tries again after an attempt that never returns, even if nothing can be logged", async () => {
    const ending = join(folder, name);
    await boot(`echo try >>${ending}; sleep 60`);
    mkdirSync(file("log"));
    setKeep(1);
    await until(() => times(ending) >= 2, "two attempts");
  });

  it("lets every user of the machine extend its time, and only root change its text", async () => {
    await boot("true");
    const mode = (path: string): string => spawnSync("stat", ["-c", "%a", path], { encoding: "utf8" }).stdout.trim();
    expect([mode(file("")), mode(file("guard.sh")), mode(file("keep"))]).toEqual(["755", "644", "666"]);
  });

  for (const tool of ["curl", "python3", "python"]) {
    it(`calls with a key that is on no command line, by ${tool}`, async (ctx) => {
      const find = tool === "curl" ? "command -v curl" : `python3 -c "import sys; print(sys.executable)"`;
      const real = spawnSync("sh", ["-c", find], { encoding: "utf8" }).stdout.trim();
      if (real === "") return ctx.skip(`no ${tool} here`);
      const asked: { method: string; auth: string; body: string; url: string }[] = [];
      const server = createServer((request: IncomingMessage, response) => {
        let body = "";
        request.on("data", (part) => (body += part));
        request.on("end", () => {
          asked.push({ method: request.method!, auth: request.headers.authorization!, body, url: request.url! });
          response.writeHead(asked.length < 2 ? 500 : 200).end("{}");
        });
      }).listen(0, "127.0.0.1");
      onTestFinished(() => void server.close());
      await new Promise((resolve) => server.once("listening", resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/end/7`;
      const bin = join(folder, `bin-${tool}`);
      mkdirSync(bin);
      const words = join(folder, `${name}.words`);
      for (const each of ["sh", "cat", "mkdir", "chmod", "mv", "setsid", "sleep", "tr", "sed", "head", tool]) {
        const path =
          each === tool ? real : spawnSync("sh", ["-c", `command -v ${each}`], { encoding: "utf8" }).stdout.trim();
        writeFileSync(join(bin, each), `#!/bin/sh\necho "$*" >>${words}\nexec ${path} "$@"\n`, { mode: 0o755 });
      }
      // A program that only has the name of Python is skipped.
      if (tool === "python") writeFileSync(join(bin, "python3"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });
      const ok = join(folder, `${name}.ok`);
      await boot(`SVC_KEY=$(svc_env MACHINE_KEY)\nsvc_call DELETE ${url} '{"a": "b c"}' && echo done >>${ok}`, {
        shell: "/bin/sh",
        env: { MACHINE_KEY: "k-1", PATH: bin },
      });
      setKeep(1);
      await until(() => times(ok) >= 1, "a call that succeeds");
      expect(asked[1]).toEqual({
        method: "DELETE",
        auth: "Bearer k-1",
        body: '{"a": "b c"}',
        url: "/end/7",
      });
      const lines = readFileSync(words, "utf8");
      // Where python3 is skipped, a Python of this computer's own folders may be found first.
      if (tool !== "python") expect(lines).toContain(url);
      expect(lines).not.toContain("k-1");
    });
  }
});

describe("the processes that extend its time", { tags: "needs/root" }, () => {
  const started = async (): Promise<TestMachine> => {
    const machine = await TestMachine.start();
    onTestFinished(() => machine.close());
    return machine;
  };
  const order = (idle_seconds: number) => ({ file: join(folder, name), grace_seconds: 6, idle_seconds });
  const kept = (): number => Number(readFileSync(join(folder, name), "utf8"));

  it("the runner, while its run works, and not when it is idle or has ended", async () => {
    const machine = await started();
    const host = machine.host();
    writeFileSync(join(folder, name), "1\n");
    const argv = [
      "sh",
      "-c",
      "end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done; echo quiet; sleep 60",
    ];
    await host.start(machine.spec(argv, { keep: order(2), sample_seconds: 0.5 }), {}, never);
    await until(() => kept() >= uptime() + 4, "the first move");
    const first = kept();
    await until(() => kept() > first + 1, "a later move");
    await logged(host, "quiet");
    // Two seconds of quiet, one move that may have been due, and then none while the runner takes nine samples, one each half second.
    // The runner looks at the network of the whole computer: other traffic may hold the machine for a while.
    const samples = (): number => times(join(machine.base, "run", "samples.jsonl"));
    let [last, since] = [kept(), samples()];
    await until(() => {
      if (kept() !== last) [last, since] = [kept(), samples()];
      return samples() >= since + 9;
    }, "the runner no longer moves it");
    expect(last).toBeGreaterThanOrEqual(first + 3);
    await host.stop(0, never);
    await until(() => processesWith(`SVC_RUN_DIR=${machine.base}`).length === 0, "the runner is gone");
    // The request to stop is traffic, too: a runner that answers it late may have moved the number once more.
    const [final, gone] = [kept(), uptime()];
    await until(() => uptime() >= gone + 2, "two seconds without a runner");
    expect(kept()).toBe(final);
  });

  it("the runner of a run that may be idle, as long as it lives, and never backwards", async () => {
    const machine = await started();
    const host = machine.host();
    writeFileSync(join(folder, name), `${uptime() + 8}\n`);
    const far = kept();
    await host.start(machine.spec("echo up; sleep 60", { keep: order(0) }), {}, never);
    await logged(host, "up");
    expect(kept()).toBe(far);
    await until(() => kept() > far, "a move");
    await host.stop(0, never);
  });

  it("the runner repairs a malformed number, and an unwritable file disturbs no run", async () => {
    const machine = await started();
    writeFileSync(join(folder, name), "99999999999999999999999\n");
    const host = machine.host();
    await host.start(machine.spec("echo up; sleep 60", { keep: order(0) }), {}, never);
    await until(() => kept() < uptime() + 7, "a sound number");
    await host.stop(0, never);
    const other = machine.host(machine.link(), "install");
    const bad = { file: "/nonexistent/keep", grace_seconds: 3, idle_seconds: 0 };
    await other.start(machine.spec("sleep 1.5; echo fine", { keep: bad }), {}, never);
    expect(await ended(other)).toMatchObject({ phase: "exited", exit_code: 0 });
  });

  it("the control plane, by every contact, until it forgets the machine", async () => {
    const machine = await started();
    const mine = machine.name;
    onTestFinished(() => {
      endAll(mine);
      rmSync(guardDir(mine), { recursive: true, force: true });
    });
    file = (path) => join(guardDir(mine), path);
    const ending = join(folder, mine);
    const guard = { graceSeconds: 3, stopSeconds: 10, selfEnd: `echo ended >>${ending}` };
    const link = machine.link();
    await link.keep(guard, never);
    // The guard's shell may still be the `setsid` that becomes it.
    await until(() => guards(mine).length === 1, "the guard's shell");
    const [pid] = guards(mine);
    await link.keep(guard, never);
    expect(guards(mine)).toEqual([pid]);
    setKeep(uptime() + 3);
    const before = keep();
    await until(() => keep() > before + 2, "contacts by itself");
    expect(times(ending)).toBe(0);
    // The next contact restarts a guard that was killed.
    process.kill(pid!, "SIGKILL");
    const named = (): number => Number(readFileSync(file("pid"), "utf8"));
    await until(() => named() !== pid && guards(mine).includes(named()), "another guard");
    setKeep(uptime() + 2);
    link.close();
    await until(() => times(ending) >= 1, "nobody came", DEADLINE_MS);
  });

  it("the control plane never moves it back: the runner of a longer grace may have moved it further", async () => {
    const machine = await started();
    const mine = machine.name;
    file = (path) => join(guardDir(mine), path);
    onTestFinished(() => {
      endAll(mine);
      rmSync(guardDir(mine), { recursive: true, force: true });
    });
    const guard = { graceSeconds: 10, stopSeconds: 10, selfEnd: "true" };
    const link = machine.link();
    onTestFinished(() => link.close());
    await link.keep(guard, never);
    const far = uptime() + 5_000;
    setKeep(far);
    await link.keep(guard, never);
    expect(keep()).toBe(far);
    setKeep(1);
    await link.keep(guard, never);
    expect(keep()).toBeGreaterThanOrEqual(uptime() + 9);
  });

  it("the control plane replaces a guard of version 0.1 once its run has a budget: that guard read no deadline of it", async () => {
    const machine = await started();
    const mine = machine.name;
    file = (path) => join(guardDir(mine), path);
    onTestFinished(() => {
      endAll(mine);
      rmSync(guardDir(mine), { recursive: true, force: true });
    });
    mkdirSync(guardDir(mine), { recursive: true });
    const loop = `echo $$ >"$1/pid"; while sleep 0.05; do mine=$(cat "$1/pid"); [ "$mine" = $$ ] || exit 0; done\n`;
    writeFileSync(file("guard.sh"), loop);
    setKeep(uptime() + 100);
    spawn("sh", [file("guard.sh"), file("")], { stdio: "ignore" }).unref();
    await until(() => existsSync(file("pid")) && guards(mine).length === 1, "the old guard");
    const [old] = guards(mine);
    const ending = join(folder, mine);
    const guard = { graceSeconds: 60, stopSeconds: 10, selfEnd: `echo ended >>${ending}` };
    const link = machine.link();
    onTestFinished(() => link.close());
    await link.keep(guard, never);
    expect(guards(mine)).toEqual([old]);
    await link.keep({ ...guard, deadline: () => ({ stopSeconds: 0, endSeconds: 1 }) }, never);
    await until(() => guards(mine).length === 1 && guards(mine)[0] !== old, "another guard alone");
    await until(() => times(ending) >= 1, "the budget is spent", DEADLINE_MS);
  });
});
