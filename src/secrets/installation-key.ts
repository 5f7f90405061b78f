import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../domain/replace-file.ts";

/**
 * From this come marks and nonces, and it seals what must not lie in clear: unguessable, the same after every restart, and written
 * down nowhere else. Made when it is first asked for.
 */
export function installationKey(home: string): Buffer {
  const file = join(home, "installation.key");
  if (!existsSync(file)) replaceFile(file, randomBytes(32).toString("hex"));
  return Buffer.from(readFileSync(file, "utf8").trim(), "hex");
}
