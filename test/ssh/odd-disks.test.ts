// Machines on which files cannot be written as on any other: limits on the size of files, disks that take no bytes although they have room, no tar.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SvcError } from "../../src/errors/index.ts";
import type { TreePush } from "../../src/providers/host.ts";
import { RemoteHost } from "../../src/ssh/remote-host.ts";
import { pushTree } from "../../src/ssh/tree.ts";
import { runner } from "../runner/programs.ts";
import { ended, never, TestMachine, until } from "./machine.ts";

let folder: string;
let machine: TestMachine | undefined;
let mounted: string | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-odd-"));
});
afterEach(async () => {
  for (const host of machine?.hosts ?? []) await host.stop(0, never).catch(() => undefined);
  if (mounted !== undefined) spawnSync("umount", ["-l", mounted]);
  await machine?.close();
  [machine, mounted] = [undefined, undefined];
  rmSync(folder, { recursive: true, force: true });
});

/** A machine on which these lines of a shell come before every command. */
async function machineWith(lines: string): Promise<TestMachine> {
  const script = join(folder, "first.sh");
  writeFileSync(script, `#!/bin/sh\n${lines}\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n`);
  chmodSync(script, 0o755);
  machine = await TestMachine.start({ config: [`ForceCommand ${script}`] });
  return machine;
}

/** What a push needs to know of a machine. */
async function reached(of: TestMachine) {
  const { connection } = of.link();
  await connection.ready(never);
  return { name: of.name, key: of.key, pins: of.pins, connection, endpoint: connection.endpoint() };
}

/** A folder with only these programs, for a PATH. */
function programs(...names: string[]): string {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const name of names)
    symlinkSync(spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim(), join(bin, name));
  return bin;
}

function project(bytes: number): TreePush {
  const from = join(folder, "project");
  mkdirSync(from, { recursive: true });
  const content = randomBytes(bytes);
  writeFileSync(join(from, "weights"), content);
  const files = [{ path: "weights", size: bytes, executable: false }];
  return { from, to: join(machine?.base ?? "", "project"), files, mirror: true };
}

const failure = (thrown: Promise<unknown>): Promise<SvcError> =>
  thrown.then(
    () => expect.unreachable(),
    (e: SvcError) => e,
  );

describe("a limit on the size of files (`ulimit -f`)", () => {
  it.each(["tar", "standing", "own"] as const)("ends a push at once, with its name (%s)", async (way) => {
    const { name, key, pins, ...found } = await reached(await machineWith("ulimit -f 64"));
    const rsync = way === "tar" ? null : way;
    const e = await failure(
      pushTree({ ...found, machine: name, key, pins, rsync, signal: never, tree: project(1_000_000) }),
    );
    expect([e.code, e.retry, e.message]).toEqual(["machine_unfit", "never", expect.stringContaining("ulimit -f")]);
  });

  it("keeps no run from starting twice: the machine is unfit for svc's own files", async () => {
    const host = (await machineWith("ulimit -f 8")).host();
    const e = await failure(host.start((machine as TestMachine).spec("true"), {}, never));
    expect([e.code, e.message]).toEqual(["machine_unfit", expect.stringContaining("ulimit -f")]);
  });

  it("does not stop a log that is longer", async () => {
    const host = (await machineWith("ulimit -f 1024")).host();
    await host.start((machine as TestMachine).spec("head -c 3000000 /dev/zero; echo LAST"), {}, never);
    expect(await ended(host)).toMatchObject({ phase: "exited", exit_code: 0, log_bytes: 3_000_005 });
  });
});

describe("a disk that takes no bytes although it has room", { tags: "needs/mounts" }, () => {
  it("is reported while a run is on it", async () => {
    machine = await TestMachine.start();
    mounted = machine.base;
    mkdirSync(mounted, { recursive: true });
    const options = "size=20m,nr_inodes=60";
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", options, "svc-test", mounted]).status).toBe(0);
    const host = machine.host();
    await host.start(machine.spec("echo up; exec sleep 600", { cwd: "/" }), {}, never);
    await until(host, "up\n");
    expect(await host.status(never)).toMatchObject({ disk_fault: null });
    expect(() => {
      for (let n = 0; n < 60; n++) writeFileSync(join(machine?.base ?? "", String(n)), "");
    }).toThrow("ENOSPC");
    // Another connection has an agent of its own, which has not tried yet.
    const look = await machine.host(machine.link()).status(never);
    expect(look).toMatchObject({ phase: "running", disk_fault: "ENOSPC" });
    expect(look?.disk_free).toBeGreaterThan(10_000_000);
    for (let n = 0; n < 60; n++) rmSync(join(machine.base, String(n)), { force: true });
  });

  it("keeps no run from being followed and ended once it is read-only", async () => {
    machine = await TestMachine.start();
    const host = machine.host();
    await host.start(machine.spec("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"), {}, never);
    await until(host, "up\n");
    mounted = join(folder, "read-only");
    mkdirSync(mounted);
    expect(spawnSync("mount", ["--bind", machine.base, mounted]).status).toBe(0);
    expect(spawnSync("mount", ["-o", "remount,ro,bind", mounted]).status).toBe(0);
    const { agent } = machine.link();
    const readOnly = new RemoteHost({ machine: machine.name, runDir: join(mounted, "run"), runner, agent });
    expect(await readOnly.status(never)).toMatchObject({ phase: "running", disk_fault: "EROFS" });
    await readOnly.ackLog(3, never);
    await readOnly.stop(5, never);
    expect(await host.status(never)).toMatchObject({ phase: "exited", exit_code: 5, stopped: true });
    const e = await failure(readOnly.start(machine.spec("true"), {}, never));
    expect([e.code, e.message]).toEqual(["machine_unfit", expect.stringContaining("read-only")]);
  });
});

it("A full disk of a machine that speaks German is a full disk", { tags: "needs/mounts" }, async ({ skip }) => {
  const locale = join(folder, "de_DE.UTF-8");
  const german = { ...process.env, LOCPATH: folder, LC_ALL: "de_DE.UTF-8" };
  spawnSync("localedef", ["-i", "de_DE", "-f", "UTF-8", locale]);
  const said = spawnSync("tar", ["-tf", join(folder, "missing")], { env: german, encoding: "utf8" }).stderr;
  skip(!/nicht/.test(said), "tar cannot speak German here");
  const { name, key, pins, ...found } = await reached(
    await machineWith(`LOCPATH=${folder}; LC_ALL=de_DE.UTF-8; export LOCPATH LC_ALL`),
  );
  mounted = join(machine?.home ?? "", ".svc-machine");
  mkdirSync(mounted);
  expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=100k", "svc-test", mounted]).status).toBe(0);
  const push = { ...found, machine: name, key, pins, rsync: null, signal: never, tree: project(1_000_000) };
  expect((await failure(pushTree(push))).code).toBe("machine_disk_full");
});

describe("a machine without tar", () => {
  it("gets a small project by rsync", async () => {
    const bin = programs("sh", "mkdir", "cat", "find", "wc", "mv", "rm", "xargs", "rmdir", "rsync", "python3");
    const link = (await machineWith(`PATH=${bin}; export PATH`)).link();
    const tree = project(1_000);
    expect(await link.push(tree, never)).toMatchObject({ files: 1, how: "rsync" });
    expect(readFileSync(join(tree.to, "weights")).length).toBe(1_000);
  });

  it("is unfit at once without rsync, because of its image", async () => {
    const bin = programs("sh", "mkdir", "cat", "find", "wc", "mv", "rm", "xargs", "rmdir", "python3");
    const link = (await machineWith(`PATH=${bin}; export PATH`)).link();
    const e = await failure(link.push(project(1_000), never));
    expect([e.code, e.message, e.data]).toEqual([
      "machine_unfit",
      expect.stringContaining("neither rsync nor tar"),
      expect.objectContaining({ image: true }),
    ]);
    expect(existsSync(join((machine as TestMachine).base, "project", "weights"))).toBe(false);
  });
});
