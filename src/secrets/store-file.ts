// The credential store of a home: the one place that opens credentials.json.
//
// C1. A plain file owned by this user, or nothing: no symlink, pipe or device, no other owner, at most 1 MiB.
// C2. If others can read it, it is made private to its owner before a byte of it is used.
// C3. Errors name the file and never quote its content.

import { closeSync, constants, fchmodSync, fstatSync, openSync, readSync } from "node:fs";
import { isMissing, systemCode } from "../errors/index.ts";
import { tightened } from "../domain/tightened.ts";
import { replaceFile } from "../platform/replace-file.ts";
import { isService, type CredentialName } from "../schemas/credential-blocks.ts";
import { homeLayout } from "../platform/home-layout.ts";

const STORE_BYTES_MAX = 1024 * 1024;

/** Why a file of the owner cannot be used; a message for a person, which begins with its path. */
export class UnusableFile extends Error {}

/** The store's blocks; empty if the store does not exist. Throws {@link UnusableFile}. */
export function readStore(home: string): Record<string, unknown> {
  const file = homeLayout.credentials(home);
  const text = readPlainFile(file, { bytesMax: STORE_BYTES_MAX, ownersAlone: true });
  if (text === null) return {};
  if (text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the text.
    throw new UnusableFile(`${file} is not valid JSON`);
  }
  if (!isRecord(value)) throw new UnusableFile(`${file} holds no JSON object`);
  return value;
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A JSON object's own entry; nothing inherited. */
export const storedEntry = (value: unknown, key: string): unknown =>
  isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;

let heardRead: ((file: string) => void) | null = null;

/** Calls `heard` with each file that `work` is about to read a secret from, whether the file exists or not. */
export function hearingReads<T>(heard: (file: string) => void, work: () => T): T {
  const before = heardRead;
  heardRead = heard;
  try {
    return work();
  } finally {
    heardRead = before;
  }
}

/**
 * A plain file's text, or null if it does not exist. `ownersAlone`: this user must own it, it must not be a symlink,
 * and its mode becomes 600 if it was looser. Throws {@link UnusableFile}.
 */
export function readPlainFile(file: string, rules: { bytesMax: number; ownersAlone: boolean }): string | null {
  heardRead?.(file);
  let fd: number;
  try {
    // Without O_NONBLOCK the opening of a pipe would wait for a writer.
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | (rules.ownersAlone ? constants.O_NOFOLLOW : 0);
    fd = openSync(file, flags);
  } catch (e) {
    if (isMissing(e)) return null;
    const code = systemCode(e);
    if (code === "ELOOP") throw new UnusableFile(`${file} is a link, not a plain file`);
    throw new UnusableFile(`${file} cannot be opened (${code})`);
  }
  try {
    const facts = fstatSync(fd);
    if (!facts.isFile()) throw new UnusableFile(`${file} is not a plain file`);
    if (facts.size > rules.bytesMax) throw new UnusableFile(`${file} is larger than ${rules.bytesMax / 1024} KiB`);
    if (rules.ownersAlone) makeOwnersAlone(file, fd, facts);
    return readAll(file, fd, facts.size, rules.bytesMax);
  } finally {
    closeSync(fd);
  }
}

function makeOwnersAlone(file: string, fd: number, facts: { uid: number; mode: number }): void {
  const self = process.getuid?.();
  if (self === undefined) return;
  if (facts.uid !== self) throw new UnusableFile(`${file} belongs to another user`);
  if ((facts.mode & 0o077) === 0) return;
  try {
    fchmodSync(fd, 0o600);
    tightened(file, facts.mode);
  } catch {
    throw new UnusableFile(`${file} may be read by others, and its mode cannot be changed to 600`);
  }
}

/** Reads in steps of the reported size: the file is read for each request to a provider, and may grow meanwhile. */
function readAll(file: string, fd: number, size: number, bytesMax: number): string {
  let buffer = Buffer.allocUnsafe(size + 1);
  let length = 0;
  for (;;) {
    let read: number;
    if (length === buffer.length) buffer = Buffer.concat([buffer], 2 * length);
    try {
      read = readSync(fd, buffer, length, buffer.length - length, null);
    } catch (e) {
      throw new UnusableFile(`${file} cannot be read (${systemCode(e)})`);
    }
    if (read === 0) break;
    length += read;
    if (length > bytesMax) throw new UnusableFile(`${file} is larger than ${bytesMax / 1024} KiB`);
  }
  const text = buffer.toString("utf8", 0, length);
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/** Holds a lock of the home during `work`; src/store has one that the kernel keeps. */
export type Exclusively = <T>(file: string, work: () => T) => T;

/**
 * Reads the store, applies a change and replaces the file atomically, while no other writer can. Values that the change
 * does not touch stay, unknown fields included. Throws {@link UnusableFile} if the store cannot be read: it is then not
 * overwritten.
 */
export function changeStore(
  home: string,
  exclusively: Exclusively,
  change: (store: Record<string, unknown>) => Record<string, unknown>,
): void {
  exclusively(homeLayout.credentialsLock(home), () => {
    const store = readStore(home);
    const text = `${JSON.stringify(change(structuredClone(store)), null, 2)}\n`;
    if (Buffer.byteLength(text) > STORE_BYTES_MAX)
      throw new UnusableFile(`${homeLayout.credentials(home)} would become larger than ${STORE_BYTES_MAX / 1024} KiB`);
    replaceFile(homeLayout.credentials(home), text);
  });
}

/** A copy of the store with `block` in its place; null removes the block. */
export function withBlock(
  store: Record<string, unknown>,
  name: CredentialName,
  block: Record<string, unknown> | null,
): Record<string, unknown> {
  const put = (into: unknown): Record<string, unknown> => {
    const entries = Object.entries(isRecord(into) ? into : {}).filter(([key]) => key !== name);
    return Object.fromEntries(block === null ? entries : [...entries, [name, block]]);
  };
  return isService(name) ? put(store) : { ...store, providers: put(storedEntry(store, "providers")) };
}

/** The block of a provider or a service, unvalidated. */
export const blockIn = (store: Record<string, unknown>, name: CredentialName): unknown =>
  storedEntry(isService(name) ? store : storedEntry(store, "providers"), name);
