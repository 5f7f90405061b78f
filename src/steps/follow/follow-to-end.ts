// Following one supervised run until it is over. `install` and `stream` call it; what remains after the end is `collect`'s work.

import { SvcError } from "../../errors/index.ts";
import type { RunLook } from "../../providers/host.ts";
import { startedAlone } from "../launch/failure-message.ts";
import type { HeldMachine } from "../rental/held-machine.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";
import { FullDisk, isFull } from "./disk-watch.ts";
import { announced, collectNow, Follower, redactorIfReadable, type FollowedRun } from "./log-follower.ts";
import { checkpointsOf, RunWatch } from "./run-watch.ts";

/** Losing contact with a run is not a reason to end it: only an error marked "never" stops the retries. */
export const RETRY_FOR_EVER = { attemptsMax: Number.MAX_SAFE_INTEGER, delayMsMin: 500, delayMsMax: 30_000 };
/** Least time between two pulls of a chatty run, so that each pull takes a larger piece. */
const PULL_GAP_MS = 15;
const ALONE =
  "Started one process instead of one per GPU because PyTorch is not installed where the script runs. Add it to your requirements. Every GPU is still billed.";

const TAKEN_BACK =
  "The provider announced that it takes the machine back within seconds. The script was asked to save and end (TERM); svc downloads its checkpoints first.";

/** Pulls until the run is over and all of its output is stored. */
export async function followToEnd(
  services: RunServices,
  context: StepContext,
  held: HeldMachine,
  stream: "run" | "install",
): Promise<RunLook & { tail: string }> {
  const { signal } = context;
  const run = followedRun(services, context, held, stream);
  const follower = new Follower(run);
  const watch = new RunWatch(services, context, run, held);
  const disk = new FullDisk(services, context, held.handle.name);
  let isAlone = false;
  let isTakenBack = false;
  for (let waitMs = 0; ; waitMs = watch.quietMs()) {
    signal.throwIfAborted();
    const { look: status, pulled } = await follower
      .next(waitMs, () => watch.samplesDue())
      .catch(async (e: unknown) => {
        // Its log waits on the machine. The checkpoints need not.
        if (stream === "run" && redactorIfReadable(run) === null) await scanAlone(services, run);
        throw e;
      });
    const over = status !== null && status.phase !== "running";
    // After the end, the collect step takes the rest.
    if (!over) {
      await watch.saw(pulled);
      watch.look();
    }
    if (isFull(status)) await follower.acknowledge();
    if (!isAlone && stream === "run" && startedAlone(follower.tail)) {
      isAlone = true;
      await services.sink.notice(context.jobId, "warning", ALONE);
    }
    if (!isTakenBack && status?.preempted) {
      isTakenBack = true;
      await services.sink.notice(context.jobId, "warning", TAKEN_BACK);
    }
    if (status !== null && !over) await disk.saw(status, pulled.bytes > 0);
    const far = stream === "install" ? { doing: lastLineOf(follower.tail) } : { log_bytes: follower.offset };
    context.progress({ ...far, ...disk.detail });
    if (over) {
      await follower.drain(status);
      return { ...status, tail: follower.tail };
    }
    if (status === null) throw new SvcError("run_lost", { why: "its run directory is gone" });
    if (pulled.bytes > 0) await services.pause(PULL_GAP_MS);
  }
}

/** One scan for a run whose log cannot be stored now. The log's error counts. */
async function scanAlone(services: RunServices, run: FollowedRun): Promise<void> {
  const { jobId, node, signal } = run;
  const options = { final: false, announced: new Set<string>(), signal };
  try {
    await collectNow(run, services.collector(jobId, node), options);
  } catch {
    // The next attempt scans again.
  }
}

/** The parameters of a follower for one run of a node. */
export function followedRun(
  services: RunServices,
  { jobId, node, signal }: StepContext,
  held: HeldMachine,
  stream: "run" | "install",
): FollowedRun {
  const { nodes } = services.facts(jobId).spec;
  const tag = nodes > 1 ? `[node${node}] ` : null;
  const dir = checkpointsOf(services, { jobId, node }, held);
  const hears: FollowedRun["hears"] = (records) => services.announced(jobId, node, announced(records, dir));
  const host = held.access.host(stream);
  const { undecided } = services;
  const secrecy = services.secrecy(jobId);
  return {
    jobId,
    node,
    host,
    stream,
    tag,
    sink: services.sink,
    mark: secrecy.mark,
    // Asked for each piece of the log: a secret may be saved or replaced while the run goes on.
    get redactor() {
      return secrecy.redactor;
    },
    signal,
    hears,
    undecided,
  };
}

/** The line that an installer is writing. */
export const lastLineOf = (tail: string): string =>
  tail
    .trimEnd()
    .split(/[\n\r]/)
    .at(-1)
    ?.slice(0, 200) || "installing";
