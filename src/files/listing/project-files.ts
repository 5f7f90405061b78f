// Checks which directories may be projects.
//
// P4. A directory that holds more than a project is refused: the root, the home of the user or of svc, and all above
//     them; so is everything inside the home of svc, and a folder of keys or of version control with everything inside
//     it. project-listing.ts (P1 to P3) decides which of its files belong to a run.

import { access, constants, realpath, stat, statfs } from "node:fs/promises";
import { dirname, resolve, sep } from "node:path";
import { messageOf, SvcError } from "../../errors/index.ts";
import { knownUserHome } from "../../platform/user-home.ts";
import { NEVER } from "./protections.ts";

/** proc, sysfs, cgroup 1 and 2, debugfs, tracefs. */
const KERNEL_FILE_SYSTEMS = new Set([0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163]);

/**
 * The real path of a directory that may be sent, or `project_dir_refused` with the reason.
 * @param svcHome the home of this control plane; it and everything above and below it is refused.
 */
export async function checkProjectDir(projectDir: string, svcHome: string): Promise<string> {
  const refuse = (why: string, cause?: unknown) =>
    new SvcError("project_dir_refused", { project_dir: projectDir, why }, { cause });
  let real: string;
  try {
    real = await realpath(projectDir);
    if (!(await stat(real)).isDirectory()) throw refuse("is not a directory");
    await access(real, constants.R_OK | constants.X_OK);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw refuse(whyUnreadable(cause), cause);
  }
  // Files of these file systems have no end, or differ for every reader; among them are the environments of processes.
  if (KERNEL_FILE_SYSTEMS.has((await statfs(real)).type))
    throw refuse("is not a directory of files but a view into the kernel");
  if (real === dirname(real)) throw refuse("is the root of the file system");
  const user = knownUserHome();
  if (user !== null && isWithin(real, await realOrSame(user))) throw refuse("is or holds your home directory");
  const home = await realOrSame(svcHome);
  if (isWithin(real, home) || isWithin(home, real))
    throw refuse("is, contains or is below the home of svc, with its credentials");
  const never = real.split(sep).find((name) => NEVER.includes(name));
  if (never !== undefined) throw refuse(`is or is below a folder called ${never}, of which svc never sends a file`);
  return real;
}

/** As text that follows the name of the unreadable file. */
export function whyUnreadable(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException | null)?.code;
  if (code === "ENOENT") return "does not exist";
  if (code === "ENOTDIR") return "is below a file";
  if (code === "EACCES" || code === "EPERM") return "cannot be read: permission denied";
  if (code === "ELOOP") return "is a symlink that leads to itself";
  return `cannot be read: ${messageOf(cause)}`;
}

/** Whether `path` is `folder` or inside it. Both absolute and without `..`. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

export const realOrSame = (path: string): Promise<string> => realpath(path).catch(() => resolve(path));
