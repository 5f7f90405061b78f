// Pins of host keys, as svc reads them and as OpenSSH does.
// @module-tag needs/ssh

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HostKeyPins, keyOfLine, keyType } from "../../src/ssh/host-keys.ts";
import { keygen } from "./sshd.ts";

const home = mkdtempSync(join(tmpdir(), "svc-pins-"));
const pins = new HostKeyPins(home);
const keys: Buffer[] = [];

beforeAll(() => {
  for (const type of ["ed25519", "ecdsa", "rsa"]) {
    keygen(join(home, type), type);
    keys.push(keyOfLine(readFileSync(join(home, `${type}.pub`), "utf8")) as Buffer);
  }
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

test("a key is new, then the same; any other is changed, until it is forgotten", () => {
  const [first, second] = keys as [Buffer, Buffer];
  expect(pins.check("m-1", first)).toBe("new");
  pins.pin("m-1", first);
  expect([pins.check("m-1", first), pins.check("m-1", second), pins.check("m-2", first)]).toEqual([
    "same",
    "changed",
    "new",
  ]);
  pins.pin("m-1", second);
  expect(pins.check("m-1", second)).toBe("changed");
  expect(new HostKeyPins(home).check("m-1", first)).toBe("same");
  expect(statSync(pins.file("m-1")).mode & 0o777).toBe(0o600);
  pins.forget("m-1");
  pins.forget("m-1");
  expect(pins.check("m-1", second)).toBe("new");
});

test("several keys that a provider published all count, and OpenSSH finds them by the machine's name", () => {
  pins.pin("m-3", ...keys);
  expect(keys.map((key) => pins.check("m-3", key))).toEqual(["same", "same", "same"]);
  expect(pins.types("m-3")).toEqual(["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"]);
  const found = spawnSync("ssh-keygen", ["-F", "m-3", "-f", pins.file("m-3")], { encoding: "utf8" }).stdout;
  expect(found.match(/^m-3 /gm)?.length).toBe(3);
});

test("an unreadable pin refuses every key", () => {
  writeFileSync(pins.file("m-4"), "garbage\n");
  expect(pins.check("m-4", keys[0] as Buffer)).toBe("changed");
  writeFileSync(pins.file("m-4"), "");
  expect(pins.check("m-4", keys[0] as Buffer)).toBe("changed");
});

test("a machine's name cannot lead to another file", () => {
  for (const name of ["../x", "", ".", "..", "a/b", "a b", "-x", "a\n", "x".repeat(129)]) {
    expect(() => pins.file(name), name).toThrow("no name of a machine");
  }
});

test("a line is a key only if both its halves agree", () => {
  const line = readFileSync(join(home, "ed25519.pub"), "utf8");
  expect(keyType(keyOfLine(line) as Buffer)).toBe("ssh-ed25519");
  expect(keyOfLine(`host ${line}`)).not.toBeNull();
  expect(keyOfLine(line.replace("ssh-ed25519", "ssh-rsa"))).toBeNull();
  for (const other of ["", "ssh-ed25519", "ssh-ed25519 AAAA", "hello world", "-----BEGIN"])
    expect(keyOfLine(other)).toBeNull();
});
