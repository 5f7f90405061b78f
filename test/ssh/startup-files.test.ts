// Machines whose shell reads the input of our commands.
// @module-tag needs/sshd

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { MachineLink } from "../../src/ssh/machine-link.ts";
import { agentPath, never, TestMachine } from "./machine.ts";

let machine: TestMachine;
let link: MachineLink;
beforeEach(async () => {
  machine = await TestMachine.start();
  link = new MachineLink({
    machine: machine.name,
    endpoints: () => machine.endpoints,
    key: () => Promise.resolve(machine.key),
    pins: machine.pins,
    agentSource: () => readFileSync(agentPath),
    agentStartMs: 3_000,
  });
});
afterEach(async () => {
  link.close();
  await machine.close();
});

/** Whether the testing user's login shell reads `.bashrc` over SSH. */
const readsBashrc =
  userInfo().shell?.endsWith("/bash") === true &&
  spawnSync("sh", ["-c", "grep -q SSH_CLIENT /bin/bash || strings /bin/bash | grep -q SSH_CLIENT"]).status === 0;

// `runIf` would overrule the need in the file's head, so each test skips itself.
const NOT_READ = "the login shell of this user does not read .bashrc over SSH";

it.for(["cat >/dev/null", "read answer", "while read line; do :; done"])(
  "A .bashrc that swallows stdin with `%s` is reported, with what to do",
  async (line, { skip }) => {
    skip(!readsBashrc, NOT_READ);
    writeFileSync(join(machine.home, ".bashrc"), `${line}\n`);
    await expect(link.greet(never)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringMatching(/\.bashrc.*read the input.*return;; esac/) as string,
    });
  },
);

it("A .bashrc that only prints or that returns early does no harm", async ({ skip }) => {
  skip(!readsBashrc, NOT_READ);
  writeFileSync(join(machine.home, ".bashrc"), "echo hello\ncase $- in *i*) ;; *) return;; esac\ncat >/dev/null\n");
  await expect(link.greet(never)).resolves.toMatchObject({ home: machine.home });
});
