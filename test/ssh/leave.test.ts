// A machine that its owner keeps, and that svc cannot reach at the end of a run: the message, and the end of the
// script.
// @module-tag needs/sshd

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { machineDir, RemoteMachines } from "../../src/ssh/remote-access.ts";
import { awaitSshStep } from "../../src/steps/await-ssh.ts";
import { endLeftovers, leave, NOT_LEFT } from "../../src/steps/rental/release-borrowed.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import { terminateStep } from "../../src/steps/terminate.ts";
import { INSTALLATION, removeHomes } from "../engine/harness.ts";
import { Rent } from "../steps/rent.ts";
import { gate, runner } from "../runner/programs.ts";
import { agentPath, never, TestMachine } from "./machine.ts";
import { until } from "./sshd.ts";

let rent: Rent;
let machine: TestMachine;
let machines: RemoteMachines;
beforeEach(async () => {
  [rent, machine] = [await Rent.open(), await TestMachine.start()];
  const { key, pins, here } = machine;
  machines = new RemoteMachines({
    home: here,
    key: () => Promise.resolve(key),
    pins,
    runner,
    agentText: () => readFileSync(agentPath),
    gateText: () => gate.text,
  });
  Object.assign(rent.cloud.info.capabilities, { owns_machine: false });
  rent.cloud.access = (handle) => machines.access(handle);
  await rent.h.create("job1");
});
afterEach(async () => {
  machines.close();
  await Promise.all([machine.close(), rent.h.end()]);
});
afterAll(removeHomes);

const named = (name: string): MachineHandle => ({
  v: 1,
  provider: "notebook",
  id: "at-1",
  name,
  address: null,
  priceMicro: 0,
  ssh: machine.endpoints,
});
const isAlive = (pid: number): boolean => {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) && !/\) Z /.test(readFileSync(path, "utf8"));
};

/** A script that the job's first order has started on the machine, as the ledger records it. */
async function started(): Promise<{ handle: MachineHandle; pid: number; folder: string }> {
  await rent.run(provisionStep);
  const name = rent.name(1);
  const access = machines.access(named(name));
  const { home } = await access.greet(never);
  const handle = { ...named(name), id: "pod-1", extra: { home } };
  await rent.ledger.known(name, handle);
  const folder = machineDir(home, name);
  mkdirSync(join(folder, "checkpoints"), { recursive: true });
  const { pid } = await access.host("run").start(machine.spec("exec sleep 600"), { TOKEN: "secret" }, never);
  if (pid === null) throw new Error("the script has no process");
  return { handle, pid, folder };
}

it("The release of a notebook says that the script may still run, and the next run there ends it", async () => {
  const { handle, pid, folder } = await started();
  await machine.sshd.stop();
  machines.forget(handle.name);

  expect(await rent.run(terminateStep)).toHaveProperty("done");
  expect(rent.ledger.row(handle.name)?.state).toBe("released");
  expect(rent.h.reads.job("job1")?.note).toEqual(NOT_LEFT);
  expect(isAlive(pid)).toBe(true);

  await machine.sshd.start();
  const next = { ...named(rent.name(2)), id: rent.cloud.add(rent.name(2)).id };
  await rent.ledger.intend({
    name: next.name,
    jobId: "job1",
    node: 0,
    ordinal: 2,
    provider: "notebook",
    horizonAt: rent.h.clock.now(),
  });
  await rent.ledger.held(next.name, next);
  const services = { ...rent.ports, guard: () => null } as unknown as RunServices;
  expect(await rent.run(() => awaitSshStep(services))).toMatchObject({
    done: {},
    detail: { home: machine.home, ended_leftovers_of: [handle.name] },
  });
  await until(() => !isAlive(pid), "the script to end");
  expect(existsSync(folder)).toBe(false);
  expect(rent.ledger.row(handle.name)).toMatchObject({ state: "released", note: null });
});

it("The release of a notebook ends nothing of an active run, of another installation, or of another user", async () => {
  const { handle, pid } = await started();
  const others = ["svc-0therone-job1-n0-1", "notes"];
  for (const name of others) mkdirSync(machineDir(machine.home, name));
  const access = machines.access(named(`svc-${INSTALLATION.slice(0, 8)}-job2-n0-1`));
  const facts = await access.greet(never);
  expect(facts.beside).toEqual(expect.arrayContaining([handle.name, "svc-0therone-job1-n0-1"]));
  const held = { provider: rent.cloud, handle: named("svc-new"), access };
  expect(await endLeftovers(rent.ports, held, facts, never)).toEqual([]);
  expect(isAlive(pid)).toBe(true);
  for (const name of others) expect(existsSync(machineDir(machine.home, name))).toBe(true);
});

it("The release of a notebook has nothing to leave if nothing was put there, and leaves a reached machine silently", async () => {
  expect(await leave(rent.cloud, named("svc-never-greeted"), never)).toBe(true);
  const { handle, pid, folder } = await started();
  expect(await rent.run(terminateStep)).toHaveProperty("done");
  await until(() => !isAlive(pid), "the script to end");
  expect([existsSync(folder), rent.ledger.row(handle.name)?.note]).toEqual([false, null]);
});
