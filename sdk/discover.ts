// Finds the running control plane of a home.
//
// F1. It is ours when `control-plane.json` of the home, a file owned by this user, names it, and its health answer
//     contains the same installation and home. Anything else on that port is left alone.
// F2. Connections use an address, never a name: `localhost` may lead to another program's port first.

import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from "node:fs";
import { Client } from "./client.ts";
import { homeLayout } from "../src/platform/home-layout.ts";

/** The file that `svc serve` writes into its home. */
export interface ControlPlaneFile {
  url: string;
  pid: number;
  /** RFC 3339. */
  started_at: string;
  installation_id: string;
  /** Field 22 of /proc/PID/stat; 0 if unreadable. Together with the pid it identifies one process for ever. */
  pid_start?: number;
}

export type Found =
  | { state: "none" }
  | { state: "running"; file: ControlPlaneFile; client: Client }
  /** The process is alive, but does not answer. */
  | { state: "silent"; file: ControlPlaneFile };

const ADDRESS = /^http:\/\/([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-f:]{2,39}\]):[0-9]{1,5}\/?$/;

export async function findControlPlane(home: string): Promise<Found> {
  const file = readFile(home);
  if (!file || !isAlive(file)) return { state: "none" };
  const client = new Client({ baseUrl: file.url, token: () => readToken(home) });
  // A busy machine may answer late; only a dead process counts as "none".
  for (const deadlineMs of [2_000, 8_000]) {
    try {
      const health = await client.health(deadlineMs);
      const same = health.installation_id === file.installation_id && samePath(health.home, home);
      return same ? { state: "running", file, client } : { state: "none" };
    } catch {
      if (!isAlive(file)) return { state: "none" };
    }
  }
  return { state: "silent", file };
}

function readFile(home: string): ControlPlaneFile | null {
  try {
    const text = ownText(homeLayout.controlPlane(home));
    if (text === null) return null;
    const said = JSON.parse(text) as Partial<ControlPlaneFile>;
    if (
      typeof said.url !== "string" ||
      !Number.isSafeInteger(said.pid) ||
      (said.pid ?? 0) <= 0 ||
      typeof said.installation_id !== "string"
    )
      return null;
    return ADDRESS.test(said.url) ? (said as ControlPlaneFile) : null;
  } catch {
    return null;
  }
}

/** One descriptor for the check and for reading: the name may lead elsewhere a moment later. Null if it is not this user's file. */
function ownText(path: string): string | null {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > 65_536 || (process.getuid && stat.uid !== process.getuid())) return null;
    return readFileSync(fd, "utf8");
  } finally {
    closeSync(fd);
  }
}

/** The bearer token of a home, if it has one. */
export function readToken(home: string): string | null {
  try {
    return readFileSync(homeLayout.token(home), "utf8").trim() || null;
  } catch {
    return null;
  }
}

function samePath(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b);
  } catch {
    return a === b;
  }
}

/** Start time of a process in clock ticks since boot, or 0 without /proc. */
export function pidStart(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may hold spaces; field 22 is the 20th after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? -1 : Number(fields[19]) || 0;
  } catch {
    return 0;
  }
}

/** Whether that very process is still running, not another one that got its number. */
export function isAlive(who: { pid: number; pid_start?: number }): boolean {
  try {
    process.kill(who.pid, 0);
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === "EPERM" && !who.pid_start;
  }
  const now = pidStart(who.pid);
  return now !== -1 && (!who.pid_start || now === 0 || now === who.pid_start);
}
