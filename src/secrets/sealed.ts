// Seals data with the installation's key. Sealed data is authenticated: only a holder of the key can have written or
// changed it.
//
// A run's secrets are kept sealed for as long as its folder exists: a restarted control plane may have another
// environment, and must still find them in the run's output. They are removed with the run's folder.

import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { isMissing } from "../errors/index.ts";
import { replaceFile } from "../platform/replace-file.ts";

/** The request (a reference or a variable's name) and the secret's value. */
export type Given = [asked: string, value: string];

const CIPHER = "aes-256-gcm";
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Loaded when it is needed: it takes 4 ms, and every command may find something sealed, but few do. */
const crypto = () => process.getBuiltinModule("node:crypto");

const cipherKey = (key: Buffer): Buffer => crypto().createHash("sha256").update("sealed secrets").update(key).digest();

export function sealText(text: string, key: Buffer): Buffer {
  const iv = crypto().randomBytes(IV_BYTES);
  const cipher = crypto().createCipheriv(CIPHER, cipherKey(key), iv, { authTagLength: TAG_BYTES });
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

/** Null if another key sealed it, or if it was changed since. */
export function unsealText(bytes: Buffer, key: Buffer): string | null {
  try {
    const decipher = crypto().createDecipheriv(CIPHER, cipherKey(key), bytes.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString("utf8");
  } catch {
    return null;
  }
}

/** Empty if nothing was sealed, or if this key cannot open the file. Throws if the file cannot be read now. */
export function unseal(file: string, key: Buffer): Given[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (e) {
    if (isMissing(e)) return [];
    throw e;
  }
  const text = unsealText(bytes, key);
  // Authenticated: only `seal` below can have written it.
  return text === null ? [] : (JSON.parse(text) as Given[]);
}

/** Adds to the sealed values: a replaced value may still be printed. */
export function seal(file: string, key: Buffer, given: Given[]): void {
  const before = unseal(file, key);
  const fresh = given.filter(([asked, value]) => !before.some((b) => b[0] === asked && b[1] === value));
  if (fresh.length === 0) return;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  replaceFile(file, sealText(JSON.stringify([...before, ...fresh]), key));
}
