// The secrets that a run was given, for as long as its folder lies here: a control plane that starts again may have another
// environment, and must still find them in what the run prints. Sealed with the installation's key, for the owner alone; it
// goes with the run's folder.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { replaceFile } from "../domain/replace-file.ts";

/** What was asked for (a reference or a variable's name) and what was given. */
export type Given = [asked: string, value: string];

const CIPHER = "aes-256-gcm";
const IV_BYTES = 12;
const TAG_BYTES = 16;

const cipherKey = (key: Buffer): Buffer => createHash("sha256").update("sealed secrets").update(key).digest();

/** Empty where nothing was sealed, or where the file cannot be opened with this key. */
export function unseal(file: string, key: Buffer): Given[] {
  try {
    const bytes = readFileSync(file);
    const decipher = createDecipheriv(CIPHER, cipherKey(key), bytes.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    const text = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
    // Authenticated: nobody but `seal` below wrote it.
    return JSON.parse(text.toString("utf8")) as Given[];
  } catch {
    return [];
  }
}

/** Adds to what is sealed already: a value that was replaced meanwhile may still be printed. */
export function seal(file: string, key: Buffer, given: Given[]): void {
  const before = unseal(file, key);
  const fresh = given.filter(([asked, value]) => !before.some((b) => b[0] === asked && b[1] === value));
  if (fresh.length === 0) return;
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, cipherKey(key), iv, { authTagLength: TAG_BYTES });
  const text = Buffer.concat([cipher.update(JSON.stringify([...before, ...fresh]), "utf8"), cipher.final()]);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  replaceFile(file, Buffer.concat([iv, cipher.getAuthTag(), text]));
}
