// Makes a request to a control plane while `strace` injects a fault into one of its system calls.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { pause, until, type Served } from "./harness.ts";

interface Faulted {
  /** Null if the connection broke. */
  answer: Response | null;
  /** Whether the process ended: the fault killed it. */
  died: boolean;
}

/**
 * @param fault as `inject` of strace takes it, such as `unlink:signal=KILL:when=3`.
 * @param settled called after an answer without an error; resolves when the work behind it has ended.
 */
export async function underFault(
  served: Served,
  fault: string,
  request: () => Promise<Response>,
  settled: () => Promise<void>,
): Promise<Faulted> {
  const threads = readdirSync(`/proc/${served.pid}/task`);
  const args = ["-qq", "-f", "-o", "/dev/null", "-e", `inject=${fault}`, "-e", `trace=${fault.split(":")[0]}`];
  const tracer = spawn("strace", ["-y", ...args, ...threads.flatMap((id) => ["-p", id])], { stdio: "ignore" });
  const isTraced = (id: string): boolean =>
    /^TracerPid:\t[1-9]/m.test(readFileSync(`/proc/${served.pid}/task/${id}/status`, "utf8"));
  await until(() => threads.every(isTraced), "strace is attached");
  const answer = await request().catch(() => null);
  if (answer?.ok) await settled();
  // The connection breaks slightly before the test sees the end of the process.
  if (answer === null) await Promise.race([served.exited, pause(10_000)]);
  const died = !served.running;
  tracer.kill("SIGINT");
  await new Promise((done) => (tracer.exitCode === null ? tracer.once("exit", done) : done(null)));
  return { answer, died };
}
