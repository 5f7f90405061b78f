// One system call of a control plane fails, or is its last (strace injects it), while it drives a run of this computer. Whatever
// call it is: the run ends with its right code or with an error in words, no byte of its log is lost or doubled, nothing of it is
// left running, and every journal leads to its snapshot.
//
// Only its own threads are hit. strace counts occurrences for each process apart, so what the control plane starts again and again
// (a runner) would meet the same fault for ever.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pause, Place, random, until, type Served } from "./harness.ts";

const ENDED = ["succeeded", "failed", "cancelled", "interrupted", "timed_out"];
/** Calls, with how often a control plane makes them while it drives one run: later occurrences would hit nothing. */
const CALLS: Record<string, number> = {
  openat: 160,
  read: 200,
  write: 160,
  pwrite64: 60,
  pread64: 30,
  fsync: 8,
  fdatasync: 40,
  ftruncate: 2,
  rename: 4,
  unlink: 8,
  mkdir: 16,
  fcntl: 80,
  statx: 80,
  newfstatat: 40,
  getdents64: 20,
  close: 120,
  clone3: 2,
  vfork: 3,
  execve: 3,
  pipe2: 8,
  socketpair: 8,
  accept4: 6,
  epoll_ctl: 30,
  kill: 2,
  wait4: 4,
  inotify_add_watch: 3,
  mmap: 40,
};
const FAULTS = ["EIO", "ENOSPC", "EMFILE", "ENOMEM", "EINTR", "EACCES", "EBADF", "KILL"] as const;

const SCRIPT = `import os, sys, time
import svc
expect = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
def put(data):
    view = memoryview(data)
    while view: view = view[os.write(1, view):]
    os.write(expect, data)
for n in range(30):
    put(b"line %d %s\\n" % (n, b"." * (n * 37 % 500)))
    svc.log({"loss": 1 / (n + 1)}, step=n)
    time.sleep(0.01)
with svc.atomic_save("last.bin", mode="wb") as f: f.write(b"x" * 5000)
`;

/** Whatever was compiled before. */
const SAME_CALLS = { NODE_DISABLE_COMPILE_CACHE: "1" };

export interface Trial {
  seed: number;
  call: string;
  nth: number;
  fault: (typeof FAULTS)[number];
  /** Whether the program is hit from its first instruction on, or only once it answers. Node hangs where its own threads cannot start. */
  from: "start" | "ready";
}

/** The trial that this seed stands for. */
export function trialOf(seed: number): Trial {
  const next = random(seed);
  const calls = Object.keys(CALLS);
  const call = calls[Math.floor(next() * calls.length)] as string; // within bounds
  const nth = 1 + Math.floor(next() * (CALLS[call] ?? 1));
  const drawn = FAULTS[Math.floor(next() * FAULTS.length)] ?? "KILL";
  // On a disk of this computer a lock that is held can always be let go; where it cannot (a network's disk, ENOLCK), SQLite refuses
  // all writers until a restart. docs/FAULTS.md says so.
  const fault = call === "fcntl" ? "KILL" : drawn;
  return { seed, call, nth, fault, from: next() < 0.2 && call !== "clone3" ? "start" : "ready" };
}

export const canInject = (): boolean =>
  spawnSync("strace", ["-qq", "-e", "trace=close", "-e", "inject=close:error=EIO:when=9999", "true"]).status === 0;

const injection = ({ call, nth, fault }: Trial): string[] => {
  const what = fault === "KILL" ? "signal=KILL" : `error=${fault}`;
  return ["-o", "/dev/null", "-e", `trace=${call}`, "-e", `inject=${call}:${what}:when=${nth}`];
};

/** Runs one trial. @returns what was wrong, in words, or null. */
export async function tryCall(trial: Trial): Promise<string | null> {
  const place = new Place();
  try {
    place.file("train.py", SCRIPT);
    return await drive(place, trial);
  } catch (e) {
    return `${e instanceof Error ? e.message : String(e)}; ${place.lastWords()}`;
  } finally {
    await place.close();
  }
}

async function drive(place: Place, trial: Trial): Promise<string | null> {
  const first =
    trial.from === "start"
      ? place.start({ under: ["strace", "-qq", ...injection(trial)], env: SAME_CALLS })
      : await place.serve();
  const tracer = trial.from === "ready" ? await attach(first, trial) : null;
  if (trial.from === "start") await until(() => first.out.includes("\n") || !first.running, "it starts or ends");
  // One that is about to die of it gives no answer first.
  if ((await attempt(place, first, false)) === "") await Promise.race([first.exited, pause(5_000)]);
  tracer?.kill("SIGINT");
  // The first that still lives goes on; else a second takes over, as its user would start it.
  const served = first.running && first.out.includes("\n") ? first : await place.serve();
  const id = await attempt(place, served, true);
  const job = await served.ended(id, 90_000);
  return verdictOf(place, job.status, job.error === null ? null : JSON.stringify(job.error), id);
}

function verdictOf(
  place: Place,
  status: string,
  error: string | null,
  id: string,
): Promise<string | null> | string | null {
  if (!ENDED.includes(status)) return `the run is ${status}`;
  if (status === "failed" && error === null) return "the run failed without a word";
  if (status !== "succeeded" && status !== "failed") return `the run is ${status}, which nobody asked for`;
  const wrote = existsSync(expected(place)) ? readFileSync(expected(place)) : Buffer.alloc(0);
  const log = place.log(id);
  if (status === "succeeded" && !log.equals(wrote)) return `the log has ${log.length} bytes of ${wrote.length}`;
  if (!wrote.subarray(0, log.length).equals(log.subarray(0, wrote.length)) && !log.includes("Traceback"))
    return "the log of the failed run is not what it wrote";
  if (place.refolds() !== 1) return "there is more than one job";
  return until(() => place.processes().length === 0, "nothing of the run is left running").then(() => null);
}

const expected = (place: Place): string => join(place.root, "expected");

/** Asks for the run, with one key for all tries. @returns its id; empty where the control plane could not take it, if it need not. */
async function attempt(place: Place, served: Served, sure: boolean): Promise<string> {
  const spec = {
    entrypoint: "train.py",
    args: [expected(place)],
    project_dir: place.project,
    terminate_on_exit: false,
  };
  let refused = "it gave no answer";
  for (let tries = 0; tries < 3 && served.running; tries++) {
    try {
      const answer = await fetch(`${served.url}/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "one" },
        body: JSON.stringify({ spec }),
        signal: AbortSignal.timeout(30_000),
      });
      const text = await answer.text();
      refused = text;
      if (!answer.ok) continue;
      const body = JSON.parse(text) as { id: string };
      await until(
        async () => !served.running || ENDED.includes((await served.job(body.id)).status),
        "the run ends while the control plane lives",
        60_000,
      );
      return body.id;
    } catch (e) {
      if (e instanceof Error && e.message.startsWith("not within")) throw e;
      // It died, or this very connection was hit.
    }
  }
  if (sure) throw new Error(`a control plane that nothing happens to takes no run: ${refused}`);
  return "";
}

async function attach(served: Served, trial: Trial): Promise<ChildProcess> {
  const threads = readdirSync(`/proc/${served.pid}/task`);
  const args = [...injection(trial), ...threads.flatMap((id) => ["-p", id])];
  const tracer = spawn("strace", args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  tracer.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const attached = (): number => said.split(" attached").length - 1;
  await until(() => attached() >= threads.length || tracer.exitCode !== null, "strace is attached");
  return tracer;
}
