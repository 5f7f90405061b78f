// The key for svc's logins, and the message for one that it cannot use.
// @module-tag needs/sshd
// @module-tag needs/ssh

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SvcError } from "../../src/errors/index.ts";
import { SshConnection } from "../../src/ssh/connection.ts";
import { HostKeyPins, keyOfLine } from "../../src/ssh/host-keys.ts";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { keygen, Sshd, until } from "./sshd.ts";

const never = new AbortController().signal;
const dir = mkdtempSync(join(tmpdir(), "svc-keys-"));
const home = join(dir, "home");
const pins = new HostKeyPins(home);
let sshd: Sshd;
let agent: ChildProcess;
const agentSocket = join(dir, "agent");

beforeAll(async () => {
  sshd = await Sshd.start();
  agent = spawn("ssh-agent", ["-D", "-a", agentSocket], { stdio: "ignore" });
  await until(() => statSync(agentSocket, { throwIfNoEntry: false })?.isSocket() === true, "the agent to listen");
});
afterAll(async () => {
  agent.kill();
  await sshd.close();
  rmSync(dir, { recursive: true, force: true });
});

const load = (path: string | null, socket = ""): ReturnType<typeof loadSshKey> =>
  loadSshKey({ path, home, agentSocket: socket });

/** The message for a key that cannot be used. */
async function why(path: string, socket = ""): Promise<string> {
  const e = (await load(path, socket).then(
    () => null,
    (thrown: unknown) => thrown,
  )) as SvcError | null;
  expect(e?.code).toBe("ssh_key_unusable");
  return (e as SvcError<"ssh_key_unusable">).data.why;
}

/** Logs in with it. */
async function works(path: string | null, socket = ""): Promise<void> {
  const key = await load(path, socket);
  sshd.authorize(key.publicKeyLine);
  const machine = `m-${Math.trunc(performance.now() * 1000)}`;
  const connection = new SshConnection({
    machine,
    endpoints: () => [sshd.endpoint],
    key: () => load(path, socket),
    pins,
  });
  const { stdout } = await connection.exec("echo in; echo ${SSH_AUTH_SOCK-none}", { signal: never });
  connection.close();
  expect(stdout.toString()).toBe("in\nnone\n");
}

describe("the key of this home", () => {
  test("is created when it is first needed, is private to its owner, and stays", async () => {
    const key = await load(null);
    expect(key).toMatchObject({ path: join(home, "ssh", "id_ed25519"), agent: null });
    expect(statSync(key.path).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "ssh")).mode & 0o777).toBe(0o700);
    expect(readFileSync(`${key.path}.pub`, "utf8")).toBe(`${key.publicKeyLine}\n`);
    const derived = spawnSync("ssh-keygen", ["-y", "-P", "", "-f", key.path], { encoding: "utf8" }).stdout;
    expect(keyOfLine(derived)?.equals(keyOfLine(key.publicKeyLine) as Buffer)).toBe(true);
    expect(await load(null)).toEqual(key);
    await works(null);
  });

  test("is one, however many processes create it at the same time", async () => {
    const other = join(dir, "race");
    const keys = await Promise.all(Array.from({ length: 12 }, () => loadSshKey({ path: null, home: other })));
    expect(new Set(keys.map((key) => key.publicKeyLine)).size).toBe(1);
    expect(new Set(keys.map((key) => key.privateKey)).size).toBe(1);
  });

  test("is not used if others may read it", async () => {
    const other = join(dir, "open");
    const { path } = await loadSshKey({ path: null, home: other });
    chmodSync(path, 0o644);
    await expect(loadSshKey({ path: null, home: other })).rejects.toThrow(`run chmod 600 ${path}`);
  });

  test("cannot be created if the home is not writable", async () => {
    writeFileSync(join(dir, "file"), "");
    await expect(loadSshKey({ path: null, home: join(dir, "file") })).rejects.toMatchObject({
      code: "ssh_key_unusable",
    });
  });
});

describe("a key of the user", () => {
  const formats: [string, string, string[]][] = [
    ["ed25519", "ed25519", []],
    ["rsa", "rsa", ["-b", "2048"]],
    ["rsa-pem", "rsa", ["-b", "2048", "-m", "PEM"]],
    ["rsa-pkcs8", "rsa", ["-b", "2048", "-m", "PKCS8"]],
    ["ecdsa", "ecdsa", ["-b", "384"]],
    ["ecdsa-pem", "ecdsa", ["-m", "PEM"]],
    ["ecdsa-pkcs8", "ecdsa", ["-m", "PKCS8"]],
  ];
  test.each(formats)("in the form %s logs in", async (name, type, more) => {
    keygen(join(dir, name), type, "", ...more);
    await works(join(dir, name));
    expect((await load(join(dir, name))).publicKeyLine).toBe(readFileSync(join(dir, `${name}.pub`), "utf8").trim());
  });

  test("needs no public key file, and ignores one that belongs to another key", async () => {
    keygen(join(dir, "alone"));
    const line = readFileSync(join(dir, "alone.pub"), "utf8").trim();
    rmSync(join(dir, "alone.pub"));
    expect((await load(join(dir, "alone"))).publicKeyLine).toBe(line.replace(/ test$/, ""));
    keygen(join(dir, "stranger"));
    writeFileSync(join(dir, "alone.pub"), readFileSync(join(dir, "stranger.pub")));
    expect(keyOfLine((await load(join(dir, "alone"))).publicKeyLine)?.equals(keyOfLine(line) as Buffer)).toBe(true);
  });

  test("may be named by ~", async () => {
    await expect(load("~/svc-no-such-key")).rejects.toThrow(/\/svc-no-such-key cannot be used: there is no such file/);
  });

  test("is reported with a remedy if it cannot be used", async () => {
    keygen(join(dir, "good"));
    const file = (name: string, text: string | Buffer, mode = 0o600): string => {
      writeFileSync(join(dir, name), text, { mode });
      chmodSync(join(dir, name), mode);
      return join(dir, name);
    };
    const good = readFileSync(join(dir, "good"), "utf8");
    expect(await why(join(dir, "missing"))).toBe("there is no such file");
    expect(await why(join(dir, "good", "below"))).toBe("there is no such file");
    expect(await why(dir)).toBe("it is a directory, not a key");
    expect(await why(file("laxer", good, 0o640))).toContain(`(mode 640), and ssh refuses such keys: run chmod 600`);
    expect(await why(join(dir, "good.pub"))).toContain("it is a public key: name the private one");
    expect(await why(file("empty", ""))).toBe("it is empty");
    expect(await why(file("text", "hello"))).toBe("it is not an SSH private key");
    expect(await why(file("binary", Buffer.alloc(5000, 0xff)))).toBe("it is not an SSH private key");
    expect(await why(file("cut", `${good.slice(0, 150)}\n-----END OPENSSH PRIVATE KEY-----\n`))).toMatch(
      /^it is damaged/,
    );
    expect(await why(file("putty", "PuTTY-User-Key-File-3: ssh-ed25519\n"))).toContain("puttygen");
    expect(await why(file("cert", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))).toContain(
      "certificate",
    );
    const pkcs8 = generateKeyPairSync("ed25519").privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    expect(await why(file("pkcs8", pkcs8))).toContain("ssh-keygen -t ed25519");
    truncateSync(file("huge", ""), 10_000_000_000);
    expect(await why(join(dir, "huge"))).toContain("10000000000 bytes");
    spawnSync("mkfifo", ["-m", "600", join(dir, "fifo")]);
    expect(await why(join(dir, "fifo"))).toBe("it is not a plain file");
    mkdirSync(join(dir, "sub"));
  });
});

describe("a key with a passphrase", () => {
  const asked = join(dir, "askpass");
  const add = (path: string): void => {
    writeFileSync(asked, "#!/bin/sh\necho 'open sesame'\n", { mode: 0o700 });
    const env = { ...process.env, SSH_AUTH_SOCK: agentSocket, SSH_ASKPASS: asked, SSH_ASKPASS_REQUIRE: "force" };
    const added = spawnSync("ssh-add", [path], { env, stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" });
    expect(added.stderr).toContain("Identity added");
  };

  test.each([
    ["locked", []],
    ["locked-pem", ["-m", "PEM", "-b", "2048"]],
    ["locked-pkcs8", ["-m", "PKCS8", "-b", "2048"]],
  ])("%s: the agent signs if it holds the key; else the error says how to add the key", async (name, more) => {
    const path = join(dir, name);
    keygen(path, name === "locked" ? "ed25519" : "rsa", "open sesame", ...more);
    expect(await why(path)).toBe(
      `it has a passphrase, and no SSH agent runs (SSH_AUTH_SOCK is not set): run ssh-add ${path}`,
    );
    expect(await why(path, join(dir, "no-agent"))).toContain("does not answer");
    expect(await why(path, agentSocket)).toContain(`the SSH agent does not hold it: run ssh-add ${path}`);
    add(path);
    expect(await load(path, agentSocket)).toMatchObject({ privateKey: null, agent: agentSocket });
    await works(path, agentSocket);
  });

  test("shows the machine no other key of the agent", async () => {
    keygen(join(dir, "other-locked"), "ed25519", "open sesame");
    add(join(dir, "other-locked"));
    sshd.authorize(readFileSync(join(dir, "other-locked.pub"), "utf8").trim());
    const key = await load(join(dir, "locked"), agentSocket);
    const options = { machine: "one-key", endpoints: () => [sshd.endpoint], key: () => Promise.resolve(key), pins };
    await expect(new SshConnection(options).ready(never)).rejects.toMatchObject({ code: "ssh_refused" });
  });

  test("does not block if the agent never answers", async () => {
    const socket = join(dir, "deaf");
    const deaf = createServer(() => {}).listen(socket);
    await once(deaf, "listening");
    expect(await why(join(dir, "locked"), socket)).toContain("the SSH agent does not answer");
    deaf.close();
  });
});
