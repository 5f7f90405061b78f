// A machine's access as the steps use it: connected, filled with files, kept, forgotten; and the time that this takes.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { machineDir, RemoteMachines } from "../../src/ssh/remote-access.ts";
import { gate, runner } from "../runner/programs.ts";
import { agentPath, never, TestMachine } from "./machine.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-access-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let machine: TestMachine;
let machines: RemoteMachines;
const handle = (changes: Partial<MachineHandle> = {}): MachineHandle => ({
  v: 1,
  provider: "podhost",
  id: "i-1",
  name: machine.name,
  address: null,
  priceMicro: null,
  ssh: machine.endpoints,
  ...changes,
});
const pool = (agent = agentPath): RemoteMachines =>
  new RemoteMachines({
    home: machine.here,
    key: () => Promise.resolve(machine.key),
    pins: machine.pins,
    runner,
    agentText: () => readFileSync(agent),
    gateText: () => gate.text,
  });

beforeEach(async () => {
  machine = await TestMachine.start();
  machines = pool();
});
afterEach(async () => {
  machines.close();
  await machine.close();
});

/** An agent that believes its machine was started with this name. */
function agentOn(name: string): string {
  const path = join(folder, `agent-${name}.py`);
  const text = readFileSync(agentPath, "utf8");
  const changed = text.replace('name = first_process_variables().get("SVC_MACHINE")', `name = "${name}"`);
  expect(changed).not.toBe(text);
  writeFileSync(path, changed);
  return path;
}

describe("access to a machine", () => {
  it("greets it, and knows the folders of its run from then on", async () => {
    const access = machines.access(handle());
    expect(access.inPlace).toBe(false);
    expect(() => access.layout()).toThrow(expect.objectContaining({ code: "ssh_unreachable" }));
    expect(() => access.host("run")).toThrow(expect.objectContaining({ code: "ssh_unreachable" }));
    const facts = await access.greet(never);
    expect(facts).toMatchObject({
      home: machine.home,
      python: expect.stringMatching(/^\//),
      rsync: expect.any(Boolean),
    });
    const base = machineDir(machine.home, machine.name);
    expect(access.layout()).toEqual({
      project: `${base}/project`,
      checkpoints: `${base}/checkpoints`,
      data: `${base}/data`,
      packages: `${base}/packages`,
      environment: `${base}/environment`,
    });
    // A new control plane reads the home from the ledger, before it connects.
    const later = pool().access(handle({ extra: { home: "/home/u" } }));
    expect(later.layout().project).toBe(`/home/u/.svc-machine/${machine.name}/project`);
    for (const home of ["home", "/home/../etc", ""])
      expect(() =>
        pool()
          .access(handle({ extra: { home } }))
          .layout(),
      ).toThrow("svc has not logged in to it yet");
  });

  it("refuses a machine that claims to be another one, and accepts the right one", async () => {
    const wrong = pool(agentOn("svc-somebody-else"));
    await expect(wrong.access(handle()).greet(never)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringContaining('another one, "svc-somebody-else"'),
    });
    wrong.close();
    const right = pool(agentOn(machine.name));
    await right.access(handle()).greet(never);
    right.close();
  });

  it("refuses impossible facts", async () => {
    const path = join(folder, "liar.py");
    const text = readFileSync(agentPath, "utf8");
    for (const home of ["relative", "/a\\nb", "/", "x".repeat(3000)]) {
      writeFileSync(path, text.replace('home = os.path.expanduser("~")', `home = "${home}"`));
      const liar = pool(path);
      const greeted = liar.access(handle()).greet(never);
      if (home === "/") expect((await greeted).home).toBe("/");
      else await expect(greeted).rejects.toMatchObject({ code: "machine_unfit" });
      liar.close();
    }
  });

  it("leaves a machine that its owner keeps unchanged", async () => {
    const access = machines.access(handle());
    const facts = await access.greet(never);
    expect(facts.driver_pending).toBe(false);
    writeFileSync(join(folder, "train.py"), "pass");
    const { project } = access.layout();
    await access.push(
      { from: folder, to: project, files: [{ path: "train.py", size: 4, executable: false }], mirror: true },
      never,
    );
    expect(readFileSync(join(project, "train.py"), "utf8")).toBe("pass");
    await access.leave?.(never);
    await access.leave?.(never);
    expect(() => readFileSync(join(project, "train.py"))).toThrow(expect.objectContaining({ code: "ENOENT" }));
  });

  it("refuses a machine whose host key has changed, and sends it nothing", async () => {
    await machines.access(handle()).greet(never);
    machines.forget(machine.name);
    await machine.sshd.stop();
    machine.sshd.changeHostKey();
    await machine.sshd.start();
    await expect(machines.access(handle()).greet(never)).rejects.toMatchObject({ code: "host_key_changed" });
  });

  it("sends a tree there", async () => {
    const access = machines.access(handle());
    await access.greet(never);
    const from = join(folder, "tree");
    mkdirSync(join(from, "sub"), { recursive: true });
    writeFileSync(join(from, "train.py"), "print(1)\n");
    writeFileSync(join(from, "sub/x"), "x");
    const files = [
      { path: "train.py", size: 9, executable: false },
      { path: "sub/x", size: 1, executable: true },
    ];
    const to = access.layout().project;
    const pushed = await access.push({ from, to, files, mirror: true }, never);
    expect(pushed).toMatchObject({ files: 2, bytes: 10 });
    expect(readFileSync(join(to, "train.py"), "utf8")).toBe("print(1)\n");
  });

  it("follows a machine to another port, and shares one connection among all callers", async () => {
    const one = machines.access(handle());
    await one.greet(never);
    const [a, b] = [machines.access(handle()).host("run"), one.host("install")];
    await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? a : b).status(never)));
    expect(machine.sshd.log.match(/Accepted publickey/g)).toHaveLength(1);
    await machine.sshd.stop();
    machine.sshd.cut();
    machine.sshd.port = 0;
    await machine.sshd.start();
    machine.endpoints = [machine.sshd.endpoint];
    const moved = machines.access(handle()).host("run");
    const status = async () => moved.status(never).catch(() => "not yet");
    while ((await status()) === "not yet") await new Promise((resolve) => setTimeout(resolve, 20));
    // A caller with a host from before the move uses the new endpoint, too.
    expect(await b.status(never)).toBeNull();
  });

  it("ends when it is closed, although a run continues", async () => {
    const access = machines.access(handle());
    await access.greet(never);
    const host = access.host("run");
    const { runner_pid } = await host.start(machine.spec("sleep 60"), {}, never);
    machines.close();
    await expect(host.status(never)).rejects.toMatchObject({ code: "ssh_unreachable" });
    expect(spawnSync("kill", ["-0", String(runner_pid)]).status).toBe(0);
    await machines.access(handle()).greet(never);
    await machines.access(handle()).host("run").stop(0, never);
  });
});
