// Pins the host key that each machine showed when it was first reached. Addresses are reused by other people's
// machines; names of machines never are, so keys are pinned by name.

import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { assert } from "../errors/assert.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { systemCode } from "../errors/index.ts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const LINE = /^\S+ ([a-z0-9@.-]+) ([A-Za-z0-9+/]+={0,2})$/;

/** One file in OpenSSH's known_hosts format for each machine, in which the machine's name is the host alias. */
export class HostKeyPins {
  readonly #folder: string;

  constructor(home: string) {
    this.#folder = homeLayout.knownHosts(home);
  }

  /** The path of this machine's pin, for OpenSSH's `UserKnownHostsFile`. */
  file(name: string): string {
    assert(NAME.test(name), `no name of a machine: ${name}`);
    return join(this.#folder, name);
  }

  /** `new` if nothing is pinned. An unreadable pin file counts as `changed`, so nothing gets through. */
  check(name: string, key: Buffer): "new" | "same" | "changed" {
    const pinned = this.#read(name);
    if (pinned === null) return "new";
    return pinned.some((each) => each.equals(key)) ? "same" : "changed";
  }

  /** The types of the keys that are pinned, such as `ssh-ed25519`. */
  types(name: string): string[] {
    return (this.#read(name) ?? []).map(keyType);
  }

  /**
   * Pins the key that the machine showed, or beforehand the keys that its provider published. An existing pin stays: if
   * two callers pin at the same time, one wins, and the other finds its key `changed` at its next check.
   */
  pin(name: string, ...keys: readonly Buffer[]): void {
    assert(keys.length > 0, "nothing to pin");
    const file = this.file(name);
    mkdirSync(dirname(dirname(file)), { recursive: true, mode: 0o700 });
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const temporary = join(this.#folder, `.${name}.${randomBytes(6).toString("hex")}`);
    const text = keys.map((key) => `${name} ${keyType(key)} ${key.toString("base64")}\n`).join("");
    writeFileSync(temporary, text, { mode: 0o600, flag: "wx", flush: true });
    try {
      linkSync(temporary, file);
    } catch (e) {
      if (systemCode(e) !== "EEXIST") throw e;
    } finally {
      rmSync(temporary, { force: true });
    }
  }

  /** For a machine that is gone for good. */
  forget(name: string): void {
    rmSync(this.file(name), { force: true });
  }

  #read(name: string): Buffer[] | null {
    let text: string;
    try {
      text = readFileSync(this.file(name), "utf8");
    } catch (e) {
      if (systemCode(e) === "ENOENT") return null;
      throw e;
    }
    return text.split("\n").flatMap((line) => {
      const found = LINE.exec(line.trim());
      return found?.[2] ? [Buffer.from(found[2], "base64")] : [];
    });
  }
}

/** The key in a line of known_hosts, authorized_keys or a .pub file; null if the line has none. */
export function keyOfLine(line: string): Buffer | null {
  const found = /(?:^|\s)((?:ssh|ecdsa|sk)-[a-z0-9@.-]+) ([A-Za-z0-9+/]+={0,2})(?:\s|$)/.exec(line);
  if (!found?.[1] || !found[2]) return null;
  const key = Buffer.from(found[2], "base64");
  return keyType(key) === found[1] ? key : null;
}

/** The type that a public key contains, such as `ssh-ed25519`; empty if the bytes are not a key. */
export function keyType(key: Buffer): string {
  if (key.length < 4) return "";
  const length = key.readUInt32BE(0);
  const type = length <= 64 && key.length >= 4 + length ? key.toString("latin1", 4, 4 + length) : "";
  return /^[a-z0-9@.-]+$/.test(type) ? type : "";
}
