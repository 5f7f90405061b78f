// Ending a run gracefully and taking the rest of its log. Only the collect step calls it.

import { SvcError } from "../../errors/index.ts";
import type { RunLook } from "../../providers/host.ts";
import { STOP_GRACE_SECONDS } from "../../schemas/stored-spec.ts";
import { stopGraceSeconds } from "../../domain/stop-grace.ts";
import type { HeldMachine } from "../rental/held-machine.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";
import { followedRun } from "./follow-to-end.ts";
import { Follower } from "./log-follower.ts";

/** Polls of a run without processes whose end is not recorded yet. */
const LAST_LOOKS = 40;
const LAST_LOOK_MS = 250;

/** Stores the log while a script uses a long grace, because a user may be watching. Failures are retried after the end. */
async function pullWhile(services: RunServices, follower: Follower, stopping: Promise<void>): Promise<void> {
  const ended = stopping.then(() => true);
  // It is awaited below, after a pull that may last longer.
  ended.catch(() => undefined);
  for (let isOver = false; !isOver;) {
    await follower.pull(null, false).catch(() => undefined);
    isOver = await Promise.race([ended, services.pause(LAST_LOOK_MS).then(() => false)]);
  }
}

/**
 * Stops what still runs and stores the rest of its log; null when nothing was ever started.
 * @param ended called once it is known that the run has ended, also if its log cannot be taken afterwards.
 */
export async function drainRun(
  services: RunServices,
  context: StepContext,
  held: HeldMachine,
  stream: "run" | "install",
  ended: () => void = () => undefined,
) {
  const host = held.access.host(stream);
  const look = async (): Promise<RunLook | "damaged" | null> => {
    try {
      const status = await host.status(context.signal);
      if (status !== null && status.phase !== "running") ended();
      return status;
    } catch (e) {
      if (e instanceof SvcError && e.code === "run_damaged") return "damaged";
      throw e;
    }
  };
  let seen = await look();
  if (seen === null) return null;
  const followed = followedRun(services, context, held, stream);
  const follower = new Follower(followed);
  if (seen === "damaged" || seen.phase === "running") {
    const isDamaged = seen === "damaged";
    context.progress({ doing: "asking the script to end" });
    const given = stopGraceSeconds(services.facts(context.jobId).spec);
    // An installer has no state to save.
    const grace = stream === "run" ? given : Math.min(STOP_GRACE_SECONDS, given);
    const stopping = host.stop(grace, context.signal).then(ended, (e: unknown) => {
      // Its log is stored anyway; the machine is released after that.
      const mayBe =
        e instanceof SvcError &&
        (e.code === "machine_disk_full" || e.code === "machine_unfit" || (isDamaged && e.code === "runner_failed"));
      if (!mayBe) throw e;
    });
    await (grace > STOP_GRACE_SECONDS ? pullWhile(services, follower, stopping) : stopping);
    seen = (await look()) ?? seen;
  }
  if (seen === "damaged") {
    // The length is unknown, so take everything that is there.
    while ((await follower.pull(null, false)).bytes > 0) context.signal.throwIfAborted();
    return { status: null, followed, bytes: follower.offset, missing: 0, lost: null };
  }
  let status: RunLook = seen;
  // On a full disk the runner cannot write the end of the log before the earlier part is stored here and acknowledged.
  for (let n = 0; n < LAST_LOOKS && status.phase === "running"; n++) {
    while ((await follower.pull(null, false)).bytes > 0) context.signal.throwIfAborted();
    await follower.acknowledge();
    await services.pause(LAST_LOOK_MS);
    const again = await look();
    if (again !== null && again !== "damaged") status = again;
  }
  const missing = await follower.drain(status);
  let lost: string | null = null;
  if (missing > 0) {
    const whose = followed.tag === null ? "" : ` of node ${context.node}`;
    lost = `The last ${missing} bytes of the log${whose} could not be recovered from the machine; the log is truncated.`;
    await services.sink.notice(context.jobId, "warning", lost);
  }
  return { status, followed, bytes: follower.offset, missing, lost };
}
