// The agent on a machine that runs out of descriptors or memory: what it cannot read says nothing about the run.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

const runnerFolder = join(dirname(fileURLToPath(import.meta.url)), "../../runner");
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-agent-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The agent's answer for the status of a run whose runner is this very process, if reading this path of /proc fails. */
function statusWhere(path: string, failure: string): string {
  const program = `
import errno, json, os, sys
sys.path.insert(0, sys.argv[1])
from svc_agent import run_folder
run, real = sys.argv[2], run_folder.read_bytes
status = {"phase": "running", "nonce": "n", "runner_pid": os.getpid(),
  "runner_start": run_folder.start_time(os.getpid()), "boot_id": real("/proc/sys/kernel/random/boot_id", 4096).decode().strip()}
open(run + "/status.json", "w").write(json.dumps(status))
def failing(path, *more):
    if sys.argv[3] in path:
        if sys.argv[4] == "ENOENT":
            return None
        raise OSError(getattr(errno, sys.argv[4]), "no")
    return real(path, *more)
run_folder.read_bytes = failing
try:
    print(run_folder.status_of(run)["phase"])
except OSError as e:
    print(errno.errorcode[e.errno])
`;
  const done = spawnSync("python3", ["-c", program, runnerFolder, folder, path, failure], { encoding: "utf8" });
  return done.stdout.trim() || done.stderr;
}

it.skipIf(process.platform !== "linux").each([
  ["boot_id", "EMFILE"],
  ["boot_id", "ENOMEM"],
  ["/stat", "ENFILE"],
  ["/stat", "ENOMEM"],
])("a run is not called lost because %s cannot be read (%s)", (path, failure) => {
  expect(statusWhere(path, failure)).toBe(failure);
});

it.skipIf(process.platform !== "linux")("a run whose runner is gone is called lost", () => {
  expect(statusWhere("/stat", "ENOENT")).toBe("failed");
});

it.skipIf(process.platform !== "linux").each([
  ["stat", "EMFILE"],
  ["stat", "ENOMEM"],
  ["list", "EMFILE"],
])("the guard's deadline moves though its processes cannot be read (%s, %s)", (what, failure) => {
  const program = `
import errno, os, sys
sys.path.insert(0, sys.argv[1])
from svc_agent import guard, run_folder
folder, real = sys.argv[2], run_folder.read_bytes
refusal = OSError(getattr(errno, sys.argv[4]), "no")
def failing(path, *more):
    if "/stat" in path:
        raise refusal
    return real(path, *more)
def unlisted(path):
    raise refusal
open(folder + "/pid", "w").write(str(os.getpid()))
if sys.argv[3] == "list":
    os.listdir = unlisted
    open(folder + "/pid", "w").close()
run_folder.read_bytes = failing
try:
    print(guard.op_keep({"folder": folder, "grace": 60})[0]["moved"])
except OSError as e:
    print(errno.errorcode[e.errno])
print(open(folder + "/keep").read().strip().isdigit())
`;
  // The program is the guard's process, too.
  const script = join(folder, "guard.sh");
  writeFileSync(script, program);
  const done = spawnSync("python3", [script, runnerFolder, folder, what, failure], { encoding: "utf8" });
  expect(done.stdout || done.stderr).toBe(what === "list" ? `${failure}\nTrue\n` : "True\nTrue\n");
});
