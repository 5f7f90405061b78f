// A machine on which nothing more can be started for a while, because the run's script uses up its memory or its processes.
// @module-tag needs/sshd

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { SvcError } from "../../src/errors/index.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { RemoteMachines } from "../../src/ssh/remote-access.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { gate, runner } from "../runner/programs.ts";
import { agentPath, never, TestMachine } from "./machine.ts";

let folder: string;
let machine: TestMachine;
let machines: RemoteMachines;
/** Shell lines that come before every command. */
const first = (lines: string): void => writeFileSync(join(folder, "first"), `${lines}\n`);
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "svc-exhausted-"));
  first("");
  const script = join(folder, "forced.sh");
  writeFileSync(script, `#!/bin/sh\n. ${folder}/first\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n`);
  chmodSync(script, 0o755);
  machine = await TestMachine.start({ config: [`ForceCommand ${script}`] });
  machines = pool();
});
afterEach(async () => {
  machines.close();
  await machine.close();
  rmSync(folder, { recursive: true, force: true });
});

const pool = (): RemoteMachines =>
  new RemoteMachines({
    home: machine.here,
    key: () => Promise.resolve(machine.key),
    pins: machine.pins,
    runner,
    agentText: () => readFileSync(agentPath),
    gateText: () => gate.text,
  });
const handle = (extra: MachineHandle["extra"] = {}): MachineHandle => ({
  v: 1,
  provider: "podhost",
  id: "i-1",
  name: machine.name,
  address: null,
  priceMicro: null,
  ssh: machine.endpoints,
  extra,
});
const FORK = "echo 'fork: retry: Resource temporarily unavailable' >&2; exit 254";

it.for([
  ["starts nothing", FORK],
  ["starts a shell, and no Python", "echo 'SVC-AGENT none'; exit 127"],
])("A machine that %s now is unfit at first, and only busy once it has served svc", async ([, lines = ""]) => {
  first(lines);
  // On a busy computer the connection may end before the shell's exit code arrives: then it is tried again, as `await_ssh` does.
  const codeAtFirst = (): Promise<unknown> =>
    machines
      .access(handle())
      .greet(never)
      .catch((e: unknown) => (e as SvcError).code);
  await expect.poll(codeAtFirst, { timeout: DEADLINE_MS }).toBe("machine_unfit");
  machines.close();
  // The ledger says that an earlier control plane has used it.
  const known = pool();
  const access = known.access(handle({ home: machine.home }));
  await expect(access.greet(never)).rejects.toMatchObject({ code: "ssh_unreachable" });
  first("");
  await expect(access.greet(never)).resolves.toMatchObject({ home: machine.home });
  known.close();
});
