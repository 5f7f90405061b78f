// A run on a machine behind a real sshd: the promises of LocalHost, and the faults that only a connection can have.
// @module-tag needs/sshd

import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  writeSync,
  readSync,
  openSync,
  ftruncateSync,
  closeSync,
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { LocalHost } from "../../src/providers/local/local-host.ts";
import type { RemoteFile } from "../../src/providers/host.ts";
import { partOf } from "../../src/ssh/fetch-file.ts";
import { MachineLink } from "../../src/ssh/machine-link.ts";
import { RemoteHost } from "../../src/ssh/remote-host.ts";
import { agentPath, ended, never, runnerPath, TestMachine, until } from "./machine.ts";
import { relay, until as soon } from "./sshd.ts";

let machine: TestMachine;
const scratch = mkdtempSync(join(tmpdir(), "svc-remote-host-"));
beforeEach(async () => {
  machine = await TestMachine.start();
});
afterEach(() => machine.close());
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const checkpoints = (): string => join(machine.base, "checkpoints");

it("A machine whose clock is hours off has its log and samples in this computer's time", async () => {
  const wrong = (path: string): Buffer => {
    const shift = "import time\n_right = time.time_ns\ntime.time_ns = lambda: _right() + 3 * 3600 * 10**9\n";
    return Buffer.from(readFileSync(path, "utf8").replace("\n# ---- ", `\n${shift}# ---- `));
  };
  const link = new MachineLink({
    machine: machine.name,
    endpoints: () => machine.endpoints,
    key: () => Promise.resolve(machine.key),
    pins: machine.pins,
    agentSource: () => wrong(agentPath),
  });
  machine.links.push(link);
  const text = wrong(runnerPath);
  const digest = createHash("sha256").update(text).digest("hex");
  const runDir = join(machine.base, "run");
  const host = new RemoteHost({ machine: machine.name, runDir, runner: { text, digest }, agent: link.agent });
  machine.hosts.push(host);
  const before = Date.now();
  await host.start(machine.spec("echo one; sleep 1.5", { sample_seconds: 0.5 }), {}, never);
  const status = await ended(host);
  // The machine's own start time shows how wrong its clock is.
  expect(status.started_at_ms - before).toBeGreaterThan(2 * 3_600_000);
  const { times, clockAheadMs } = await host.readLog(0, 100, never);
  expect(clockAheadMs).toBeGreaterThan(2.9 * 3_600_000);
  const { samples } = await host.readSamples(0, never);
  expect(samples.length).toBeGreaterThan(0);
  for (const atMs of [...times.map((time) => time.atMs), ...samples.map((sample) => sample.at_ms)]) {
    expect(atMs).toBeGreaterThan(before - 60_000);
    expect(atMs).toBeLessThan(Date.now() + 60_000);
  }
});

describe("a run", () => {
  it("starts, returns its log with times and its samples, and ends with its code", async () => {
    const host = machine.host();
    expect(await host.status(never)).toBeNull();
    const spec = machine.spec("echo one; sleep 0.5; echo two; sleep 1.2; exit 3", { sample_seconds: 0.5 });
    const first = await host.start(spec, { TOKEN: "s3cret" }, never);
    expect(first).toMatchObject({ phase: "running", nonce: spec.nonce });
    const status = await ended(host);
    expect(status).toMatchObject({ phase: "exited", exit_code: 3, stopped: false, log_bytes: 8 });
    const { bytes, times } = await host.readLog(0, 100, never);
    expect(bytes.toString()).toBe("one\ntwo\n");
    expect(times.map((t) => t.offset)).toEqual([0, 4]);
    expect(times[1]!.atMs - times[0]!.atMs).toBeGreaterThan(50);
    expect((await host.readLog(4, 2, never)).bytes.toString()).toBe("tw");
    expect((await host.readLog(8, 2, never)).bytes).toHaveLength(0);
    const { samples, next } = await host.readSamples(0, never);
    expect(samples.length).toBeGreaterThanOrEqual(2);
    expect(samples[0]!.cpu_cores).not.toBeNull();
    expect((await host.readSamples(next, never)).samples).toEqual([]);
    expect(existsSync(join(host.runDir, "env.json"))).toBe(false);
    expect(statSync(host.runDir).mode & 0o777).toBe(0o700);
  });

  it("reports the same nonce instead of starting it twice, and refuses a second run at the same time", async () => {
    const host = machine.host();
    const spec = machine.spec(`echo once >>${machine.home}/count; sleep 60`);
    const answers = await Promise.all([1, 2, 3].map(() => host.start(spec, {}, never)));
    expect(new Set(answers.map((a) => a.runner_pid)).size).toBe(1);
    await expect(host.start(machine.spec("true"), {}, never)).rejects.toMatchObject({
      code: "runner_failed",
      message: expect.stringContaining("another run uses"),
    });
    await host.stop(0.2, never);
    expect(readFileSync(`${machine.home}/count`, "utf8")).toBe("once\n");
    expect((await host.start(spec, {}, never)).phase).toBe("exited");
  });

  it("passes secrets in no command line, and gives the script the right values", async () => {
    const host = machine.host();
    const spec = machine.spec('echo "$PLAIN $TOKEN ${SSH_CONNECTION-none} ${SVC_MACHINE-none}"; sleep 60', {
      env: { PLAIN: "plain" },
    });
    await host.start(spec, { TOKEN: "s3cret-value" }, never);
    expect(await until(host, "\n")).toBe("plain s3cret-value none none\n");
    const commands = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, "latin1");
        } catch {
          return "";
        }
      });
    expect(commands.filter((c) => c.includes("s3cret-value"))).toEqual([]);
  });

  it("reports an unrunnable script in the words of a local run", async () => {
    const missing = machine.spec(["./nothing"]);
    await expect(machine.host().start(missing, {}, never)).rejects.toMatchObject({
      code: "entrypoint_not_runnable",
      message: expect.stringContaining("does not exist"),
    });
    const nowhere = machine.spec("true", { cwd: join(machine.home, "nowhere") });
    await expect(machine.host(machine.link(), "install").start(nowhere, {}, never)).rejects.toMatchObject({
      code: "entrypoint_not_runnable",
      message: expect.stringContaining("working directory"),
    });
  });

  it("outlives the connection that started it, and is stopped over another one", async () => {
    const link = machine.link();
    const spec = machine.spec("trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.05; done");
    await machine.host(link).start(spec, {}, never);
    link.close();
    machine.sshd.cut();
    const again = machine.host();
    await until(again, "up");
    await again.stop(20, never);
    expect(await ended(again)).toMatchObject({ phase: "exited", exit_code: 5, stopped: true });
    await again.stop(20, never);
    expect((await again.readLog(0, 1000, never)).bytes.toString()).toContain("saved");
  });

  it("is lost when its runner is killed, and damaged when its status is", async () => {
    const host = machine.host();
    const { runner_pid } = await host.start(machine.spec("echo up; sleep 60"), {}, never);
    await until(host, "up");
    const gone = host.follow({ offset: 1 << 30, max: 0, seen: 1 << 30, waitMs: 20_000 }, never);
    process.kill(runner_pid, "SIGKILL");
    await gone;
    const lost = {
      phase: "failed",
      error:
        "the runner that supervised the script was killed, and the output and metrics that it had not read yet are lost",
      log_bytes: 3,
    };
    expect(await host.status(never)).toMatchObject(lost);
    // The same after nothing of the process is left, not even its entry in the process table.
    const path = join(host.runDir, "status.json");
    const told = JSON.parse(readFileSync(path, "utf8")) as object;
    writeFileSync(path, JSON.stringify({ ...told, runner_pid: spawnSync("true").pid }));
    expect(await host.status(never)).toMatchObject(lost);
    for (const text of ["{", '{"phase":"running"}', "[]"]) {
      writeFileSync(join(host.runDir, "status.json"), text);
      await expect(host.status(never)).rejects.toMatchObject({
        code: "run_damaged",
        message: expect.stringContaining("damaged"),
      });
    }
  });

  it("reports a change or the end of the run at once, and nothing before", async () => {
    const host = machine.host();
    const waits = (file: string): string => `until [ -e ${file} ]; do sleep 0.02; done`;
    const spec = machine.spec(`${waits("go")}; echo now; ${waits("go-on")}; exit 0`);
    await host.start(spec, {}, never);
    let woke = false;
    const grown = host.follow({ offset: 0, max: 0, seen: 0, waitMs: 30_000 }, never).then(() => (woke = true));
    await host.follow({ offset: 0, max: 0, seen: 0, waitMs: 200 }, never);
    expect(woke).toBe(false);
    writeFileSync(join(machine.home, "go"), "");
    await grown;
    const over = host.follow({ offset: 4, max: 0, seen: 4, waitMs: 30_000 }, never);
    writeFileSync(join(machine.home, "go-on"), "");
    await over;
    expect(await ended(host)).toMatchObject({ exit_code: 0 });
  });

  it("reports that the machine's disk is full", async (ctx) => {
    const base = join(machine.home, ".svc-machine");
    mkdirSync(base);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k,nr_inodes=100", "tmpfs", base]).status !== 0)
      return ctx.skip("no disks can be made here");
    try {
      spawnSync("sh", ["-c", `cat /dev/zero >${base}/fill`]);
      await expect(machine.host().start(machine.spec("true"), {}, never)).rejects.toMatchObject({
        code: "machine_disk_full",
        message: expect.stringContaining(`The disk of the machine ${machine.name} is full`),
      });
      expect(existsSync(join(machine.base, "run", "env.json"))).toBe(false);
    } finally {
      spawnSync("umount", [base]);
    }
  });

  it("frees the spool once the log was acknowledged", async () => {
    const host = machine.host();
    await host.start(
      machine.spec("head -c 300000 /dev/zero; echo end; sleep 60", { spool_cap_bytes: 100_000 }),
      {},
      never,
    );
    let at = 0;
    while (at < 300_004) {
      const { bytes } = await host.readLog(at, 1 << 20, never);
      at += bytes.length;
      await host.ackLog(at, never);
      await host.follow({ offset: at, max: 0, seen: at, waitMs: at < 300_004 ? 5_000 : 0 }, never);
    }
    const { bytes, dropped = 0 } = await host.readLog(0, 300_004, never);
    expect([dropped > 0, dropped + bytes.length, bytes.subarray(-4).toString()]).toEqual([true, 300_004, "end\n"]);
  });
});

describe("a link that breaks", () => {
  it("neither loses nor repeats a byte of the log", async () => {
    const host = machine.host();
    const lines = 200_000;
    // Fast enough that the cuts occur in the middle of answers.
    await host.start(machine.spec(`seq 1 ${lines / 2}; sleep 1; seq ${lines / 2 + 1} ${lines}`), {}, never);
    const want = Array.from({ length: lines }, (_, i) => `${i + 1}\n`).join("");
    const parts: Buffer[] = [];
    let at = 0;
    let cuts = 0;
    while (at < want.length) {
      try {
        const slice = host.readLog(at, 60_000, never);
        if (cuts < 12 && at > (cuts * want.length) / 12) {
          cuts++;
          machine.sshd.cut();
        }
        const { bytes } = await slice;
        parts.push(bytes);
        at += bytes.length;
        if (bytes.length === 0) await host.follow({ offset: at, max: 0, seen: at, waitMs: 5_000 }, never);
      } catch (e) {
        expect(e).toMatchObject({ code: "ssh_unreachable" });
      }
    }
    expect(cuts).toBe(12);
    expect(createHash("sha256").update(Buffer.concat(parts)).digest("hex")).toBe(
      createHash("sha256").update(want).digest("hex"),
    );
  });

  it("costs a checkpoint download only the bytes in flight", async () => {
    const wire = await relay({ host: machine.sshd.address, port: machine.sshd.port });
    machine.endpoints = [{ ...machine.sshd.endpoint, host: "127.0.0.1", port: wire.port }];
    const host = machine.host();
    mkdirSync(checkpoints(), { recursive: true });
    const size = 200 << 20;
    spawnSync("sh", ["-c", `head -c ${size} /dev/urandom >"$1"`, "sh", join(checkpoints(), "big.bin")]);
    await host.start(machine.spec("sleep 60"), {}, never);
    const [file] = await host.listCheckpoints(never);
    expect(file).toMatchObject({ path: "big.bin", size });
    const target = join(scratch, "big.bin");
    const part = partOf(target);
    const done = host.fetchCheckpoint(file!, target, never);
    for (const share of [0.2, 0.45, 0.8]) {
      await soon(
        () => existsSync(target) || (existsSync(part) && statSync(part).size >= share * size),
        `${share}`,
        60_000,
      );
      expect(existsSync(target)).toBe(false);
      wire.cut();
    }
    await done;
    const sum = (path: string): string => spawnSync("sha256sum", [path], { encoding: "utf8" }).stdout.slice(0, 64);
    expect(sum(target)).toBe(sum(join(checkpoints(), "big.bin")));
    expect(statSync(target).mode & 0o777).toBe(0o600);
    expect(statSync(target).mtimeMs).toBeCloseTo(file!.mtimeMs, 0);
    expect(existsSync(part)).toBe(false);
    wire.close();
  });

  it("is reported as ssh_unreachable when it stays broken", async () => {
    const host = machine.host();
    await host.start(machine.spec("sleep 60"), {}, never);
    await machine.sshd.stop();
    machine.links.at(-1)!.connection.close();
    await expect(host.status(never)).rejects.toMatchObject({ code: "ssh_unreachable" });
    await expect(host.readLog(0, 10, never)).rejects.toMatchObject({ code: "ssh_unreachable" });
    await machine.sshd.start();
    // A failure is remembered for a short time.
    const back = async (): Promise<string | undefined> => (await host.status(never).catch(() => null))?.phase;
    while ((await back()) !== "running") await new Promise((resolve) => setTimeout(resolve, 20));
  });
});

describe("checkpoints", () => {
  const listed = async (): Promise<RemoteFile[]> => {
    const host = machine.host();
    await host.start(machine.spec("sleep 60"), {}, never);
    return host.listCheckpoints(never);
  };

  it("are listed as LocalHost lists them", async () => {
    const top = checkpoints();
    mkdirSync(join(top, "a/b"), { recursive: true });
    writeFileSync(join(top, "a/b/one.pt"), "1");
    writeFileSync(join(top, "zwei ü.pt"), "22");
    writeFileSync(Buffer.from(`${top}/bad\xff`, "latin1"), "x");
    symlinkSync("/etc/passwd", join(top, "link"));
    symlinkSync("/etc", join(top, "folder"));
    symlinkSync("b/one.pt", join(top, "a/last.pt"));
    symlinkSync("../../a/b/one.pt", join(top, "a/b/up.pt"));
    symlinkSync(join(top, "a/b/one.pt"), join(top, "absolute.pt"));
    symlinkSync("a", join(top, "inner"));
    symlinkSync("inner/b/one.pt", join(top, "through.pt"));
    symlinkSync("a/last.pt", join(top, "twice.pt"));
    symlinkSync("nothing.pt", join(top, "dangling.pt"));
    symlinkSync(".", join(top, "self"));
    symlinkSync("pipe", join(top, "to-pipe"));
    symlinkSync(Buffer.from("bad\xff", "latin1"), join(top, "to-bad.pt"));
    spawnSync("mkfifo", [join(top, "pipe")]);
    const deep = join(top, ...Array<string>(34).fill("d"));
    mkdirSync(deep, { recursive: true });
    writeFileSync(join(deep, "deep.pt"), "x");
    const remote = await listed();
    const local = new LocalHost({ runDir: join(machine.base, "run"), runnerPath, python: "python3" });
    // The fraction of the milliseconds may differ in its last bit between the two languages.
    const byPath = (files: RemoteFile[]) =>
      files
        .map((file) => ({ ...file, mtimeMs: Math.trunc(file.mtimeMs) }))
        .toSorted((a, b) => (a.path < b.path ? -1 : 1));
    expect(byPath(remote)).toEqual(byPath(await local.listCheckpoints(never)));
    expect(remote.map((f) => f.path)).toContain("a/b/one.pt");
    const links = remote.filter((f) => f.leadsTo !== undefined);
    expect(links.map((f) => [f.path, f.leadsTo, f.size])).toEqual([
      ["absolute.pt", "a/b/one.pt", 1],
      ["to-bad.pt", "bad\udcff", 1],
      ["a/last.pt", "a/b/one.pt", 1],
      ["a/b/up.pt", "a/b/one.pt", 1],
    ]);
    expect(remote.find((f) => f.path === "dangling.pt")?.refused).toContain("broken symlink");
    const up = links.at(-1);
    await machine.hosts[0]!.fetchCheckpoint(up!, join(scratch, "up.pt"), never);
    expect(readFileSync(join(scratch, "up.pt"), "utf8")).toBe("1");
  });

  it("with names that are not UTF-8, or contain control characters, are downloaded by exactly those names", async () => {
    mkdirSync(join(checkpoints(), "dir\u0001"), { recursive: true });
    const raw = (bytes: string): Buffer => Buffer.from(`${checkpoints()}/${bytes}`, "latin1");
    for (const name of ["bad\xff", "bad\xfe", "dir\u0001/line\nend"])
      writeFileSync(raw(name), `content of ${name.length}${name.at(-1)}`);
    const files = await listed();
    expect(files.map(({ path }) => path).toSorted()).toEqual(["bad\udcfe", "bad\udcff", "dir\u0001/line\nend"]);
    const local = new LocalHost({ runDir: join(machine.base, "run"), runnerPath, python: "python3" });
    for (const host of [machine.hosts[0]!, local]) {
      for (const file of await host.listCheckpoints(never)) {
        const target = join(scratch, randomBytes(4).toString("hex"));
        await host.fetchCheckpoint(file, target, never);
        const name = file.path.replaceAll(/[\udc80-\udcff]/gu, (c) => String.fromCharCode(c.charCodeAt(0) - 0xdc00));
        expect(readFileSync(target, "utf8")).toBe(`content of ${name.length}${name.at(-1)}`);
      }
    }
  });

  it("with holes keep them: 100 GB of which some pages hold data need the space of those pages", async () => {
    mkdirSync(checkpoints(), { recursive: true });
    const size = 100 * 1024 ** 3;
    const fd = openSync(join(checkpoints(), "sparse.bin"), "w");
    const data = randomBytes(65_536);
    const places = [0, 7_000_000_000 - (7_000_000_000 % 65_536), size - 65_536 * 3];
    for (const at of places) writeSync(fd, data, 0, data.length, at);
    ftruncateSync(fd, size);
    closeSync(fd);
    const holes = openSync(join(checkpoints(), "empty.bin"), "w");
    ftruncateSync(holes, 2 ** 40);
    closeSync(holes);
    await listed();
    const local = new LocalHost({ runDir: join(machine.base, "run"), runnerPath, python: "python3" });
    for (const host of [machine.hosts[0]!, local]) {
      for (const file of await host.listCheckpoints(never)) {
        const target = join(scratch, randomBytes(4).toString("hex"));
        await host.fetchCheckpoint(file, target, never);
        const there = statSync(target);
        expect(there.size).toBe(file.size);
        expect(there.blocks * 512).toBeLessThan(4_000_000);
        if (file.path === "empty.bin") continue;
        const copy = openSync(target, "r");
        for (const at of places) {
          const read = Buffer.alloc(data.length);
          readSync(copy, read, 0, read.length, at);
          expect(read.equals(data)).toBe(true);
        }
        closeSync(copy);
      }
    }
  });

  it("are found next to a run folder that the script has removed", async () => {
    mkdirSync(checkpoints(), { recursive: true });
    writeFileSync(join(checkpoints(), "x.pt"), "x");
    const files = await listed();
    const host = machine.hosts[0]!;
    // The runner may write a file into it meanwhile.
    rmSync(host.runDir, { recursive: true, maxRetries: 10 });
    expect(await host.status(never)).toBeNull();
    expect(await host.listCheckpoints(never)).toEqual(files);
    await host.fetchCheckpoint(files[0]!, join(scratch, "x.pt"), never);
    expect(readFileSync(join(scratch, "x.pt"), "utf8")).toBe("x");
  });

  it("are refused as a whole if a symlink replaced their folder", async () => {
    const files = listed();
    await files;
    rmSync(checkpoints(), { recursive: true });
    symlinkSync("/etc", checkpoints());
    expect(await machine.hosts[0]!.listCheckpoints(never)).toEqual([
      expect.objectContaining({ path: "(all)", refused: expect.stringContaining("link") }),
    ]);
  });

  it("are downloaded as they were listed, or not at all", async () => {
    const top = checkpoints();
    mkdirSync(join(top, "sub"), { recursive: true });
    const content = randomBytes(3_000_001);
    writeFileSync(join(top, "sub/model.pt"), content);
    writeFileSync(join(top, "empty.pt"), "");
    const files = await listed();
    const host = machine.hosts[0]!;
    const find = (path: string): RemoteFile => files.find((f) => f.path === path)!;
    const target = join(scratch, randomBytes(4).toString("hex"));
    await host.fetchCheckpoint(find("sub/model.pt"), target, never);
    expect(readFileSync(target).equals(content)).toBe(true);
    await host.fetchCheckpoint(find("empty.pt"), `${target}.empty`, never);
    expect(statSync(`${target}.empty`).size).toBe(0);

    const refused = async (file: RemoteFile): Promise<void> => {
      const away = `${target}.no`;
      await expect(host.fetchCheckpoint(file, away, never)).rejects.toMatchObject({ code: "file_not_found" });
      expect(existsSync(away)).toBe(false);
    };
    appendFileSync(join(top, "sub/model.pt"), "x");
    await refused(find("sub/model.pt"));
    rmSync(join(top, "empty.pt"));
    await refused(find("empty.pt"));
    symlinkSync("/etc/hostname", join(top, "empty.pt"));
    await refused(find("empty.pt"));
    // A folder of the path became a link to another place.
    renameSync(join(top, "sub"), join(machine.home, "moved"));
    symlinkSync(join(machine.home, "moved"), join(top, "sub"));
    await refused(find("sub/model.pt"));
    for (const path of ["../run/spec.json", "/etc/passwd", "a/../../run/spec.json", "", ".", "sub//model.pt"])
      await refused({ ...find("sub/model.pt"), path });
    expect(readdirSync(scratch).filter((name) => name.includes(".part"))).toEqual([]);
  });

  it("are named if the user may not read them", async () => {
    mkdirSync(checkpoints(), { recursive: true });
    writeFileSync(join(checkpoints(), "x.pt"), "x");
    chmodSync(join(checkpoints(), "x.pt"), 0o000);
    const files = await listed();
    // Root reads everything; other users get a refusal.
    if (process.geteuid!() === 0) expect(files[0]).toMatchObject({ path: "x.pt", size: 1 });
    else expect(files[0]!.refused).toContain("permission denied");
  });
});
