// The stream step: follows the log, metrics, samples and checkpoints of a running script, and decides how the run ended.
//
// Safe to run twice: the log continues at the committed cursor (follow/log-follower.ts).

import { posix } from "node:path";
import { failureOfStep, type Failure } from "../domain/failure.ts";
import { describeError, OUT_OF_MEMORY, SvcError } from "../errors/index.ts";
import { THE_SCRIPT } from "../errors/script-ended.ts";
import { readSnapshot } from "../files/code/code-snapshot.ts";
import { lackedHere } from "../files/listing/lacked-here.ts";
import { lackedWords, readLeftOut } from "../files/listing/left-out.ts";
import type { RunLook } from "../providers/host.ts";
import { isFull } from "./follow/disk-watch.ts";
import { followToEnd, RETRY_FOR_EVER } from "./follow/follow-to-end.ts";
import { failedRank, lastWords, missingLauncher, raised, type FailedRank } from "./launch/failure-message.ts";
import { hasRanks } from "../domain/stop-grace.ts";
import { heldMachine, holdMachine, reaching, type HeldMachine } from "./rental/held-machine.ts";
import type { RunServices } from "./run-services.ts";
import type { StepContext, StepDefinition } from "./step.ts";

/** status.json is replaced atomically, so a file that is still corrupt after this long will not recover. */
const DAMAGED_MS = 20_000;
/** Two damaged reads further apart than this are two incidents. */
const INCIDENT_MS = 60_000;

export function streamStep(services: RunServices): StepDefinition {
  /** By effect: when the status was first and last read as damaged. */
  const damaged = new Map<number, { sinceMs: number; atMs: number }>();
  const judged = (effectId: number, e: unknown): unknown => {
    if (!(e instanceof SvcError && e.code === "run_damaged")) return e;
    const atMs = services.now();
    const before = damaged.get(effectId);
    const sinceMs = before !== undefined && atMs - before.atMs < INCIDENT_MS ? before.sinceMs : atMs;
    damaged.set(effectId, { sinceMs, atMs });
    return atMs - sinceMs < DAMAGED_MS ? e : new SvcError("run_lost", { why: e.message }, { cause: e });
  };
  return {
    name: "stream",
    retry: RETRY_FOR_EVER,
    async run(context) {
      const held = heldMachine(services, context);
      return reaching(services, context, held, async () => {
        // Renews the lease after the control plane was away.
        await holdMachine(services, context, held);
        const status = await followToEnd(services, context, held, "run").catch((e: unknown) => {
          throw judged(context.effectId, e);
        });
        damaged.delete(context.effectId);
        // The machine's guard may have stopped it at the end of the budget: then that is the reason, and not the exit code.
        if (status.stopped) await services.budget?.look(context.jobId);
        return {
          done: await outcomeOf(
            status,
            services.facts(context.jobId).spec,
            context.node,
            { provider: held.provider.name, machine: held.handle.name, inPlace: held.access.inPlace },
            (trouble) => lacked(services, context, held, trouble),
          ),
          detail: { exit_code: status.exit_code, signal: status.signal, log_bytes: status.log_bytes },
        };
      });
    },
  };
}

/** A sentence about what the script lacks because it was not sent; null for a run in place, and if nothing explains it. */
async function lacked(
  services: RunServices,
  { jobId, node }: StepContext,
  { access }: HeldMachine,
  trouble: string,
): Promise<string | null> {
  if (access.inPlace) return null;
  const told = services.leftOut(jobId);
  const code = services.code(jobId, node);
  const snapshot = await readSnapshot(code);
  const { projectDir, spec } = services.facts(jobId);
  const here =
    snapshot === null
      ? null
      : await lackedHere(trouble, {
          projectDir,
          machineDir: access.layout().project,
          scriptFolder: /^(-m\s|[^/]*$)/.test(spec.entrypoint) ? "" : posix.dirname(spec.entrypoint),
          paths: new Set(snapshot.files.map((file) => file.path)),
          leftOut: told === null || told.list === null ? null : await readLeftOut(code.codeDir, told.list),
        });
  return here ?? lackedWords(told, trouble);
}

type Spec = ReturnType<RunServices["facts"]>["spec"];

/** @param lackedBy names the excluded files that may have caused the failure. */
async function outcomeOf(
  status: RunLook & { tail: string },
  spec: Spec,
  node: number,
  { inPlace, ...machine }: { provider: string; machine: string; inPlace: boolean },
  lackedBy: (trouble: string) => Promise<string | null>,
): Promise<Record<string, unknown>> {
  const { exit_code } = status;
  if (status.phase === "failed" || exit_code === null) {
    const lost = { why: status.error ?? "the runner ended without a word", never_started: status.not_runnable };
    const failure = failureOfStep("stream", { code: "run_lost", data: lost });
    return { exit_code: null, error: describeError("run_lost", lost), failure };
  }
  if (exit_code === 0 && !status.stopped) return { exit_code, error: null };
  if (status.preempted) {
    const error = describeError("machine_preempted", { ...machine, why: "it announced the end of the machine" });
    return { exit_code, error, failure: "preempted" satisfies Failure };
  }
  const missing = missingLauncher(status.tail);
  if (missing)
    return { exit_code, error: describeError("launcher_missing", missing), failure: "other" satisfies Failure };
  const failed = failedRank(status.tail);
  const signal = status.oom ? OUT_OF_MEMORY : (failed?.signal ?? status.signal);
  // Python exits with 1 after an uncaught exception; with another code an earlier exception was not the end.
  const why = signal === null && exit_code === 1 ? raised(status.tail, failed?.rank ?? null) : null;
  // A launcher's last line summarises all ranks; it is not the last line of one of them.
  const last = signal === null && why === null && failed === null && !hasRanks(spec) ? lastWords(status.tail) : null;
  const trouble = why ?? (last?.isTrouble ? last.words : null);
  const facts = {
    exit_code,
    signal,
    why: trouble,
    left_out: trouble === null ? null : await lackedBy(trouble),
    last: last !== null && !last.isTrouble ? last.words : null,
    who: whoOf(failed, signal !== null, spec, node),
  };
  const disk_full = isFull(status);
  const isOom = signal === OUT_OF_MEMORY || (why !== null && /OutOfMemoryError|out of memory/i.test(why));
  const failure: Failure = isOom ? "oom" : `exit:${exit_code}`;
  return { exit_code, error: describeError("script_failed", { ...facts, disk_full, in_place: inPlace }), failure };
}

function whoOf(failed: FailedRank | null, killed: boolean, spec: Spec, node: number): string {
  if (failed?.who) return `${THE_SCRIPT} on ${failed.who}`;
  const where = spec.nodes > 1 ? ` on node ${node}` : "";
  // A surviving launcher would have named the rank.
  return killed && failed === null && hasRanks(spec)
    ? `${THE_SCRIPT}${where}, or what held its ranks together,`
    : `${THE_SCRIPT}${where}`;
}
