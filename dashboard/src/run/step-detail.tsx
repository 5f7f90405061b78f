// The panel below the steps of a run that describes one attempt.

import { gateWords } from "../../../src/domain/gate-words.ts";
import type { JobRecord, TimelineStep } from "../../../src/schemas/job.ts";
import { duration, stepName, words } from "../format.ts";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { withCode } from "../parts/with-code.tsx";
import { Link } from "../router.tsx";
import { ansiNodes, parseAnsi, PLAIN } from "./log/ansi.ts";
import type { LogLines } from "../../../src/schemas/log.ts";
import { setParams } from "./place.ts";
import { runApi } from "./run-api.ts";
import { attemptWords, keyOf, showsEnd } from "./step-words.ts";

const LINES = 12;

/** Every fact about one attempt: its times, its result, the provider's answer, the log lines of that time. */
export function StepDetail(props: {
  job: JobRecord;
  step: TimelineStep;
  attempts: readonly TimelineStep[];
  now: number;
}) {
  const { job, step, attempts, now } = props;
  const end = step.ended_at ? Date.parse(step.ended_at) : now;
  // The offers that the cap refused are above the steps.
  const detail = Object.entries(step.detail ?? {}).filter(
    ([name, value]) => value !== null && !/^offers_(seen|total)$/.test(name),
  );
  return (
    <section className="step-detail" aria-label={`Step ${stepName(step.step)}`}>
      <div className="panel-head">
        <h3>
          {stepName(step.step)}
          {job.nodes > 1 && `, node ${step.node}`}, attempt {step.attempt}
        </h3>
        <button type="button" className="button small" onClick={() => setParams({ step: null })}>
          Close
        </button>
      </div>
      {attempts.length > 1 && <Attempts attempts={attempts} shown={step} />}
      <p className="quiet">
        {attemptWords(step)}
        {step.started_at && (
          <>
            {" "}
            · began <At at={step.started_at} />
          </>
        )}
        {step.ended_at && (
          <>
            {" "}
            · ended <At at={step.ended_at} />
          </>
        )}
        {step.started_at && ` · ${duration(end - Date.parse(step.started_at))}`}
      </p>
      {step.error && (
        <p className="step-error">
          <strong>
            <bdi>{step.error.message}</bdi>
          </strong>{" "}
          {withCode(step.error.hint)} <code className="quiet">{step.error.code}</code>
        </p>
      )}
      {detail.length > 0 && (
        <dl className="spec">
          {detail.map(([name, value]) => (
            <div key={name}>
              <dt>
                <bdi>{words(name)}</bdi>
              </dt>
              <dd>
                {name === "gate" && <p>{gateWords(value)}</p>}
                <code>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {step.started_at && <Written key={step.started_at} job={job} step={step} from={Date.parse(step.started_at)} />}
    </section>
  );
}

const ATTEMPTS_MAX = 40;

/** Links from one attempt to another, for people who cannot hit a bar: the newest ones, if there are very many. */
const Attempts = ({ attempts, shown }: { attempts: readonly TimelineStep[]; shown: TimelineStep }) => (
  <div className="filters attempts" role="group" aria-label="Attempts">
    {attempts.slice(-ATTEMPTS_MAX).map((each) => (
      <button
        key={each.attempt}
        type="button"
        className="button small toggle"
        aria-pressed={each === shown}
        aria-label={`Attempt ${each.attempt}, ${attemptWords(each)}`}
        onClick={() => setParams({ step: keyOf(each) })}
      >
        {each.attempt}
      </button>
    ))}
  </div>
);

/** Log lines of that time: the last ones if the step failed or is running, else the first. */
async function linesOf(job: JobRecord, step: TimelineStep, from: number): Promise<LogLines> {
  if (!showsEnd(step)) return runApi.logLines(job.id, { at_ms: from, count: LINES });
  if (step.ended_at === null) return runApi.logLines(job.id, { count: LINES });
  // The first line after the step, to count back from. If there is none, the API returns the last line of all.
  const ended = Date.parse(step.ended_at);
  const [found] = (await runApi.logLines(job.id, { at_ms: ended + 1, count: 1 })).lines;
  const next = found === undefined ? 1 : found.at_ms > ended ? found.line : found.line + 1;
  return runApi.logLines(job.id, { from: Math.max(1, next - LINES), count: Math.min(LINES, Math.max(1, next - 1)) });
}

function Written({ job, step, from }: { job: JobRecord; step: TimelineStep; from: number }) {
  const { data } = useAnswer(() => linesOf(job, step, from));
  const until = step.ended_at ? Date.parse(step.ended_at) : Infinity;
  const lines = (data?.lines ?? []).filter((line) => line.at_ms >= from - 1_000 && line.at_ms <= until);
  const end = showsEnd(step);
  const opened = end ? lines.at(-1) : lines[0];
  if (!opened) return <p className="quiet">The log has no output from this time.</p>;
  return (
    <>
      <pre
        ref={(element) => void (end && element?.scrollTo(0, element.scrollHeight))}
        className="log-excerpt"
        tabIndex={0}
        role="region"
        aria-label="Log of this step"
      >
        {lines.map((line) => (
          <span
            key={line.line}
            ref={(element) => element?.replaceChildren(...ansiNodes(parseAnsi(line.text, PLAIN).pieces), "\n")}
          />
        ))}
      </pre>
      <p>
        <Link href={`/runs/${encodeURIComponent(job.id)}?tab=logs&line=${opened.line}`}>
          Open the log at line {opened.line.toLocaleString("en-US")}
        </Link>
      </p>
    </>
  );
}
