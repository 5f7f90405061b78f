// Small programs of this computer with which machines are made.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Runs a program to its end and returns its trimmed output. If the program fails, throws an error with its output. */
export function tool(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(out.trim());
      else reject(new Error(`${program} ${args.join(" ")}: exit ${code}: ${err.trim()}`));
    });
  });
}

/** Pids of the processes that `pick` selects. */
export function processes(pick: (pid: number) => boolean): number[] {
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
    .filter(pick);
}

/** Target of a link in /proc; null if the process is gone. */
export function procLink(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

export function procText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Sends a signal; ignores a process that is gone. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/**
 * Kills a process and its children. It stops the process first: a process that is killed during a fork leaves that
 * child behind, before the child has requested to die with its parent.
 */
export async function endWithChildren(pid: number): Promise<void> {
  if (!signal(pid, "SIGSTOP")) return;
  const state = (): string => procText(`/proc/${pid}/stat`).split(") ").at(-1)?.charAt(0) ?? "";
  while (!["T", "Z", "X", ""].includes(state())) await new Promise((resolve) => void setTimeout(resolve, 1));
  const children = procText(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
  for (const each of [...children, pid]) signal(each, "SIGKILL");
}

/** A new ed25519 key pair at `path` and `path.pub`; its public half as `ssh-ed25519 AAAA…`. */
export async function makeHostKey(path: string): Promise<string> {
  await tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]);
  return readFileSync(`${path}.pub`, "utf8").trim().split(" ").slice(0, 2).join(" ");
}
