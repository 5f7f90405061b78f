// Warnings above a run. They read the kind of its note and of its error, never the words.

import type { FeedEvent, JobRecord, TimelineStep } from "../../../src/schemas/job.ts";
import { runWarnings } from "../../../src/domain/run-warnings.ts";
import { refusalOf } from "../../../src/domain/refusal.ts";
import { mayCostMoney } from "../../../src/schemas/names.ts";
import { stepName } from "../format.ts";
import { Refused } from "./refused.tsx";
import { isReturning, releasesOf, RETURNING, returningSince } from "../machines.ts";
import { Banner } from "../parts/banner.tsx";
import { useNow } from "../parts/now.ts";
import { At } from "../parts/time.tsx";
import { withCode } from "../parts/with-code.tsx";
import { Link, runPath } from "../router.tsx";
import { isActive, isAsked } from "../status.ts";
import { useData } from "../store.ts";
import { useRunEvents } from "./run-events.ts";
import { keyOf } from "./step-words.ts";
import { dueWords } from "./timeline-view.tsx";

const NO_STEPS: TimelineStep[] = [];

/** Explains a run's trouble: failures, machines that may still cost money, retries, standstills. */
export function RunBanners({ job }: { job: JobRecord }) {
  const active = isActive(job);
  const steps = useData((data) => data.timelines[job.id]?.steps ?? NO_STEPS);
  const events = useRunEvents(job.id);
  const retrying = active ? newestOf(steps).filter((step) => step.status === "retrying") : [];
  const unsure = job.machines.filter(
    (machine) =>
      machine.terminated_at === null && machine.price_per_hour_usd !== 0 && (machine.state === "unknown" || !active),
  );
  const note = job.note;
  const costly = note !== null && (mayCostMoney(note.kind) || job.status === "terminating");
  const calm = useCalm(job, steps);
  const kept = runWarnings(steps);
  const warning = active ? lastWarning(events) : null;
  const said = warning === null ? null : String(warning.data["message"]);
  return (
    <>
      {job.error && refusalOf(job) !== null && <Refused job={job} error={job.error} />}
      {job.error && refusalOf(job) === null && (
        <Banner tone={isAsked(job) ? "info" : "bad"} title={<bdi>{job.error.message}</bdi>}>
          <p>
            {job.error.code === "script_failed" && (
              <>
                <Link href={`${runPath(job.id, "logs")}&errors=1`}>See its errors</Link>, or{" "}
                <Link href={`/new?from=${encodeURIComponent(job.id)}`}>run it again with changes</Link>.{" "}
              </>
            )}
            {withCode(job.error.hint)} <code className="quiet">{job.error.code}</code>
          </p>
        </Banner>
      )}
      {calm && <Banner tone="info" title={calm} />}
      {note && !calm && note.message !== said && (costly || retrying.length === 0) && (
        <Banner tone={costly ? "warn" : "info"} title={<bdi>{withCode(note.message)}</bdi>} />
      )}
      {unsure.length > 0 && !note && (
        <Banner tone="warn" title="May still cost money">
          <p>
            Termination of {unsure.map((machine) => machine.name).join(", ")} is not confirmed. svc keeps retrying until
            the provider confirms that it is gone.
          </p>
        </Banner>
      )}
      {retrying.map((step) => (
        <RetryBanner key={keyOf(step)} step={step} nodes={job.nodes} />
      ))}
      {kept.map((words) => (
        <Banner key={words} tone="warn" title={<bdi>{withCode(words)}</bdi>} />
      ))}
      {warning && !kept.includes(said ?? "") && (
        <Banner tone="warn" title={<bdi>{withCode(said ?? "")}</bdi>}>
          <p className="quiet">
            <At at={warning.at} />
          </p>
        </Banner>
      )}
    </>
  );
}

/**
 * The message for an ordinary end instead of an alarm: before the release of its machines, and in the first minute of
 * it.
 */
function useCalm(job: JobRecord, steps: readonly TimelineStep[]): string | null {
  const kind = job.note?.kind;
  const ending = job.status === "terminating" && kind !== undefined && kind !== "parked" && mayCostMoney(kind);
  const now = useNow(ending);
  if (!ending) return null;
  const held = job.machines.filter((machine) => machine.terminated_at === null && machine.price_per_hour_usd !== 0);
  if (isReturning(returningSince(steps, held), now)) return RETURNING;
  const asked = releasesOf(steps, held).length > 0;
  return steps.length > 0 && !asked ? "Downloading the run’s files; svc then releases the machine." : null;
}

function RetryBanner({ step, nodes }: { step: TimelineStep; nodes: number }) {
  const now = useNow();
  return (
    <Banner
      tone="info"
      title={`Attempt ${step.attempt + 1} of ${stepName(step.step)}${nodes > 1 ? ` on node ${step.node}` : ""} ${dueWords(step, now)}`}
    >
      {step.error && (
        <p>
          Last error: <bdi>{step.error.message}</bdi> <span className="quiet">{withCode(step.error.hint)}</span>
        </p>
      )}
    </Banner>
  );
}

/** The newest attempt of each step, node and placement. */
function newestOf(steps: readonly TimelineStep[]): TimelineStep[] {
  const newest = new Map<string, TimelineStep>();
  for (const step of steps) {
    const key = `${step.step}/${step.node}/${step.placement}`;
    if ((newest.get(key)?.attempt ?? 0) <= step.attempt) newest.set(key, step);
  }
  return [...newest.values()];
}

/** A notice reports a stall or an approaching idle end; later activity makes it void. */
function lastWarning(events: readonly FeedEvent[]): FeedEvent | null {
  const at = events.findLastIndex((event) => event.type === "notice" && event.data["level"] === "warning");
  const since = events.slice(at + 1).some((event) => event.type === "job.transition");
  return at < 0 || since ? null : (events[at] ?? null);
}
