// The one key for svc's logins: a file that the user names, or the key of this home.

import { createPrivateKey, generateKeyPairSync, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, mkdir, open, rm, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { isMissing, SvcError, systemCode } from "../errors/index.ts";
import { keyOfLine, keyType } from "./host-keys.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { withoutTilde } from "../platform/user-home.ts";

/** No key is larger; a larger file is the wrong file. */
const BYTES_MAX = 64 * 1024;

export interface SshKey {
  /** Absolute path of the private key. */
  path: string;
  /** One line in the form of authorized_keys, without a line end. */
  publicKeyLine: string;
  /** The private key as text that ssh2 reads; null if only the agent has it. */
  privateKey: string | null;
  /** Socket of the agent that signs; null if the file itself is used. */
  agent: string | null;
}

export interface KeyRequest {
  /** The user's own key, `~` allowed; null for the key of this home, which is created if missing. */
  path: string | null;
  home: string;
  /** By default `SSH_AUTH_SOCK`. */
  agentSocket?: string;
}

/** Throws `ssh_key_unusable`, with the reason and what to do. Reads the file at every call. */
export async function loadSshKey({ path, home, agentSocket }: KeyRequest): Promise<SshKey> {
  const socket = agentSocket ?? process.env["SSH_AUTH_SOCK"] ?? "";
  if (path === null) {
    const own = homeLayout.sshKey(home);
    return (await readKey(own, "", true)) ?? (await generate(own));
  }
  const absolute = resolve(withoutTilde(path));
  const key = await readKey(absolute, socket, false);
  if (!key) throw unusable(absolute, "there is no such file");
  return key;
}

/** Null if the file does not exist. */
async function readKey(path: string, socket: string, own: boolean): Promise<SshKey | null> {
  const text = await readPrivate(path);
  if (text === null) return null;
  const comment = own ? "svc" : await commentOf(path);
  const parsed = await parse(text);
  if (parsed.kind === "private") {
    return { path, publicKeyLine: lineOf(parsed.publicKey, comment), privateKey: parsed.text, agent: null };
  }
  if (parsed.kind === "useless") throw unusable(path, parsed.why);
  // Locked with a passphrase, or kept in hardware: only an agent can sign with it.
  const publicKey = parsed.publicKey ?? keyOfLine((await readSmall(`${path}.pub`)) ?? "");
  if (!publicKey) {
    throw unusable(path, `it ${parsed.why}, and ${path}.pub, which would tell the agent which one it is, is missing`);
  }
  if (socket === "") {
    throw unusable(path, `it ${parsed.why}, and no SSH agent runs (SSH_AUTH_SOCK is not set): run ssh-add ${path}`);
  }
  const { agentHolds } = await import("./one-key-agent.ts");
  const held = await agentHolds(socket, publicKey);
  if (held !== true) throw unusable(path, `it ${parsed.why}, and ${held}: run ssh-add ${path}`);
  return { path, publicKeyLine: lineOf(publicKey, comment), privateKey: null, agent: socket };
}

/** The text of a file that is private to its owner; null if it does not exist. */
async function readPrivate(path: string): Promise<string | null> {
  let handle;
  try {
    // Without O_NONBLOCK opening a FIFO would block.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (e) {
    if (isMissing(e)) return null;
    const code = systemCode(e);
    throw unusable(path, code === "EACCES" ? "it may not be read" : `it cannot be opened (${code})`, e);
  }
  try {
    const stats = await handle.stat();
    if (stats.isDirectory()) throw unusable(path, "it is a directory, not a key");
    if (!stats.isFile()) throw unusable(path, "it is not a plain file");
    if (stats.size > BYTES_MAX) throw unusable(path, `it has ${stats.size} bytes, which no key has`);
    if (stats.size === 0) throw unusable(path, "it is empty");
    const text = await handle.readFile("latin1");
    const open600 = (stats.mode & 0o077) !== 0 && !keyOfLine(text);
    if (open600) {
      const mode = (stats.mode & 0o777).toString(8).padStart(3, "0");
      throw unusable(path, `others may read it (mode ${mode}), and ssh refuses such keys: run chmod 600 ${path}`);
    }
    return text;
  } finally {
    await handle.close();
  }
}

type Parsed =
  | { kind: "private"; text: string; publicKey: Buffer }
  | { kind: "locked"; publicKey: Buffer | null; why: string }
  | { kind: "useless"; why: string };

async function parse(text: string): Promise<Parsed> {
  if (keyOfLine(text) || /BEGIN (SSH2 )?PUBLIC KEY/.test(text)) {
    return { kind: "useless", why: "it is a public key: name the private one (the same path without .pub)" };
  }
  if (text.startsWith("PuTTY-")) {
    return {
      kind: "useless",
      why: "it is a PuTTY key: export it in OpenSSH's format (puttygen KEY -O private-openssh)",
    };
  }
  const begin = /-----BEGIN ([A-Z0-9 ]+)-----/.exec(text)?.[1];
  if (begin === undefined) return { kind: "useless", why: "it is not an SSH private key" };
  const body = text.slice(text.indexOf("-----BEGIN")).trim();
  if (begin === "OPENSSH PRIVATE KEY") {
    const header = opensshHeader(body);
    if (!header) return { kind: "useless", why: "it is damaged" };
    if (header.cipher !== "none") return { kind: "locked", publicKey: header.publicKey, why: "has a passphrase" };
    if (keyType(header.publicKey).startsWith("sk-")) {
      return { kind: "locked", publicKey: header.publicKey, why: "is kept in a security key" };
    }
    return usable(body);
  }
  if (begin === "ENCRYPTED PRIVATE KEY" || /^Proc-Type: .*ENCRYPTED/m.test(body)) {
    return { kind: "locked", publicKey: null, why: "has a passphrase" };
  }
  if (begin === "PRIVATE KEY") return fromPkcs8(body);
  return /^(RSA|EC) PRIVATE KEY$/.test(begin)
    ? usable(body)
    : { kind: "useless", why: `it is a ${begin.toLowerCase()}, not an SSH private key` };
}

/** PKCS#8: OpenSSH reads it, ssh2 does not. */
async function fromPkcs8(pem: string): Promise<Parsed> {
  try {
    const key = createPrivateKey(pem);
    const type = key.asymmetricKeyType === "rsa" ? "pkcs1" : key.asymmetricKeyType === "ec" ? "sec1" : null;
    if (type) return await usable(key.export({ format: "pem", type }).toString().trim());
    const why = `it is a PKCS#8 file of type ${key.asymmetricKeyType}: make one with ssh-keygen -t ed25519`;
    return { kind: "useless", why };
  } catch {
    return { kind: "useless", why: "it is damaged" };
  }
}

async function usable(text: string): Promise<Parsed> {
  // Loaded late, as in connection.ts.
  const { default: ssh2 } = await import("ssh2");
  const found = ssh2.utils.parseKey(text);
  const key = Array.isArray(found) ? found[0] : found;
  if (!key || key instanceof Error)
    return { kind: "useless", why: "it is damaged, or of a kind that is not supported" };
  if (key.type === "ssh-dss") return { kind: "useless", why: "it is a DSA key, which no server accepts any more" };
  return { kind: "private", text, publicKey: key.getPublicSSH() };
}

/** The unencrypted part before the private key: its cipher, and the public key. */
function opensshHeader(text: string): { cipher: string; publicKey: Buffer } | null {
  const found = /^-----BEGIN OPENSSH PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END OPENSSH PRIVATE KEY-----/.exec(text);
  const bytes = Buffer.from(found?.[1] ?? "", "base64");
  const magic = "openssh-key-v1\0";
  if (bytes.toString("latin1", 0, magic.length) !== magic) return null;
  let at = magic.length;
  const field = (): Buffer => {
    const length = bytes.readUInt32BE(at);
    // Past the end: the next read throws.
    const value = bytes.subarray(at + 4, at + 4 + length);
    at += 4 + length;
    return value;
  };
  try {
    const cipher = field().toString("latin1");
    field();
    field();
    at += 4;
    const publicKey = Buffer.from(field());
    return keyType(publicKey) === "" ? null : { cipher, publicKey };
  } catch {
    return null;
  }
}

/** Makes a new key for this home. If two processes make one at the same time, both use the first. */
async function generate(path: string): Promise<SshKey> {
  const folder = dirname(path);
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(temporary, newEd25519(), { mode: 0o600, flag: "wx", flush: true });
    try {
      await link(temporary, path);
    } catch (e) {
      if (systemCode(e) !== "EEXIST") throw e;
    } finally {
      await rm(temporary, { force: true });
    }
    const key = await readKey(path, "", true);
    if (!key) throw unusable(path, "it vanished while it was made");
    await writeFile(`${path}.pub`, `${key.publicKeyLine}\n`, { mode: 0o644 });
    return key;
  } catch (e) {
    if (e instanceof SvcError) throw e;
    throw unusable(path, `it cannot be made (${systemCode(e)})`, e);
  }
}

/**
 * A new key in OpenSSH's own format. Written out here, because ssh2 1.17 makes one now and then (about 1 of 100, seen 2026-11)
 * that it cannot read itself.
 */
export function newEd25519(): string {
  const { d, x } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const [seed, point] = [Buffer.from(d ?? "", "base64url"), Buffer.from(x ?? "", "base64url")];
  const field = (value: Buffer | string): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(value));
    return Buffer.concat([length, Buffer.from(value)]);
  };
  const publicKey = Buffer.concat([field("ssh-ed25519"), field(point)]);
  const check = randomBytes(4);
  const secret = Buffer.concat([check, check, publicKey, field(Buffer.concat([seed, point])), field("svc")]);
  const padding = Buffer.from([1, 2, 3, 4, 5, 6, 7].slice(0, (8 - (secret.length % 8)) % 8));
  const one = Buffer.from([0, 0, 0, 1]);
  const none = [field("none"), field("none"), field("")];
  const whole = [
    Buffer.from("openssh-key-v1\0"),
    ...none,
    one,
    field(publicKey),
    field(Buffer.concat([secret, padding])),
  ];
  const lines = Buffer.concat(whole).toString("base64").replace(/.{70}/g, "$&\n");
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

const lineOf = (publicKey: Buffer, comment: string): string =>
  `${keyType(publicKey)} ${publicKey.toString("base64")}${comment === "" ? "" : ` ${comment}`}`;

/**
 * The user's comment on the key, from the .pub file next to it. Providers receive it, so it is limited to plain
 * characters.
 */
async function commentOf(path: string): Promise<string> {
  const line = ((await readSmall(`${path}.pub`)) ?? "").trim();
  const comment = keyOfLine(line) ? line.split(/\s+/).slice(2).join("-") : "";
  return /^[A-Za-z0-9@._+-]{1,100}$/.test(comment) ? comment : "";
}

async function readSmall(path: string): Promise<string | null> {
  let handle;
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    return stats.isFile() && stats.size <= BYTES_MAX ? await handle.readFile("latin1") : null;
  } catch {
    return null;
  } finally {
    await handle?.close();
  }
}

const unusable = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError("ssh_key_unusable", { path, why }, { cause });
