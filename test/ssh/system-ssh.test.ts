// OpenSSH's own client with svc's arguments, and rsync's way of splitting them.
// @module-tag needs/sshd
// @module-tag needs/ssh
// @module-tag needs/rsync

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HostKeyPins, keyOfLine } from "../../src/ssh/host-keys.ts";
import { loadSshKey, type SshKey } from "../../src/ssh/keys.ts";
import { sshArguments, sshForRsync, type SystemSshOptions } from "../../src/ssh/system-ssh.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Sshd } from "./sshd.ts";

const home = mkdtempSync(join(tmpdir(), `svc sy's "100%" ${String.raw`\d`} `));
const pins = new HostKeyPins(home);
let key: SshKey;
let sshd: Sshd;

beforeAll(async () => {
  key = await loadSshKey({ path: null, home });
  sshd = await Sshd.start({ authorizedKeys: [key.publicKeyLine], config: ["PermitTTY yes"] });
  pins.pin("m-1", keyOfLine(sshd.hostKeyLine) as Buffer);
});
afterAll(async () => {
  await sshd.close();
  rmSync(home, { recursive: true, force: true });
});

const options = (more: Partial<SystemSshOptions> = {}): SystemSshOptions => ({
  machine: "m-1",
  endpoint: sshd.endpoint,
  key,
  pins,
  ...more,
});
const ssh = (
  more: Partial<SystemSshOptions>,
  ...command: string[]
): { code: number | null; out: string; err: string } => {
  const done = spawnSync("ssh", [...sshArguments(options(more)), ...command], {
    encoding: "utf8",
    timeout: DEADLINE_MS,
  });
  return { code: done.status, out: done.stdout, err: done.stderr };
};

test("The ssh command of svc logs in, with any text in the path of the home; no agent is forwarded", () => {
  const agent = "echo ${SSH_AUTH_SOCK-none}";
  expect(ssh({}, agent)).toMatchObject({ code: 0, out: "none\n" });
  expect(ssh({ interactive: true }, "exit 7").code).toBe(7);
});

test("The ssh command of svc never passes the host as an option: it comes last, after --", () => {
  const words = sshArguments(options());
  expect(words.slice(-2)).toEqual(["--", "machine"]);
  expect(words.slice(0, 2)).toEqual(["-F", "none"]);
  expect(words).toContain("ForwardAgent=no");
  expect(words).toContain("StrictHostKeyChecking=yes");
});

test("The ssh command of svc refuses a machine without a pin, and one whose key changed", () => {
  expect(ssh({ machine: "m-unknown" }, "echo in")).toMatchObject({ code: 255, out: "" });
  pins.pin("m-changed", keyOfLine(key.publicKeyLine) as Buffer);
  const changed = ssh({ machine: "m-changed" }, "echo in");
  expect(changed).toMatchObject({ code: 255, out: "" });
  expect(changed.err).toContain("Host key verification failed");
});

test("The ssh command of svc goes through a proxy command, which receives host and port", () => {
  const told = join(tmpdir(), `svc-told-${process.pid}`);
  const real = `python3 -c 'import sys;open("${told}","w").write(" ".join(sys.argv[1:]))' %h %p; exit 1`;
  expect(ssh({ endpoint: { ...sshd.endpoint, proxyCommand: real } }, "true").code).toBe(255);
  expect(readFileSync(told, "utf8")).toBe(`${sshd.address} ${sshd.port}`);
  rmSync(told);
});

test("The ssh command of svc times out on an address without an answer", async () => {
  const endpoint = { ...sshd.endpoint, port: 1 };
  expect(ssh({ endpoint }, "true").err).toContain("Connection refused");
});

test("rsync splits the words exactly", async () => {
  const shown = join(home, "show.sh");
  writeFileSync(shown, `#!/bin/sh\nprintf '%s\\n' "$@" >"$SHOWN"\nexit 1\n`, { mode: 0o755 });
  const bin = mkdtempSync(join(tmpdir(), "svc-bin-"));
  writeFileSync(join(bin, "ssh"), readFileSync(shown), { mode: 0o755 });
  const out = join(bin, "words");
  const child = spawn("rsync", ["-e", sshForRsync(options()), "--", `${home}/`, "machine:/x/"], {
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"]}`, SHOWN: out },
    stdio: "ignore",
  });
  await new Promise((resolve) => child.on("close", resolve));
  const words = readFileSync(out, "utf8").split("\n");
  expect(words.slice(0, sshArguments(options()).length)).toEqual(sshArguments(options()));
  rmSync(bin, { recursive: true });
});
