import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../platform/replace-file.ts";
import { isMissing } from "../errors/index.ts";

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
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (e) {
    // Only one that is not there may be made anew: with the old one goes whatever it has sealed.
    if (isMissing(e)) return null;
    throw e;
  }
  return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : null;
}
