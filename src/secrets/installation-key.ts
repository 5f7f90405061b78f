import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../domain/replace-file.ts";

/**
 * From this come marks and nonces, and it seals what must not lie in clear: unguessable, the same after every restart, and written
 * down nowhere else. Made when it is first asked for, and anew where what lies there is no whole key.
 */
export function installationKey(home: string): Buffer {
  const file = join(home, "installation.key");
  const known = keyIn(file);
  if (known !== null) return known;
  const made = randomBytes(32);
  replaceFile(file, made.toString("hex"));
  return made;
}

function keyIn(file: string): Buffer | null {
  if (!existsSync(file)) return null;
  const text = readFileSync(file, "utf8").trim();
  return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : null;
}
