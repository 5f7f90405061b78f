// The guard against what fails it or never answers: a file of a dead disk, the memory of a stuck process, its provider's programs. A FIFO that nobody
// writes to stands for each of them.
// @module-tag needs/sshd

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { guardDir, guardScript } from "../../src/domain/guard-script.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { endAll, guards, quickened } from "./guard-process.ts";
import { until } from "./sshd.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-guard-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let name = "";
let ending = "";
const file = (path: string): string => join(guardDir(name), path);
const uptime = (): number => Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]));
const times = (): number => (existsSync(ending) ? readFileSync(ending, "utf8").split("\n").length - 1 : 0);
/** Whether the machine has been ended twice. */
const ended = (): boolean => times() >= 2;
beforeEach(() => {
  name = `svc-test-${randomBytes(5).toString("hex")}`;
  ending = join(folder, name);
  const mine = name;
  onTestFinished(() => {
    endAll(mine);
    rmSync(guardDir(mine), { recursive: true, force: true });
  });
});

/** Starts a guard with time left: `keep` lies in the future, and no budget ends. */
async function boot({
  shell = "sh",
  selfEnd = `echo ended >>${ending}`,
  stopSeconds = 60,
  changes = [] as [string, string][],
} = {}): Promise<void> {
  const guard = guardScript({ name, graceSeconds: 60, stopSeconds, selfEnd, limit: null });
  const input = quickened(guard, false, changes);
  expect(spawnSync(shell, [], { input, encoding: "utf8", timeout: DEADLINE_MS })).toMatchObject({ status: 0 });
  await until(() => existsSync(file("pid")) && readFileSync(file("pid"), "utf8") !== "", "the guard runs");
}

/** Replaces a file by one whose reader and writer wait for ever. */
function block(path: string): void {
  rmSync(path, { recursive: true, force: true });
  expect(spawnSync("mkfifo", [path]).status).toBe(0);
}

/** A folder of processes, each with a command line that can or cannot be read. */
function processes(each: Record<string, { comm: string; words?: string[] }>): string {
  const proc = join(folder, `${name}-proc`);
  for (const [pid, { comm, words }] of Object.entries(each)) {
    mkdirSync(join(proc, pid), { recursive: true });
    writeFileSync(join(proc, pid, "comm"), `${comm}\n`);
    if (words === undefined) block(join(proc, pid, "cmdline"));
    else writeFileSync(join(proc, pid, "cmdline"), words.map((word) => `${word}\0`).join(""));
  }
  return proc;
}

/** A process that runs a script of this machine. The guard's TERM would reach a process of this computer, so none has its number. */
function runner(): { comm: string; words: string[] } {
  const run = join(folder, `${name}-run`);
  mkdirSync(run);
  writeFileSync(join(run, "spec.json"), JSON.stringify({ env: { KEEP: file("keep") } }));
  return { comm: "svc_runner", words: ["python3", "/root/svc_runner.py", "start", run] };
}

const absolute = (shell: string): string =>
  spawnSync("sh", ["-c", `command -v ${shell}`], { encoding: "utf8" }).stdout.trim() +
  (shell === "busybox" ? " sh" : "");

const looks = (n: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, n * 100));

describe("the guard", { tags: "needs/root" }, () => {
  for (const shell of ["dash", "bash", "busybox"]) {
    describe(`in ${shell}`, () => {
      const inShell = { shell: shell === "busybox" ? "sh" : shell };
      const changes: [string, string][] = [
        ["setsid sh", shell === "busybox" ? "setsid busybox sh" : `setsid ${shell}`],
      ];
      const absent = spawnSync(shell, ["-c", "true"]).error !== undefined;

      for (const what of ["pid", "keep", "limit"])
        it.skipIf(absent)(`ends the machine though its \`${what}\` never answers`, async () => {
          await boot({ ...inShell, changes });
          await looks(5);
          block(file(what));
          await until(ended, "two attempts");
        });

      it.skipIf(absent)(
        "ends the machine when the budget is spent though the command line of a process never answers",
        async () => {
          const proc = processes({ 1: { comm: "python3" }, 2: { comm: "svc_runner" } });
          await boot({ ...inShell, changes: [...changes, ["/proc/[0-9]*", `${proc}/[0-9]*`]] });
          writeFileSync(file("limit"), `1 ${uptime() + 3}\n`);
          await until(ended, "two attempts");
          expect(readFileSync(file("log"), "utf8")).toContain("the budget is spent");
        },
      );

      it.skipIf(absent)("begins again if its shell gives up", async () => {
        // Such as when no process can be started.
        const fault = `  look\n  [ -e "$dir/fault" ] || { : >"$dir/fault"; : "\${nothing?}"; }\n`;
        await boot({ ...inShell, changes: [...changes, ["  look\n", fault]] });
        await until(() => existsSync(file("fault")), "its shell gives up");
        writeFileSync(file("keep"), "1\n");
        await until(ended, "two attempts");
      });

      it.skipIf(absent)("counts polls with an unreadable time on if its shell gives up again and again", async () => {
        const fault = `  look\n  polls=$((\${polls:-0} + 1)); [ "$polls" -lt 4 ] || : "\${nothing?}"\n`;
        await boot({ ...inShell, changes: [...changes, ["  look\n", fault], [" + 2)) ]", " + 1)) ]"]] });
        writeFileSync(file("keep"), "garbage\n");
        await until(ended, "two attempts");
      });

      it.skipIf(absent)("pauses before its shell begins again, and starts no process for that", async () => {
        // It gives up before it writes its pid, and finds no program.
        const begun = `${ending}-begun`;
        const fault = `trap 'again' EXIT\necho >>${begun}; PATH=; : "\${nothing?}"\n`;
        await boot({
          ...inShell,
          changes: [
            ...changes,
            ["trap 'again' EXIT\n", fault],
            ["exec sh ", `exec ${absolute(shell)} `],
            ['echo "$until" >"$dir/keep.new"', 'echo 1 | tee "$dir/pid" >"$dir/keep.new"'],
          ],
        });
        await until(() => existsSync(begun), "its shell gives up");
        await looks(45);
        const times = readFileSync(begun, "utf8").length;
        expect(times).toBeGreaterThan(1);
        expect(times).toBeLessThan(5);
      });

      it.skipIf(absent)("ends at the system's TERM", async () => {
        await boot({ ...inShell, changes });
        const [pid] = guards(name);
        process.kill(Number(pid), "SIGTERM");
        await until(() => guards(name).length === 0, "it ends");
        await looks(5);
        expect(guards(name)).toEqual([]);
      });

      it.skipIf(absent)("waits no longer than for a run where a look meets a process that no signal ends", async () => {
        const proc = processes({ 1: { comm: "svc_runner" } });
        const deaf: [string, string][] = [
          ["  wait_for $! 16\n", `  (kill() { [ "$1" = -9 ] || command kill "$@"; }; wait_for $! 16)\n`],
          ["/proc/[0-9]*", `${proc}/[0-9]*`],
        ];
        const selfEnd = `echo ended >>${ending}\nsleep 1000`;
        await boot({ ...inShell, stopSeconds: 1, changes: [...changes, ...deaf], selfEnd });
        writeFileSync(file("keep"), "1\n");
        await until(ended, "two attempts");
      });
    });
  }

  it("stays though the disk takes nothing, and its file names an earlier guard", async () => {
    mkdirSync(file(""), { recursive: true });
    // A file of digits that not even root may write.
    symlinkSync("/proc/sys/kernel/ngroups_max", file("pid"));
    await boot();
    await looks(5);
    writeFileSync(file("keep"), "1\n");
    await until(ended, "two attempts");
  });

  it("ends the machine though its log never answers", async () => {
    await boot();
    block(file("log"));
    writeFileSync(file("keep"), "1\n");
    await until(ended, "two attempts");
  });

  it("counts by itself if the clock never answers, and ends the machine when the budget is spent", async () => {
    const clock = join(folder, `${name}-uptime`);
    writeFileSync(clock, "1000.00 1.00\n");
    await boot({ changes: [["read -r up rest </proc/uptime; echo", `read -r up rest <${clock}; echo`]] });
    writeFileSync(file("keep"), "9999999\n");
    writeFileSync(file("limit"), "900000 1015\n");
    await looks(10);
    expect(times()).toBe(0);
    block(clock);
    await until(ended, "two attempts");
    expect(readFileSync(file("log"), "utf8")).toContain("the budget is spent");
  });

  const waits = `      while [ "$now" -lt "$by" ]`;
  it.each<[string, [string, string][]]>([
    ["behind processes whose command lines never answer", []],
    [
      "again if its shell gave up while it waited",
      [[waits, `      [ -e "$dir/fault" ] || { : >"$dir/fault"; : "\${nothing?}"; }\n${waits}`]],
    ],
  ])("finds the runner %s, and waits for it", async (_, changes) => {
    const proc = processes({
      10000001: { comm: "python3" },
      10000002: { comm: "trainer" },
      10000003: runner(),
    });
    await boot({ changes: [["/proc/[0-9]*", `${proc}/[0-9]*`], ...changes] });
    writeFileSync(file("keep"), "1\n");
    const asked = (): number => readFileSync(file("log"), "utf8").split("asking the run to end").length - 1;
    await until(() => existsSync(file("log")) && asked() > changes.length, "the runner is asked");
    await looks(10);
    expect(times()).toBe(0);
    rmSync(proc, { recursive: true });
    await until(ended, "two attempts");
  });

  it("ends the machine after the grace of the run though its shell gives up in each wait", async () => {
    const proc = processes({ 10000001: runner() });
    const fault: [string, string] = [waits, `      : "\${nothing?}"\n${waits}`];
    await boot({ stopSeconds: 0, changes: [["/proc/[0-9]*", `${proc}/[0-9]*`], fault] });
    writeFileSync(file("keep"), "1\n");
    await until(ended, "two attempts");
    expect(readFileSync(file("log"), "utf8")).toContain("asking the run to end");
  });

  it("counts a look for which no process could be started as one poll, not as the time that it may take", async () => {
    const fault = `failed=$((\${failed:-0} + 1)); [ "$failed" -le 8 ] || : >>"$dir/over"; got=$([ "$failed" -gt 6 ] || exit 2; within`;
    await boot({ changes: [["got=$(within", fault]] });
    await until(() => existsSync(file("over")), "it can start processes again");
    expect(times()).toBe(0);
    writeFileSync(file("keep"), "1\n");
    await until(ended, "two attempts");
  });

  it("ends the machine with the key that it read at its start, if the first process does not answer any more", async () => {
    const first = join(folder, `${name}-environ`);
    writeFileSync(first, "MACHINE_KEY=k-1\0OTHER=x\0");
    await boot({
      changes: [["tr '\\0' '\\n' </proc/1/environ", `tr '\\0' '\\n' <${first}; : >${first}.read`]],
      selfEnd: `[ "$(svc_env MACHINE_KEY)" = k-1 ] && echo ended >>${ending}`,
    });
    await until(() => existsSync(`${first}.read`), "the guard has read it");
    await looks(5);
    block(first);
    writeFileSync(file("keep"), "1\n");
    await until(ended, "two attempts");
  });

  it("calls its provider by another program if curl never answers", async () => {
    const bin = join(folder, `${name}-bin`);
    mkdirSync(bin);
    writeFileSync(join(bin, "curl"), `#!/bin/sh\necho $$ >>${bin}/pids\nexec sleep 1000\n`, { mode: 0o755 });
    writeFileSync(join(bin, "python3"), `#!/bin/sh\necho 1; echo "$*" >>${ending}\n`, { mode: 0o755 });
    const path: [string, string] = ["dir=$1\n", `dir=$1\nPATH=${bin}:$PATH\n`];
    await boot({
      changes: [path, ["wait_for $! 16", "wait_for $! 90"]],
      selfEnd: "svc_call DELETE https://example.invalid/me ''",
    });
    writeFileSync(file("keep"), "1\n");
    onTestFinished(() => {
      for (const pid of readFileSync(join(bin, "pids"), "utf8").trim().split("\n"))
        process.kill(Number(pid), "SIGKILL");
    });
    await until(() => times() > 0 && readFileSync(ending, "utf8").includes("example.invalid"), "a call");
  });
});
