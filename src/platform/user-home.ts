import { homedir, userInfo } from "node:os";
import { join } from "node:path";
import { SvcError } from "../errors/index.ts";

/**
 * The user's home folder: `HOME`, or the one in the system's list of users. Null with neither, as in a container that
 * runs under a user id of which its list does not know.
 */
export function knownUserHome(env: Readonly<Record<string, string | undefined>> = process.env): string | null {
  try {
    return env["HOME"] || homedir();
  } catch {
    return null;
  }
}

/** @throws `user_home_unknown` */
export function userHome(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const found = knownUserHome(env);
  if (found === null) throw new SvcError("user_home_unknown", { uid: process.getuid?.() ?? null });
  return found;
}

/** The path with the user's home in place of a leading `~`. Throws `user_home_unknown`. */
export function withoutTilde(path: string, env?: Readonly<Record<string, string | undefined>>): string {
  if (path === "~") return userHome(env);
  return /^~[\\/]/.test(path) ? join(userHome(env), path.slice(2)) : path;
}

/** Whether the system's list of users knows the user who runs svc: the programs of OpenSSH refuse to start for any other. */
export function isListedUser(): boolean {
  try {
    return userInfo().uid >= -1;
  } catch {
    return false;
  }
}
