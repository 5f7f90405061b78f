// One system call of a control plane fails, or is its last (strace injects it), while it drives a run of this computer.
// For every call: the run ends with its right code or with an explained error, no byte of its log is lost or doubled,
// none of its processes is left, and every journal leads to its snapshot.
//
// Only the control plane's own threads get the fault. strace counts occurrences for each process apart, so a program
// that the control plane starts again and again (a runner) would meet the same fault for ever.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OUTCOMES } from "../../src/schemas/names.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { pause, Place, random, until, type Served } from "./harness.ts";

const ENDED: readonly string[] = OUTCOMES;
/** Whether the fault may occur from the program's first instruction on, or only once it answers and drives the run. */
type From = "start" | "ready";

/** An injected error hits each thread once: a step may fail and wait as often as the thread pool has threads. */
const RUN_ENDS_MS = 300_000;

/**
 * Calls, with how often one thread of a control plane makes them from its first instruction until it answers, and then until its run
 * has ended (a little more, as `strace` counted them); and errors that the kernel gives for them on a disk of this computer.
 *
 * C1. An injected error is one that the call can really return: no program must handle others. A call without errors is
 *     only used as the last one.
 * C2. strace skips a call that it lets fail. So `close` has no error: the kernel frees the descriptor whatever it
 *     answers, and one that stays open here would hold the other end of a pipe for ever. Nor has `fcntl`: a held lock
 *     can always be released; where it cannot (a network's disk, ENOLCK), SQLite refuses all writers until a restart.
 *     docs/quality/faults.md says so. For the same reason a `write` into a pipe or an event counter of the process
 *     itself, which cannot fail like one to a disk, makes no trial: libuv takes a lock by reading a byte that such a
 *     write puts back.
 * C3. Node hangs where its own threads cannot start, so memory and threads fail only once it answers.
 */
const CALLS: Record<string, { start: number; ready: number; errors: readonly string[] }> = {
  openat: { start: 135, ready: 630, errors: ["EMFILE", "ENFILE", "ENOMEM", "EACCES", "EIO", "EINTR"] },
  read: { start: 135, ready: 570, errors: ["EIO", "EINTR", "ENOMEM"] },
  fcntl: { start: 90, ready: 470, errors: [] },
  pwrite64: { start: 120, ready: 380, errors: ["EIO", "ENOSPC", "EDQUOT", "EINTR"] },
  close: { start: 115, ready: 155, errors: [] },
  getdents64: { start: 8, ready: 84, errors: ["EIO", "ENOMEM"] },
  statx: { start: 335, ready: 56, errors: ["EIO", "ENOMEM", "EACCES"] },
  newfstatat: { start: 68, ready: 44, errors: ["EIO", "ENOMEM", "EACCES"] },
  pread64: { start: 17, ready: 44, errors: ["EIO", "EINTR"] },
  write: { start: 32, ready: 38, errors: ["EIO", "ENOSPC", "EDQUOT", "EINTR"] },
  fsync: { start: 21, ready: 32, errors: ["EIO", "ENOSPC", "EDQUOT"] },
  access: { start: 35, ready: 8, errors: ["EIO", "ENOMEM", "EACCES"] },
  setsockopt: { start: 2, ready: 32, errors: ["ENOBUFS", "ENOMEM"] },
  unlinkat: { start: 2, ready: 16, errors: ["EIO", "EACCES", "ENOMEM"] },
  unlink: { start: 3, ready: 3, errors: ["EIO", "EACCES", "ENOMEM"] },
  rmdir: { start: 0, ready: 2, errors: ["EIO", "EACCES", "ENOMEM"] },
  rename: { start: 6, ready: 4, errors: ["EIO", "ENOSPC", "EACCES", "ENOMEM"] },
  mkdir: { start: 6, ready: 4, errors: ["EIO", "ENOSPC", "EACCES", "ENOMEM"] },
  lstat: { start: 0, ready: 2, errors: ["EIO", "ENOMEM", "EACCES"] },
  statfs: { start: 1, ready: 2, errors: ["EIO", "ENOMEM"] },
  ftruncate: { start: 1, ready: 2, errors: ["EIO", "EINTR"] },
  fchown: { start: 4, ready: 1, errors: ["EIO", "EPERM"] },
  chmod: { start: 5, ready: 1, errors: ["EIO", "EPERM"] },
  mmap: { start: 0, ready: 8, errors: ["ENOMEM"] },
  clone3: { start: 0, ready: 4, errors: ["EAGAIN", "ENOMEM"] },
  clone: { start: 0, ready: 4, errors: ["EAGAIN", "ENOMEM"] },
  wait4: { start: 0, ready: 4, errors: [] },
  kill: { start: 0, ready: 2, errors: ["EPERM"] },
  pipe2: { start: 3, ready: 4, errors: ["EMFILE", "ENFILE"] },
  socketpair: { start: 0, ready: 8, errors: ["EMFILE", "ENFILE"] },
  shutdown: { start: 0, ready: 8, errors: ["ENOTCONN"] },
  ioctl: { start: 5, ready: 8, errors: [] },
  accept4: { start: 0, ready: 4, errors: ["EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED"] },
  epoll_ctl: { start: 4, ready: 10, errors: ["ENOMEM", "ENOSPC"] },
  inotify_init1: { start: 0, ready: 1, errors: ["EMFILE", "ENOMEM"] },
  inotify_add_watch: { start: 0, ready: 3, errors: ["ENOSPC", "ENOMEM", "EACCES"] },
};

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

/** Disables the compile cache, so that every run makes the same calls. */
const SAME_CALLS = { NODE_DISABLE_COMPILE_CACHE: "1" };

export interface Trial {
  call: string;
  nth: number;
  /** The name of an error; `KILL` makes the call the last one. */
  fault: string;
  from: From;
}

/**
 * Every call in turn, in an order that the seed shuffles: calls fail or are the last, alternately, so that this seed
 * and the next cover both. The seed also draws the error.
 */
export function trialsOf(seed: number): Trial[] {
  const next = random(seed);
  const trials: Trial[] = [];
  for (const [call, of] of Object.entries(CALLS))
    for (const from of ["start", "ready"] as const)
      for (let nth = 1; nth <= of[from]; nth++) {
        const error = of.errors[Math.floor(next() * of.errors.length)];
        trials.push({ call, nth, fault: (nth + seed) % 2 === 0 && error !== undefined ? error : "KILL", from });
      }
  for (let i = trials.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [trials[i], trials[j]] = [trials[j] as Trial, trials[i] as Trial]; // within bounds
  }
  return trials;
}

export const canInject = (): boolean =>
  spawnSync("strace", ["-qq", "-e", "trace=close", "-e", "inject=close:error=EIO:when=9999", "true"]).status === 0;

const injection = (place: Place, { call, nth, fault }: Trial): string[] => {
  const what = fault === "KILL" ? "signal=KILL" : `error=${fault}`;
  return ["-y", "-o", traceOf(place), "-e", `trace=${call}`, "-e", `inject=${call}:${what}:when=${nth}`];
};

const traceOf = (place: Place): string => join(place.root, "strace");
/** C2 */
const OWN_PIPE = /^(?:\d+ +)?write\((?![12]<)\d+<(?:pipe:|anon_inode:\[eventfd\]).*\(INJECTED\)$/m;
const metOwnPipe = (place: Place): boolean =>
  existsSync(traceOf(place)) && OWN_PIPE.test(readFileSync(traceOf(place), "latin1"));

/** Runs one trial. @returns the fault that was found, as text, or null. */
export async function tryCall(trial: Trial): Promise<string | null> {
  const place = Place.own("a trial kills it, or fails its system calls");
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
      ? place.start({ under: ["strace", "-qq", ...injection(place, trial)], env: SAME_CALLS })
      : await place.serve();
  const tracer = trial.from === "ready" ? await attach(place, first, trial) : null;
  if (trial.from === "start")
    await until(() => first.announced || !first.running || metOwnPipe(place), "it starts or ends");
  if (metOwnPipe(place)) return null;
  // A process that is about to die sends no answer first.
  if ((await attempt(place, first, false)) === "") await Promise.race([first.exited, pause(5_000)]);
  tracer?.kill("SIGINT");
  if (metOwnPipe(place)) return null;
  // The first control plane continues if it is alive; otherwise a second one takes over, as a user would start it.
  const served = first.running && first.announced ? first : await place.serve();
  const id = await attempt(place, served, true);
  const job = await served.ended(id);
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

/**
 * Requests the run, with one key for all attempts. @returns its id; empty if the control plane could not accept it and
 * did not have to.
 */
async function attempt(place: Place, served: Served, sure: boolean): Promise<string> {
  const spec = {
    entrypoint: "train.py",
    args: [expected(place)],
    project_dir: place.project,
    terminate_on_exit: false,
  };
  let refused = "it gave no answer";
  for (let tries = 0; tries < 3 && served.running && !metOwnPipe(place); tries++) {
    try {
      const answer = await fetch(`${served.url}/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "one" },
        body: JSON.stringify({ spec }),
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
      const text = await answer.text();
      refused = text;
      if (!answer.ok) continue;
      const body = JSON.parse(text) as { id: string };
      await until(
        async () => !served.running || ENDED.includes((await served.job(body.id)).status),
        "the run ends while the control plane lives",
        RUN_ENDS_MS,
      );
      return body.id;
    } catch (e) {
      if (e instanceof Error && e.message.startsWith("not within")) throw e;
      // The process died, or the fault hit this very connection.
    }
  }
  if (sure) throw new Error(`a control plane that nothing happens to takes no run: ${refused}`);
  return "";
}

async function attach(place: Place, served: Served, trial: Trial): Promise<ChildProcess> {
  const threads = readdirSync(`/proc/${served.pid}/task`);
  const args = [...injection(place, trial), ...threads.flatMap((id) => ["-p", id])];
  const tracer = spawn("strace", args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  tracer.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const attached = (): number => said.split(" attached").length - 1;
  await until(() => attached() >= threads.length || tracer.exitCode !== null, "strace is attached");
  return tracer;
}
