// The programs that svc starts: Node, Python, ssh and rsync.

import { execFile } from "node:child_process";
import type { Io } from "../../io.ts";
import { isListedUser } from "../../../platform/user-home.ts";
import { messageOf } from "../../../errors/index.ts";
import { load } from "../sim/simulators.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** The output of a program, or null if it cannot be started. */
function ask(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<string | null> {
  return new Promise((done) => {
    execFile(program, args, { env, timeout: 10_000, maxBuffer: 1 << 20 }, (error, out, err) => {
      const code = (error as NodeJS.ErrnoException | null)?.code;
      done(code === "ENOENT" || code === "EACCES" ? null : `${out}${err}`);
    });
  });
}

export async function node(): Promise<Check> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const enough = major > 22 || (major === 22 && minor >= 14);
  return enough
    ? ok("node", `${process.version} at ${process.execPath}`)
    : fail("node", process.version, "Run `npm run setup`, or set SVC_NODE to a Node 22.14 or newer.");
}

export async function python(io: Io): Promise<Check> {
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

export async function ssh(io: Io): Promise<Check> {
  const said = await ask("ssh", ["-V"], io.env);
  if (said === null)
    return warn(
      "ssh",
      "none",
      "Local runs do not need it. For rented machines, install it (`apt install openssh-client`).",
    );
  const line = said.trim().split("\n")[0] ?? "";
  return isListedUser()
    ? ok("ssh", line)
    : warn("ssh", line, "`svc ssh` and `svc sim` do not work for this user: give it an entry in the list of users.");
}

/** What `svc sim` needs beyond svc itself. Nothing else does. */
export async function simulator(): Promise<Check> {
  try {
    const missing = (await load()).missingPrograms();
    return missing.length === 0
      ? ok("sim", "`svc sim` can simulate providers")
      : warn("sim", `lacks ${missing.join(", ")}`, `Only \`svc sim\` needs it: \`apt install ${missing.join(" ")}\`.`);
  } catch (e) {
    return warn("sim", "cannot be loaded", messageOf(e));
  }
}

export async function rsync(io: Io): Promise<Check> {
  const said = await ask("rsync", ["--version"], io.env);
  if (said === null)
    return warn("rsync", "none", "Local runs do not need it. For rented machines, install it (`apt install rsync`).");
  const [, a = "0", b = "0", c = "0"] = /version v?(\d+)\.(\d+)\.(\d+)/.exec(said) ?? [];
  const found = `${a}.${b}.${c}`;
  return Number(a) * 1e6 + Number(b) * 1e3 + Number(c) < 3_005_000
    ? warn(
        "rsync",
        found,
        "Versions before 3.5.0 trust the remote machine too much. `apt install rsync` gets the newest of your distribution; if that is older, `apt changelog rsync` must name CVE-2026-53792.",
      )
    : ok("rsync", found);
}
