// The budget of a run in its head: spent, left, kept for the end, and when svc will ask the script to stop.

import { useEffect } from "react";
import { WARNINGS } from "../../../src/domain/budget.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { dollarParts, exactDollars } from "../../../src/errors/dollars.ts";
import { duration, minuteOf, usdPerHour } from "../format.ts";
import { useNow } from "../parts/now.ts";
import { withCode } from "../parts/with-code.tsx";
import { isActive } from "../status.ts";
import { loadJob } from "../sync.ts";
import { budgetSums, type BudgetSums } from "./budget-sums.ts";

/** Prices and what the end needs change without an event. */
const READ_EVERY_MS = 10_000;

export function BudgetBar({ job }: { job: JobRecord }) {
  const live = isActive(job) && job.budget_usd !== null;
  const now = useNow(live);
  useReadAgain(job.id, live);
  if (job.budget_usd === null) return null;
  const sums = budgetSums(job, now);
  if (sums === null)
    return (
      <section className="budget" aria-label="Budget">
        <p className="budget-words">
          {withCode(
            `Budget ${exactDollars(job.budget_usd)}. The amount spent is unknown, because a machine has no known price. Give \`rate_usd_per_hour\` with the next run.`,
          )}
        </p>
      </section>
    );
  const { budgetUsd, spentUsd, leftUsd, keptUsd, warning } = sums;
  const [spent, left, kept] = dollarParts(budgetUsd, [spentUsd, leftUsd, keptUsd]);
  const tone = warning >= WARNINGS[1] ? " budget-bad" : warning > 0 ? " budget-warn" : "";
  return (
    <section className={`budget${tone}`} aria-label="Budget">
      <p className="budget-words">
        <span>
          <strong className="num">{spent}</strong> of <span className="num">{exactDollars(budgetUsd)}</span> spent
        </span>
        {live && keptUsd > 0 && (
          <span
            className="quiet"
            title="The cost of a graceful shutdown: the script saves, svc downloads the files and releases the machine."
          >
            <span className="num">{kept}</span> kept for the end
          </span>
        )}
        <span className="quiet">
          <span className="num">{left}</span> left
        </span>
        {warning > 0 && <span className="budget-warning">More than {warning} % spent</span>}
        {live && <StopWords job={job} now={now} />}
      </p>
      <Bar sums={sums} />
    </section>
  );
}

/** When the script will be asked to stop, at the present rate. */
function StopWords({ job, now }: { job: JobRecord; now: number }) {
  const { budget_stops_at: at, rate_usd_per_hour: rate } = job;
  if (job.status === "terminating") return <span className="budget-stop quiet">svc is ending the run.</span>;
  if (at === null) return <span className="budget-stop quiet">Nothing is spent now.</span>;
  const ms = Date.parse(at) - now;
  return (
    <span className="budget-stop">
      {ms <= 0 ? (
        "svc asks the script to stop now"
      ) : (
        <>
          <span className="quiet">at {usdPerHour(rate)} it stops about</span>{" "}
          <time className="num" dateTime={at} title={at}>
            {minuteOf(at)}
          </time>
          <span className="quiet num">, in {duration(Math.ceil(ms / 1000) * 1000)}</span>
        </>
      )}
    </span>
  );
}

const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;

function Bar({ sums }: { sums: BudgetSums }) {
  return (
    <div className="budget-bar" aria-hidden="true">
      <span className="budget-spent" style={{ width: percent(sums.spent) }} />
      <span className="budget-kept" style={{ width: percent(sums.kept) }} />
      {WARNINGS.map((mark) => (
        <span key={mark} className="budget-mark" style={{ left: `${mark}%` }} />
      ))}
    </div>
  );
}

function useReadAgain(id: string, live: boolean): void {
  useEffect(() => {
    if (!live) return;
    const timer = setInterval(() => {
      if (!document.hidden) void loadJob(id);
    }, READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [id, live]);
}
