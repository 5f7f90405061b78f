import { readFileSync } from "node:fs";
import { replaceFile } from "../platform/replace-file.ts";
import { isMissing } from "../errors/index.ts";
import { homeLayout } from "../platform/home-layout.ts";

/**
 * The installation's key: derives marks and nonces, and seals data that must not be stored in clear. Unguessable, the
 * same after every restart, and stored nowhere else. Created when it is first needed, and again if the file does not
 * hold a whole key.
 */
export function installationKey(home: string): Buffer {
  const file = homeLayout.installationKey(home);
  const known = keyIn(file);
  if (known !== null) return known;
  // Loaded here: reading a key must not load it.
  const made = process.getBuiltinModule("node:crypto").randomBytes(32);
  replaceFile(file, made.toString("hex"));
  return made;
}

function keyIn(file: string): Buffer | null {
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (e) {
    // Only a missing key may be replaced: a new key loses everything that the old one sealed.
    if (isMissing(e)) return null;
    throw e;
  }
  return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : null;
}
