// The run itself: what comes before it, the script, its story, and what it leaves behind.

import { describeError, OUT_OF_MEMORY, SvcError } from "../errors/index.ts";
import type { RunLook } from "../providers/host.ts";
import { STOP_GRACE_SECONDS } from "../schemas/spec.ts";
import { announced, collectNow, Follower, type FollowedRun } from "./follow/log-follower.ts";
import { heldHandle, heldMachine, holdMachine, reaching, type HeldMachine } from "./rental/held-machine.ts";
import { FullDisk, isFull } from "./follow/disk-watch.ts";
import type { Install } from "./launch/install-command.ts";
import type { RunServices } from "./run-services.ts";
import {
  type FailedRank,
  failedRank,
  failingLine,
  installWarnings,
  lastWords,
  missingLauncher,
  raised,
  startedAlone,
} from "./launch/failure-message.ts";
import { hasRanks, stopGraceSeconds } from "./launch/launcher-argv.ts";
import type { RunPlan } from "./launch/runner-spec.ts";
import { checkpointsOf, RunWatch } from "./follow/run-watch.ts";
import type { StepContext, StepDefinition } from "./step.ts";

const MINUTE_MS = 60_000;
/** Of a run without processes whose end is not written down yet. */
const LAST_LOOKS = 40;
const LAST_LOOK_MS = 250;
/** Pulls of a chatty run are at least this far apart, so that they come home in larger pieces. */
const PULL_GAP_MS = 15;
/** The supervisor replaces what it writes as a whole: what has been damaged for so long, nobody mends. */
const DAMAGED_MS = 20_000;
/** The run lives on the machine: to lose sight of it is no reason to end it. Only an error that says "never" is. */
const FOR_EVER = { attemptsMax: Number.MAX_SAFE_INTEGER, delayMsMin: 500, delayMsMax: 30_000 };

export function installStep(services: RunServices): StepDefinition {
  return {
    name: "install",
    retry: { ...FOR_EVER, delayMsMax: 15_000 },
    async run(context) {
      const { jobId, node, signal } = context;
      const held = heldMachine(services, context);
      const command = await services.installCommand(jobId, held.access.inPlace);
      if ("skipped" in command) return { done: {}, detail: command };
      return reaching(services, context, held, async () => {
        const host = held.access.host("install");
        const plan = await services.plan(jobId, node, "install");
        const runner = { ...plan.runner, argv: installArgv(command, plan, held) };
        await host.start(runner, plan.secretEnv, signal);
        const status = await followToEnd(services, context, held, "install");
        if (status.exit_code !== 0) {
          throw new SvcError("install_failed", { exit_code: status.exit_code ?? 255, last: failingLine(status.tail) });
        }
        const warnings = installWarnings(status.tail);
        for (const words of warnings) await services.sink.notice(jobId, "warning", words);
        const detail = "command" in command ? command : { installed: command.environment.files.join(", ") };
        const more = warnings.length > 0 ? { warnings } : {};
        return { done: {}, detail: { ...detail, ...more, last: lastLineOf(status.tail) } };
      });
    },
  };
}

function installArgv(install: Exclude<Install, { skipped: string }>, plan: RunPlan, held: HeldMachine): string[] {
  if ("command" in install) return ["/bin/sh", "-c", install.command];
  const { packages, environment } = held.access.layout();
  const python = plan.runner.env["SVC_PYTHON"] ?? "python3";
  return [python, "-u", `${packages}/svc/_install.py`, JSON.stringify(install.environment), environment];
}

export function launchStep(services: RunServices): StepDefinition {
  return {
    name: "launch",
    // A network that is gone for minutes is waited for; what the runner itself says is not asked for more often than this.
    retry: { attemptsMax: 30, delayMsMin: 500, delayMsMax: 30_000 },
    attemptMs: 5 * MINUTE_MS,
    async run(context) {
      const { jobId, node, signal } = context;
      const held = heldMachine(services, context);
      const plan = await services.plan(jobId, node, "run");
      signal.throwIfAborted();
      return reaching(services, context, held, async () => {
        const status = await held.access.host("run").start(plan.runner, plan.secretEnv, signal);
        if (status.phase === "failed")
          throw new SvcError("runner_failed", { why: status.error ?? "it gave no reason" });
        return { done: {}, detail: { pid: status.pid, argv: plan.runner.argv } };
      });
    },
  };
}

export function streamStep(services: RunServices): StepDefinition {
  /** By effect, since when each look has found it damaged, and when the last one has. */
  const damaged = new Map<number, { sinceMs: number; atMs: number }>();
  const judged = (effectId: number, e: unknown): unknown => {
    if (!(e instanceof SvcError && e.code === "run_damaged")) return e;
    const atMs = services.now();
    const before = damaged.get(effectId);
    const sinceMs = before !== undefined && atMs - before.atMs < MINUTE_MS ? before.sinceMs : atMs;
    damaged.set(effectId, { sinceMs, atMs });
    return atMs - sinceMs < DAMAGED_MS ? e : new SvcError("run_lost", { why: e.message }, { cause: e });
  };
  return {
    name: "stream",
    retry: FOR_EVER,
    async run(context) {
      const held = heldMachine(services, context);
      return reaching(services, context, held, async () => {
        // A control plane that was away for a while holds the machine again from here on.
        await holdMachine(services, context, held);
        const status = await followToEnd(services, context, held, "run").catch((e: unknown) => {
          throw judged(context.effectId, e);
        });
        damaged.delete(context.effectId);
        return {
          done: outcomeOf(status, services.facts(context.jobId).spec, context.node),
          detail: { exit_code: status.exit_code, signal: status.signal, log_bytes: status.log_bytes },
        };
      });
    },
  };
}

type Spec = ReturnType<RunServices["facts"]>["spec"];

function outcomeOf(status: RunLook & { tail: string }, spec: Spec, node: number): Record<string, unknown> {
  const { exit_code } = status;
  if (status.phase === "failed" || exit_code === null) {
    const why = status.error ?? "the runner ended without a word";
    return { exit_code: null, error: describeError("run_lost", { why }) };
  }
  if (exit_code === 0 && !status.stopped) return { exit_code, error: null };
  const missing = missingLauncher(status.tail);
  if (missing) return { exit_code, error: describeError("launcher_missing", missing) };
  const failed = failedRank(status.tail);
  const signal = status.oom ? OUT_OF_MEMORY : (failed?.signal ?? status.signal);
  // Python ends with 1 when an exception was not caught; with another code an earlier one was not the end.
  const why = signal === null && exit_code === 1 ? raised(status.tail, failed?.rank ?? null) : null;
  // What a launcher says at its end tells of all ranks, and is no rank's last line.
  const last = signal === null && why === null && failed === null && !hasRanks(spec) ? lastWords(status.tail) : null;
  const facts = {
    exit_code,
    signal,
    why: why ?? (last?.isTrouble ? last.words : null),
    last: last !== null && !last.isTrouble ? last.words : null,
    who: whoOf(failed, signal !== null, spec, node),
  };
  const disk_full = isFull(status);
  return { exit_code, error: describeError("script_failed", { ...facts, disk_full }) };
}

function whoOf(failed: FailedRank | null, killed: boolean, spec: Spec, node: number): string {
  if (failed?.who) return `The script on ${failed.who}`;
  const where = spec.nodes > 1 ? ` on node ${node}` : "";
  // A launcher that could, would have said who it was.
  return killed && failed === null && hasRanks(spec)
    ? `The script${where}, or what held its ranks together,`
    : `The script${where}`;
}

/** Pulls until the run is over and all that it wrote is home. */
async function followToEnd(
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
  for (let waitMs = 0; ; waitMs = watch.quietMs()) {
    signal.throwIfAborted();
    const { look: status, pulled } = await follower.next(waitMs, () => watch.samplesDue());
    const over = status !== null && status.phase !== "running";
    // Of a run that is over, all that is left is collected by another step.
    if (!over) {
      await watch.saw(pulled);
      watch.look();
    }
    if (isFull(status)) await follower.acknowledge();
    if (!isAlone && stream === "run" && startedAlone(follower.tail)) {
      isAlone = true;
      await services.sink.notice(context.jobId, "warning", ALONE);
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

const ALONE =
  "One process was started, not one for each GPU: PyTorch is not installed where it runs, and `install` can bring it. All that was asked for is paid for.";

/** What an installer says at the moment. */
const lastLineOf = (tail: string): string =>
  tail
    .trimEnd()
    .split(/[\n\r]/)
    .at(-1)
    ?.slice(0, 200) || "installing";

export function collectStep(services: RunServices): StepDefinition {
  return {
    name: "collect",
    // For as long as the state of `terminating` allows: a network that is gone for a while must not cost a checkpoint.
    retry: { ...FOR_EVER, delayMsMin: 1_000 },
    async run(context) {
      const { jobId, node } = context;
      if (heldHandle(services.ledger, jobId, node) === null)
        return { done: { exit_code: null }, detail: { nothing: "there was no machine" } };
      const held = heldMachine(services, context);
      if (!held.access.inPlace && held.handle.extra?.["home"] === undefined)
        return { done: { exit_code: null }, detail: { nothing: "the machine was never reached" } };
      return reaching(services, context, held, async () => {
        await bringHome(services, context, held, "install");
        const run = await bringHome(services, context, held, "run");
        context.progress({ doing: "bringing checkpoints home" });
        const collector = services.collector(jobId, node);
        const options = { final: true, announced: new Set<string>(), signal: context.signal };
        // Also where nothing is left of the run's own folder: a script that removed it may have left its checkpoints.
        const followed = run?.followed ?? followedRun(services, context, held, "run");
        const { saved, skipped } = await collectNow(followed, collector, options);
        if (run === null && saved.length === 0)
          return {
            done: { exit_code: null },
            detail: { nothing: "the script was never started, or its run folder is gone" },
          };
        const left = skipped.map((s) => `${s.path}: ${s.why}`).slice(0, 20);
        if (left.length > 0) await services.sink.notice(jobId, "warning", leftBehind(left, skipped.length));
        const detail = {
          ...(run === null ? {} : { log_bytes: run.bytes }),
          ...(run !== null && run.missing > 0 ? { log_bytes_missing: run.missing } : {}),
          checkpoints: (await collector.atHome()).length,
          ...(saved.length > 0 ? { checkpoints_brought_last: saved.length } : {}),
          ...(left.length > 0 ? { left_out: left } : {}),
        };
        return { done: { exit_code: run?.status?.exit_code ?? null }, detail };
      });
    },
  };
}

/** In words, what of the checkpoint directory goes with the machine. */
function leftBehind(some: readonly string[], count: number): string {
  const named = some.slice(0, 3).join("; ");
  const more = count > 3 ? `; and ${count - 3} more, in the timeline` : "";
  return `${count === 1 ? "One file" : `${count} files`} of the checkpoint directory did not come home: ${named}${more}.`;
}

function followedRun(
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
  return { jobId, node, host, stream, tag, sink: services.sink, ...services.secrecy(jobId), signal, hears, undecided };
}

/** Brings the log home while a script uses a long grace: somebody may be watching. What fails here is tried again after the end. */
async function meanwhile(services: RunServices, follower: Follower, stopping: Promise<void>): Promise<void> {
  const ended = stopping.then(() => true);
  // It is awaited below, after a pull that may last longer.
  ended.catch(() => undefined);
  for (let isOver = false; !isOver;) {
    await follower.pull(null, false).catch(() => undefined);
    isOver = await Promise.race([ended, services.pause(LAST_LOOK_MS).then(() => false)]);
  }
}

/** Ends what still runs and takes the rest of its log; null when nothing was ever started. */
async function bringHome(services: RunServices, context: StepContext, held: HeldMachine, stream: "run" | "install") {
  const host = held.access.host(stream);
  const look = async (): Promise<RunLook | "damaged" | null> => {
    try {
      return await host.status(context.signal);
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
    // What installs has no state to save.
    const grace = stream === "run" ? given : Math.min(STOP_GRACE_SECONDS, given);
    const stopping = host.stop(grace, context.signal).catch((e: unknown) => {
      // What it has logged is brought home all the same; the machine is given back after that.
      const mayBe =
        e instanceof SvcError && (e.code === "machine_disk_full" || (isDamaged && e.code === "runner_failed"));
      if (!mayBe) throw e;
    });
    await (grace > STOP_GRACE_SECONDS ? meanwhile(services, follower, stopping) : stopping);
    seen = (await look()) ?? seen;
  }
  if (seen === "damaged") {
    // Nobody knows how long it is: all that is there is.
    while ((await follower.pull(null, false)).bytes > 0) context.signal.throwIfAborted();
    return { status: null, followed, bytes: follower.offset, missing: 0 };
  }
  let status: RunLook = seen;
  // On a full disk the runner cannot write the end of the log before what came earlier is safe at home.
  for (let n = 0; n < LAST_LOOKS && status.phase === "running"; n++) {
    while ((await follower.pull(null, false)).bytes > 0) context.signal.throwIfAborted();
    await follower.acknowledge();
    await services.pause(LAST_LOOK_MS);
    const again = await look();
    if (again !== null && again !== "damaged") status = again;
  }
  const missing = await follower.drain(status);
  if (missing > 0) {
    const whose = followed.tag === null ? "" : ` of node ${context.node}`;
    const words = `The last ${missing} bytes of the log${whose} were not found where the script ran: the log ends too early.`;
    await services.sink.notice(context.jobId, "warning", words);
  }
  return { status, followed, bytes: follower.offset, missing };
}
