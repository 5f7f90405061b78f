import { existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, resolve } from "node:path";

/** The home: `SVC_HOME`, or `~/.svc`. */
export function resolveHome(env: Readonly<Record<string, string | undefined>>): string {
  const given = env["SVC_HOME"];
  return resolve(given === undefined || given === "" ? `${homedir()}/.svc` : given);
}

/**
 * Makes the folder of the home and what is missing above it. Node's own `recursive` never returns where the system says of a
 * folder that it is not there and cannot be made, as below /proc (seen on Node 24.21).
 */
export function makeHome(home: string): void {
  const missing: string[] = [];
  for (let at = home; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at);
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, { mode: 0o700 });
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code !== "EEXIST") throw e;
    }
  }
}
