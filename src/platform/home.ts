import { existsSync, lstatSync, mkdirSync, readdirSync, type Stats } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { systemCode } from "../errors/index.ts";
import { userHome, withoutTilde } from "./user-home.ts";

/** The home: `SVC_HOME`, or `~/.svc`. Throws `user_home_unknown`. */
export function resolveHome(env: Readonly<Record<string, string | undefined>>): string {
  const given = env["SVC_HOME"];
  return resolve(given === undefined || given === "" ? `${userHome(env)}/.svc` : withoutTilde(given, env));
}

/**
 * Why a folder cannot be a home, as text that follows its path; null if it can: this user must own it, and no other
 * user may write to it.
 */
export function homeObjection(found: Stats): string | null {
  if (!found.isDirectory()) return "is not a folder";
  const self = process.getuid?.();
  if (self !== undefined && found.uid !== self) return "belongs to another user";
  return (found.mode & 0o002) === 0 ? null : "can be written by every user of this computer";
}

/**
 * An entry of the home that belongs neither to this user nor to root. It may have been put there while a group could
 * write to the home; svc would trust it, and its owner may still write to it.
 */
export function entryOfOthers(home: string): string | null {
  const self = process.getuid?.();
  if (self === undefined) return null;
  const planted = readdirSync(home).find((name) => {
    const uid = lstatSync(join(home, name), { throwIfNoEntry: false })?.uid ?? self;
    return uid !== self && uid !== 0;
  });
  return planted ?? null;
}

/**
 * Makes the folder of the home and its missing parents. Node's own `recursive` never returns if the system reports that
 * a folder does not exist and cannot be made, as below /proc (seen on Node 24.21).
 */
export function makeHome(home: string): void {
  const missing: string[] = [];
  for (let at = home; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at);
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, { mode: 0o700 });
    } catch (e) {
      if (systemCode(e) !== "EEXIST") throw e;
    }
  }
}
