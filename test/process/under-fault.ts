// Makes a request to a control plane while `strace` injects a fault into one of its system calls, for one call or for each call of a kind.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import { pause, until, type Place, type Served } from "./harness.ts";

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

/** A request that changes a home, and what must hold of the home after any fault. */
export interface Interrupted {
  /** A home of its own, closed after one fault. */
  copy: () => Place;
  /** Makes the request under the fault. Returns whether the process died of it. */
  under: (place: Place, served: Served, fault: string) => Promise<boolean>;
  /** Checks the home, once a control plane lives there. */
  judge: (place: Place, served: Served) => Promise<void>;
}

// One thread makes all calls of the thread pool, so that they are counted together.
const serveByOneThread = (place: Place): Promise<Served> => place.serve({ env: { UV_THREADPOOL_SIZE: "1" } });

async function withCopy(copy: () => Place, use: (place: Place) => Promise<void>): Promise<void> {
  const place = copy();
  try {
    await use(place);
  } finally {
    await place.close();
  }
}

/**
 * Ends the process at the first call of this kind, at the one after `stride` more, and so on, until the request makes no such call any more.
 * @param callsMax more calls than the request ever makes.
 */
export async function killedAtEach(
  { copy, under, judge }: Interrupted,
  { call, stride, callsMax }: { call: string; stride: number; callsMax: number },
): Promise<void> {
  for (let nth = 1; nth < callsMax; nth += stride) {
    let died = false;
    await withCopy(copy, async (place) => {
      died = await under(place, await serveByOneThread(place), `${call}:signal=KILL:when=${nth}`);
      if (died) await judge(place, await place.serve());
    });
    if (died) continue;
    expect(nth, "the first call ends it").toBeGreaterThan(1);
    return;
  }
  expect.unreachable(`a removal makes ${callsMax} calls of ${call}`);
}

/** Lets the first, the second and the third call of this kind fail as on a broken disk; the process goes on. */
export async function failedAtThree({ copy, under, judge }: Interrupted, call: string): Promise<void> {
  for (const nth of [1, 2, 3])
    await withCopy(copy, async (place) => {
      const served = await serveByOneThread(place);
      expect(await under(place, served, `${call}:error=EIO:when=${nth}`)).toBe(false);
      await judge(place, served);
    });
}
