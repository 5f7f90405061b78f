// Sealing with the installation's key. What is sealed is authenticated: nobody without the key wrote or changed it.
//
// The secrets that a run was given are kept so for as long as its folder lies here: a control plane that starts again may have
// another environment, and must still find them in what the run prints. They go with the run's folder.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { replaceFile } from "../platform/replace-file.ts";

/** What was asked for (a reference or a variable's name) and what was given. */
export type Given = [asked: string, value: string];

const CIPHER = "aes-256-gcm";
const IV_BYTES = 12;
const TAG_BYTES = 16;

const cipherKey = (key: Buffer): Buffer => createHash("sha256").update("sealed secrets").update(key).digest();

export function sealText(text: string, key: Buffer): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, cipherKey(key), iv, { authTagLength: TAG_BYTES });
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

/** Null where it was not sealed with this key, or was changed since. */
export function unsealText(bytes: Buffer, key: Buffer): string | null {
  try {
    const decipher = createDecipheriv(CIPHER, cipherKey(key), bytes.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString("utf8");
  } catch {
    return null;
  }
}

/** Empty where nothing was sealed, or where the file cannot be opened with this key. */
export function unseal(file: string, key: Buffer): Given[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch {
    return [];
  }
  const text = unsealText(bytes, key);
  // Authenticated: nobody but `seal` below wrote it.
  return text === null ? [] : (JSON.parse(text) as Given[]);
}

/** Adds to what is sealed already: a value that was replaced meanwhile may still be printed. */
export function seal(file: string, key: Buffer, given: Given[]): void {
  const before = unseal(file, key);
  const fresh = given.filter(([asked, value]) => !before.some((b) => b[0] === asked && b[1] === value));
  if (fresh.length === 0) return;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  replaceFile(file, sealText(JSON.stringify([...before, ...fresh]), key));
}
