import { homedir } from "node:os";
import { resolve } from "node:path";

/** The home: `SVC_HOME`, or `~/.svc`. */
export function resolveHome(env: Readonly<Record<string, string | undefined>>): string {
  const given = env["SVC_HOME"];
  return resolve(given === undefined || given === "" ? `${homedir()}/.svc` : given);
}
