// The collect step: stops what still runs and downloads the rest of the log and the checkpoints before the machine is released.
//
// Safe to run twice: the log continues at the committed cursor, and files that are here are not downloaded again. A log that cannot be
// taken does not keep the checkpoints from being downloaded; the step then fails with the log's error and is retried. Until the script is
// known to have ended, they are downloaded like those of a running script: a file that is being overwritten must not replace its complete copy.

import { SvcError } from "../errors/index.ts";
import type { ScanResult } from "./checkpoints/scan.ts";
import { limitWords } from "./checkpoints/listing-limit.ts";
import { noRoomYet } from "./checkpoints/room.ts";
import { besideFiles } from "./follow/beside-checkpoints.ts";
import { collectNow, redactorIfReadable } from "./follow/log-follower.ts";
import { drainRun } from "./follow/drain-run.ts";
import { followedRun, RETRY_FOR_EVER } from "./follow/follow-to-end.ts";
import { heldHandle, heldMachine, holdMachine, reaching, type HeldMachine } from "./rental/held-machine.ts";
import { watching } from "./rental/machine-watch.ts";
import type { RunServices } from "./run-services.ts";
import type { StepDefinition, StepDone } from "./step.ts";

/** While the log keeps failing, the checkpoints are looked through no more often than this. */
const SCAN_AGAIN_MS = 60_000;

export function collectStep(services: RunServices): StepDefinition {
  /** When the checkpoints were last downloaded although the log failed, by job and node. */
  const scanned = new Map<string, number>();
  return {
    name: "collect",
    // Retries for as long as the state `terminating` allows: a network outage must not cost a checkpoint.
    retry: { ...RETRY_FOR_EVER, delayMsMin: 1_000 },
    async run(context) {
      const { jobId, node } = context;
      if (heldHandle(services.ledger, jobId, node) === null)
        return { done: { exit_code: null }, detail: { nothing: "there was no machine" } };
      const held = heldMachine(services, context);
      if (!held.access.inPlace && held.handle.extra?.["home"] === undefined)
        return { done: { exit_code: null }, detail: { nothing: "the machine was never reached" } };
      const collect = async (): Promise<StepDone> => {
        // After a restart nothing else renews the lease: the run has ended, and the downloads may last longer than the lease.
        await holdMachine(services, context, held);
        const failures: unknown[] = [];
        let hasEnded = false;
        const drained = (stream: "install" | "run") =>
          drainRun(services, context, held, stream, () => void (hasEnded ||= stream === "run")).catch((e: unknown) => {
            if (context.signal.aborted) throw e;
            failures.push(e);
            return null;
          });
        const installation = await drained("install");
        const run = await drained("run");
        context.progress({ doing: "downloading checkpoints" });
        const collector = services.collector(jobId, node);
        const options = { announced: new Set<string>(), signal: context.signal };
        // Also when the run's own folder is gone: a script that removed it may have left its checkpoints.
        const followed = run?.followed ?? followedRun(services, context, held, "run");
        const whose = `${jobId} ${node}`;
        if (failures.length > 0) {
          const now = services.now();
          const isDue = now - (scanned.get(whose) ?? -Infinity) >= SCAN_AGAIN_MS;
          // The next attempt continues a download that failed, and downloads what has settled by then. The last scan of all never waits.
          const over = ({ pending }: ScanResult) => void (hasEnded && pending.length === 0 && scanned.set(whose, now));
          // The script may still be writing: then only files that have settled are complete.
          const scan = { ...options, final: hasEnded };
          if (isDue) await collectNow(followed, collector, scan).then(over, () => undefined);
          throw failures[0];
        }
        scanned.delete(whose);
        // On a full or unfit disk the script may have outlived the request to end.
        const final = hasEnded || run === null;
        const { status } = run ?? {};
        const hasSucceeded = status?.exit_code === 0 && !status.stopped && !status.preempted;
        const result = await collectNow(followed, collector, { ...options, final, hasSucceeded });
        if (!final) refuseUnfinished(result, collector.home.folder);
        const { saved } = result;
        const limit = result.skipped.find(({ isLimit }) => isLimit);
        const skipped = [...(limit ? [limit] : []), ...result.skipped.filter((s) => s !== limit)];
        if (run === null && saved.length === 0)
          return {
            done: { exit_code: null },
            detail: { nothing: "the script was never started, or its run folder is gone" },
          };
        // The reason may be the machine's words.
        const redactor = redactorIfReadable(followed);
        const left = skipped.map((s) => (redactor === null ? s.path : `${s.path}: ${s.why}`)).slice(0, 20);
        const { inPlace } = held.access;
        // They stay in the step's details, from which the page, the command line and messages show them after the end.
        const warnings = [installation, run].flatMap((ended) => ended?.lost ?? []);
        const warn = async (words: string): Promise<void> => {
          warnings.push(words);
          await services.sink.notice(jobId, "warning", words);
        };
        if (limit) await warn(limitWords(limit.path, { isOver: true, inPlace }));
        const others = limit ? left.slice(1) : left;
        const count = skipped.reduce((sum, s) => sum + (s === limit ? 0 : 1 + (s.others ?? 0)), 0);
        if (others.length > 0) await warn(leftBehind(others, count));
        if (result.torn.length > 0) await warn(tornWords(result.torn));
        const beside = await besideFiles(followed, true, context.signal);
        if (beside !== null) await warn(beside.words);
        const alive = [installation, run].flatMap((ended) => ended?.status?.left ?? []);
        const unended = alive
          .map(({ pid, name }) => (redactor === null ? String(pid) : `${pid} (${redactor.redactText(name)})`))
          .slice(0, 20);
        if (unended.length > 0) await warn(stillThere(unended, alive.length, held));
        const detail = {
          ...(warnings.length === 0 ? {} : { warnings }),
          ...(beside === null ? {} : { not_downloaded: beside.files }),
          ...(run === null ? {} : { log_bytes: run.bytes }),
          ...(run !== null && run.missing > 0 ? { log_bytes_missing: run.missing } : {}),
          checkpoints: (await collector.atHome()).length,
          ...(saved.length > 0 ? { checkpoints_brought_last: saved.length } : {}),
          ...(left.length > 0 ? { left_out: left } : {}),
          ...(unended.length > 0 ? { processes_left: unended } : {}),
        };
        return { done: { exit_code: run?.status?.exit_code ?? null }, detail };
      };
      // The machine is released afterwards in any case; until then its price counts.
      return reaching(services, context, held, () => watching(services, context, held, "nothing", collect));
    },
  };
}

/** Throws, so that the step is retried, while a later scan may download more from a script that may still be running. */
function refuseUnfinished({ pending, skipped, noRoom }: ScanResult, folder: string): void {
  const full = noRoomYet(folder, noRoom);
  if (full) throw full;
  const left = [...pending, ...skipped.filter(({ again }) => again).map(({ path }) => path)];
  if (left.length === 0) return;
  const more = left.length > 1 ? ` and ${left.length - 1} more` : "";
  const why = `it cannot end the script, and ${left[0]}${more} of the checkpoint directory cannot be downloaded before the script leaves them unchanged`;
  throw new SvcError("runner_failed", { why });
}

/** The warning for processes that KILL did not end. */
function stillThere(some: readonly string[], count: number, { access, provider }: HeldMachine): string {
  const [who, why, them] =
    count === 1
      ? ["A process", "It belongs to another user, or waits for a device", "it"]
      : [`${count} processes`, "They belong to another user, or wait for a device", "them"];
  const named = `${some.slice(0, 3).join(", ")}${count > 3 ? ` and ${count - 3} more` : ""}`;
  const isEnded = !access.inPlace && provider.info.capabilities.owns_machine;
  const then = isEnded
    ? `The end of the machine removes ${them}.`
    : `svc leaves ${them} on ${access.inPlace ? "this computer" : "the machine"}; an administrator can end ${them}.`;
  return `${who} of the run could not be ended: ${named}. ${why}. ${then}`;
}

/** The warning for checkpoints that the script was writing (announcements.ts AN2, unfinished-files.ts). */
function tornWords(names: readonly string[]): string {
  const [first = ""] = names;
  const [what, it, its] =
    names.length === 1
      ? [`The checkpoint ${first}`, "it", "Its"]
      : [`${names.length} checkpoints (${first} is one of them)`, "them", "Their"];
  return `${what} may be incomplete: the script was writing ${it} when it ended. ${its} files are on this computer, but a run that resumes uses the version before, or another checkpoint.`;
}

/** The warning for files of the checkpoint directory that are lost with the machine. */
function leftBehind(some: readonly string[], count: number): string {
  const named = some.slice(0, 3).join("; ");
  const more = count > 3 ? `; and ${count - 3} more, in the timeline` : "";
  return `${count === 1 ? "One file" : `${count} files`} of the checkpoint directory could not be downloaded: ${named}${more}.`;
}
