// The needs of tests beyond Node, npm, Python 3, procps and git. Each need is a tag of vitest: a file says `//
// @module-tag needs/sshd` on a line of its own, a suite or a test says `{ tags: "needs/sshd" }`. vitest.config.ts skips
// tests whose needs are not met here, and the closing line of a run says how many tests each need cost.

import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { networkInterfaces, tmpdir, type NetworkInterfaceInfo } from "node:os";
import { delimiter, join } from "node:path";
import type { TestTagDefinition } from "vitest/config";
import { hasChromium } from "../scripts/lib/chromium.ts";

/** Programs that only their tests need; the name of a need is the name of its program. */
const PROGRAMS = ["bash", "curl", "fish", "openssl", "patch", "perl", "rsync", "setpriv", "strace", "zsh"] as const;

/** Debian and similar systems keep `sshd` and `rsync` here; not every user has these folders on the PATH. */
const SBIN = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

export function onPath(program: string): boolean {
  return [...(process.env["PATH"] ?? "").split(delimiter), ...SBIN].some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const isLinux = process.platform === "linux";
const isRoot = isLinux && process.getuid?.() === 0;
const interfaces = (): NetworkInterfaceInfo[] => Object.values(networkInterfaces()).flatMap((list) => list ?? []);

/** Whether a file system in memory can be mounted, which takes root and, in a container, a capability. */
function canMount(): boolean {
  if (!isRoot) return false;
  const folder = mkdtempSync(join(tmpdir(), "svc-mount-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]).status === 0;
  if (mounted) spawnSync("umount", [folder]);
  rmdirSync(folder);
  return mounted;
}

/** Where a test can put a process into state D, as root: the freezer of the first version of cgroups, whose processes even KILL leaves. */
export const FREEZER = "/sys/fs/cgroup/freezer";

function canFreeze(): boolean {
  if (!isRoot || !existsSync(FREEZER)) return false;
  try {
    rmdirSync(mkdtempSync(join(FREEZER, "svc-try-")));
    return true;
  } catch {
    return false;
  }
}

interface Need {
  met: () => boolean;
  why: string;
}

const NOT_INSTALLED = " (not installed)";
function program(name: string, met: () => boolean): Need {
  return { met, why: name + NOT_INSTALLED };
}

/** The library that moves the wall clock of a process; undefined where it is not installed. */
export const FAKETIME = ["/usr/lib", "/usr/local/lib", "/lib"]
  .flatMap((lib) => [
    lib,
    ...(existsSync(lib) ? readdirSync(lib) : []).filter((n) => n.endsWith("-linux-gnu")).map((n) => join(lib, n)),
  ])
  .map((lib) => join(lib, "faketime", "libfaketimeMT.so.1"))
  .find((path) => existsSync(path));

const works = (program: string, ...args: string[]): boolean => isRoot && spawnSync(program, args).status === 0;

const NEEDS: Record<string, Need> = {
  ...Object.fromEntries(PROGRAMS.map((name) => [name, program(name, () => onPath(name))])),
  // Most systems package OpenSSH in two parts: the server, and the tools for keys.
  cc: program("cc", () => onPath("cc")),
  sshd: program("sshd", () => existsSync("/usr/sbin/sshd") && onPath("ssh-keygen")),
  ssh: program("ssh", () => onPath("ssh") && onPath("ssh-keygen") && onPath("ssh-agent")),
  venv: program("python3-venv", () => spawnSync("python3", ["-c", "import ensurepip, venv"]).status === 0),
  chromium: program("chromium", () => hasChromium),
  faketime: program("libfaketime", () => FAKETIME !== undefined),
  namespaces: {
    met: () => onPath("sshd") && works("unshare", "-nmuip", "--fork", "ip", "link", "set", "lo", "up"),
    why: "machines in namespaces (root, sshd, unshare, ip)",
  },
  "hidden-proc": {
    met: () => works("unshare", "-m", "mount", "-t", "proc", "-o", "subset=pid", "proc", "/proc"),
    why: "to mount /proc with fewer files",
  },
  "mapped-user": {
    met: () => isLinux && spawnSync("unshare", ["--user", "--map-user=1", "true"]).status === 0,
    why: "a user namespace with another user id",
  },
  linux: { met: () => isLinux, why: "Linux" },
  root: { met: () => isRoot, why: "root" },
  "no-root": { met: () => process.getuid?.() !== 0, why: "a user other than root" },
  freezer: { met: canFreeze, why: "the freezer of cgroups version 1" },
  mounts: { met: canMount, why: "to mount a file system" },
  network: {
    met: () => interfaces().some(({ internal, family }) => !internal && family === "IPv4"),
    why: "a network interface beside loopback",
  },
  ipv6: { met: () => interfaces().some(({ address }) => address === "::1"), why: "IPv6 on loopback" },
};

/** Tag and reason of each need that is not met on this computer. */
const UNMET: ReadonlyMap<string, string> = new Map(
  Object.entries(NEEDS).flatMap(([name, { met, why }]) => (met() ? [] : [[`needs/${name}`, why]])),
);

export const TAGS: TestTagDefinition[] = Object.entries(NEEDS).map(([name, { why }]) => ({
  name: `needs/${name}`,
  description: `needs ${why}`,
  ...(UNMET.has(`needs/${name}`) ? { skip: true } : {}),
}));

/**
 * The reason why a test with these tags is skipped here, such as `need sshd and rsync (not installed)`; null if every
 * need is met.
 */
export function unmetNeeds(tags: readonly string[]): string | null {
  const reasons = tags.flatMap((tag) => UNMET.get(tag) ?? []).toSorted();
  if (reasons.length === 0) return null;
  const programs = reasons
    .filter((why) => why.endsWith(NOT_INSTALLED))
    .map((why) => why.slice(0, -NOT_INSTALLED.length));
  const others = reasons.filter((why) => !why.endsWith(NOT_INSTALLED));
  return `need ${[...(programs.length > 0 ? [programs.join(" and ") + NOT_INSTALLED] : []), ...others].join(" and ")}`;
}
