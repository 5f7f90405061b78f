import { execFile } from "node:child_process";
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readFileSync,
  realpathSync,
  statfsSync,
  statSync,
} from "node:fs";
import { createConnection } from "node:net";
import { homedir } from "node:os";
import { dirname, sep } from "node:path";
import { findControlPlane } from "../../../sdk/discover.ts";
import { asSvcError } from "../../errors/index.ts";
import { bytes } from "../../domain/bytes.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";
import { homeLayout } from "../../platform/home-layout.ts";

interface Check {
  name: string;
  status: "ok" | "warn" | "fail";
  found: string;
  /** The remedy; empty when all is well. */
  fix: string;
}

export const doctor: Command = {
  name: "doctor",
  summary: "Check that this computer has everything svc needs, and say how to get what is missing",
  options: [],
  exits: [["1", "something required is missing"]],
  examples: ["svc doctor"],
  async run(input, io) {
    const home = io.home();
    const checks = await Promise.all([
      node(),
      python(io),
      ssh(io),
      rsync(io),
      homeFolder(home),
      placeOfHome(home),
      Promise.resolve(machineKey(home)),
      disk(home),
      store(io),
      port(home),
      proc(),
    ]);
    const failed = checks.some((c) => c.status === "fail");
    if (input.json) await printJson(io, { ok: !failed, checks });
    else for (const c of checks) await io.out(line(c, io));
    return failed ? 1 : 0;
  },
};

function line(c: Check, io: Io): string {
  if (!io.tty) return `${c.status}\t${c.name}\t${safeField(c.found)}\t${safeField(c.fix)}\n`;
  const colour = c.status === "ok" ? 32 : c.status === "warn" ? 33 : 31;
  const word = io.color ? `\u001b[${colour}m${c.status.padEnd(4)}\u001b[0m` : c.status.padEnd(4);
  return `${word}  ${c.name.padEnd(12)} ${safeField(c.found)}\n${c.fix ? `      ${" ".repeat(12)} ${safeField(c.fix)}\n` : ""}`;
}

const ok = (name: string, found: string): Check => ({ name, status: "ok", found, fix: "" });
const warn = (name: string, found: string, fix: string): Check => ({ name, status: "warn", found, fix });
const fail = (name: string, found: string, fix: string): Check => ({ name, status: "fail", found, fix });

/** The output of a program, or null if it cannot be started. */
function ask(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<string | null> {
  return new Promise((done) => {
    execFile(program, args, { env, timeout: 10_000, maxBuffer: 1 << 20 }, (error, out, err) => {
      const code = (error as NodeJS.ErrnoException | null)?.code;
      done(code === "ENOENT" || code === "EACCES" ? null : `${out}${err}`);
    });
  });
}

async function node(): Promise<Check> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const enough = major > 22 || (major === 22 && minor >= 14);
  return enough
    ? ok("node", `${process.version} at ${process.execPath}`)
    : fail("node", process.version, "Run `npm run setup`, or set SVC_NODE to a Node 22.14 or newer.");
}

async function python(io: Io): Promise<Check> {
  const named = io.env["SVC_PYTHON"];
  for (const program of named ? [named] : ["python3", "python"]) {
    const said = await ask(program, ["-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], io.env);
    const [, major, minor] = /^(\d+)\.(\d+)\.\d+/.exec(said ?? "") ?? [];
    if (!major) continue;
    const n = Number(major) * 100 + Number(minor);
    if (n >= 310) return ok("python", `${said?.trim()} (${program})`);
    return fail("python", `${said?.trim()} (${program})`, "Install Python 3.10 or newer, or set SVC_PYTHON to one.");
  }
  return fail(
    "python",
    "none",
    "Install Python 3.10 or newer (`apt install python3`, `brew install python`), or set SVC_PYTHON to one.",
  );
}

async function ssh(io: Io): Promise<Check> {
  const said = await ask("ssh", ["-V"], io.env);
  return said === null
    ? warn("ssh", "none", "Local runs do not need it. For rented machines, install it (`apt install openssh-client`).")
    : ok("ssh", said.trim().split("\n")[0] ?? "");
}

async function rsync(io: Io): Promise<Check> {
  const said = await ask("rsync", ["--version"], io.env);
  if (said === null)
    return warn("rsync", "none", "Local runs do not need it. For rented machines, install it (`apt install rsync`).");
  const [, a = "0", b = "0", c = "0"] = /version v?(\d+)\.(\d+)\.(\d+)/.exec(said) ?? [];
  const found = `${a}.${b}.${c}`;
  return Number(a) * 1e6 + Number(b) * 1e3 + Number(c) < 3_004_003
    ? warn(
        "rsync",
        found,
        "Versions before 3.4.3 trust the remote machine too much; upgrade, unless your distribution has patched it.",
      )
    : ok("rsync", found);
}

/** The SSH key for machines of providers without their own key setting. */
function machineKey(home: string): Check {
  const path = homeLayout.sshKey(home);
  if (!existsSync(path)) return ok("machine key", `${path} (created when the first machine is rented)`);
  return statSync(path).mode & 0o077
    ? warn("machine key", `${path} is readable by other users`, `Run \`chmod 600 ${path}\`.`)
    : ok("machine key", path);
}

async function homeFolder(home: string): Promise<Check> {
  const remedy = "Set SVC_HOME to a folder that you own and can write to.";
  try {
    const stat = lstatSync(existsSync(home) ? realpathSync(home) : home);
    if (!stat.isDirectory()) return fail("home", `${home} is not a folder`, remedy);
    if (process.getuid && stat.uid !== process.getuid()) return fail("home", `${home} belongs to another user`, remedy);
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    const mode = stat.mode & 0o777;
    if (mode & 0o022)
      return fail(
        "home",
        `${home} is writable by other users (mode ${mode.toString(8)})`,
        `Run \`chmod 700 ${home}\`.`,
      );
    if (mode & 0o077)
      return warn(
        "home",
        `${home} is readable by other users (mode ${mode.toString(8)})`,
        `Run \`chmod 700 ${home}\`.`,
      );
    return ok("home", home);
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code !== "ENOENT") return fail("home", `${home}: ${(e as Error).message}`, remedy);
  }
  try {
    accessSync(nearestFolder(home), constants.W_OK | constants.X_OK);
    return ok("home", `${home} (created at the first start)`);
  } catch {
    return fail("home", `${home} cannot be created`, remedy);
  }
}

function nearestFolder(path: string): string {
  let at = path;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}

const NETWORK_TYPES = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB"],
  [0x517b, "SMB"],
  [0x65735546, "FUSE"],
  [0x01021997, "9P"],
  [0x00c36400, "Ceph"],
  [0x47504653, "GPFS"],
  [0x0bd00bd0, "Lustre"],
]);
const SYNCED =
  /^(dropbox( .*)?|onedrive( .*)?|google drive|googledrive|my drive|icloud drive|mobile documents|cloudstorage|nextcloud|owncloud|seafile|syncthing|pcloud ?drive|mega)$/i;

async function placeOfHome(home: string): Promise<Check> {
  const at = realpathSync(nearestFolder(home));
  const synced = at.split(sep).find((part) => SYNCED.test(part));
  if (synced)
    return warn(
      "home place",
      `${at} is in the synced folder ${synced}`,
      "Set SVC_HOME to a folder that is not synchronised: a sync program can corrupt the store.",
    );
  let type: string | undefined;
  try {
    type = process.platform === "linux" ? NETWORK_TYPES.get(statfsSync(at).type >>> 0) : undefined;
  } catch {
    type = undefined;
  }
  if (type)
    return warn(
      "home place",
      `${at} is on a ${type} file system`,
      "Set SVC_HOME to a folder on a local disk: file locks and the store's journal are not reliable on a network file system.",
    );
  return ok("home place", at === homedir() ? "your home folder" : "a local folder");
}

async function disk(home: string): Promise<Check> {
  const s = statfsSync(nearestFolder(home));
  const free = s.bavail * s.bsize;
  if (free < 50 * 1024 ** 2) return fail("disk", `${bytes(free)} free`, "Free some space for logs and checkpoints.");
  return free < 1024 ** 3
    ? warn("disk", `${bytes(free)} free`, "Free some space: checkpoints are large.")
    : ok("disk", `${bytes(free)} free`);
}

async function store(io: Io): Promise<Check> {
  const file = homeLayout.store(io.home());
  try {
    const { storeOfHome } = await import("../store.ts");
    const reads = await storeOfHome(io);
    if (!reads) return ok("store", "none yet");
    try {
      reads.jobs({ limit: 1 });
    } finally {
      reads.close();
    }
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(file, { readonly: true, fileMustExist: true });
    try {
      const said = String(db.pragma("quick_check(1)", { simple: true }));
      return said === "ok"
        ? ok("store", "intact")
        : fail("store", said, `Stop the control plane and restore a copy from ${homeLayout.backups(io.home())}.`);
    } finally {
      db.close();
    }
  } catch (e) {
    const { message, hint } = asSvcError(e);
    return fail("store", message, hint);
  }
}

async function port(home: string): Promise<Check> {
  const found = await findControlPlane(home).catch(() => ({ state: "none" as const }));
  if (found.state === "running") return ok("port", `the control plane of this home is serving ${found.file.url}`);
  if (found.state === "silent")
    return warn(
      "port",
      `the control plane of this home (process ${found.file.pid}) does not answer`,
      "Check what it printed, or stop it; the next control plane resumes its runs.",
    );
  const taken = await new Promise<boolean>((done) => {
    const socket = createConnection({ host: "127.0.0.1", port: 8780, timeout: 1_000 });
    const answer = (is: boolean) => (): void => {
      socket.destroy();
      done(is);
    };
    socket.once("connect", answer(true)).once("error", answer(false)).once("timeout", answer(false));
  });
  return taken
    ? warn("port", "8780 is in use by another program", "Use `svc serve --port N`.")
    : ok("port", "8780 is free");
}

async function proc(): Promise<Check> {
  try {
    readFileSync("/proc/self/stat");
    readFileSync("/proc/net/tcp");
    return ok("proc", "svc can identify the user of each local connection");
  } catch {
    return warn(
      "proc",
      "there is no /proc",
      "Without it the API requires the token from the home for every request; the CLI and the SDKs send it by themselves.",
    );
  }
}
