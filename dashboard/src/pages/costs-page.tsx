// The page of costs: sums by day, project and the like with waste by cause, or the receipt of one run.

import { useCallback, useEffect } from "react";
import { costsCsv } from "../../../src/domain/cost-csv.ts";
import { PROVIDER_NAMES } from "../../../src/providers/descriptors.ts";
import { COST_DIMENSIONS, WASTE_KINDS, WASTE_WORDS, type CostDimension } from "../../../src/schemas/cost-names.ts";
import type { CostGroup, CostReport, CostTotal } from "../../../src/schemas/costs.ts";
import { api } from "../api.ts";
import { Amount, wastedOf } from "../costs/amount.tsx";
import { ExportButtons } from "../costs/export-buttons.tsx";
import { LimitsSection } from "../costs/limits-section.tsx";
import { RetentionSection } from "../costs/retention-section.tsx";
import { ReceiptView } from "../costs/receipt-view.tsx";
import { duration, plural, usd } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, navigate, usePlace } from "../router.tsx";
import { EVERYTHING, listPath } from "../run-filter.ts";

const HOUR_MS = 3_600_000;
const PERIODS: readonly [days: string, name: string][] = [
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
  ["365", "Last 365 days"],
  ["all", "All time"],
];

export function CostsPage() {
  const { query } = usePlace();
  const run = query.get("run");
  return run === null ? <Report query={query} /> : <ReceiptView key={run} id={run} />;
}

/** The first day of the period in this browser's time zone, which is the control plane's on the same computer. */
function firstDay(period: string): string | null {
  const days = Number(period);
  if (!Number.isInteger(days) || days <= 0) return null;
  const now = new Date();
  const date = new Date(now.getFullYear(), now.getMonth(), now.getDate() - days + 1);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function Report({ query }: { query: URLSearchParams }) {
  useTitle("Costs");
  const by = COST_DIMENSIONS.find((each) => each === query.get("by")) ?? "day";
  const period = PERIODS.find(([days]) => days === query.get("days"))?.[0] ?? "30";
  const from = firstDay(period);
  const read = useCallback(() => api.costs(by, from), [by, from]);
  const { data, problem, reload } = useAnswer(read);
  useEffect(reload, [read, reload]);
  const choose = (values: { by?: CostDimension; days?: string }) =>
    navigate(`/costs?by=${values.by ?? by}&days=${values.days ?? period}`, { keepScroll: true });
  return (
    <div className="page">
      <div className="page-head">
        <h1>Costs</h1>
        <div className="filter-end">
          <select
            className="select"
            aria-label="Group by"
            value={by}
            onChange={(event) => choose({ by: COST_DIMENSIONS.find((each) => each === event.target.value) ?? "day" })}
          >
            {COST_DIMENSIONS.map((each) => (
              <option key={each} value={each}>
                {each === "gpu" ? "By GPU" : `By ${each}`}
              </option>
            ))}
          </select>
          <select
            className="select"
            aria-label="Period"
            value={period}
            onChange={(event) => choose({ days: event.target.value })}
          >
            {PERIODS.map(([days, name]) => (
              <option key={days} value={days}>
                {name}
              </option>
            ))}
          </select>
        </div>
      </div>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Adding up the ledger…</p>}
      {data !== null && data.groups.length === 0 && (
        <p className="quiet pad">No machine was rented in this time. Runs on this computer cost nothing.</p>
      )}
      {data !== null && data.groups.length > 0 && <Sums report={data} />}
      <LimitsSection />
      <RetentionSection />
    </div>
  );
}

function Sums({ report }: { report: CostReport }) {
  const { total, groups, by, from, time_zone } = report;
  return (
    <>
      <dl className="facts panel">
        <Fact name="Cost">
          <Amount of={total} />
        </Fact>
        <Fact name="Waste">{usd(wastedOf(total))}</Fact>
        <Fact name="Time of machines">{duration(total.hours * HOUR_MS)}</Fact>
        <Fact name="Machines used">{total.machines}</Fact>
      </dl>
      <p className="quiet prose small-text">This computer counts as a machine of each run on it, at no cost.</p>
      {total.machines_without_price > 0 && (
        <p className="quiet prose">
          {plural(total.machines_without_price, "machine")} of unknown price:{" "}
          {total.machines_without_price === 1 ? "its" : "their"} {duration(total.hours_without_price * HOUR_MS)} are not
          in the sum.
        </p>
      )}
      <section className="panel">
        <h2>Work and waste</h2>
        <WasteList total={total} from={from} />
      </section>
      <section className="panel">
        <div className="page-head">
          <h2>{by === "gpu" ? "By GPU" : `By ${by}`}</h2>
          <ExportButtons name={`costs-by-${by}`} json={report} csv={() => costsCsv(report)} />
        </div>
        <GroupTable report={report} groups={by === "day" ? groups.toReversed() : groups} />
        <p className="quiet small-text">Days begin at midnight in {time_zone}.</p>
      </section>
    </>
  );
}

const Fact = ({ name, children }: { name: string; children: React.ReactNode }) => (
  <div className="fact">
    <dt>{name}</dt>
    <dd className="num">{children}</dd>
  </div>
);

/** The legend of the bars: what was work, and each kind of waste; failed runs lead to their list. */
function WasteList({ total, from }: { total: CostTotal; from: string | null }) {
  const kinds = WASTE_KINDS.filter((kind) => total.waste[kind] > 0);
  return (
    <ul className="plain waste-list">
      <li>
        <span className="swatch waste-work" aria-hidden="true" />
        <span>work</span> <span className="num">{usd(total.work_usd)}</span>
      </li>
      {kinds.map((kind) => (
        <li key={kind}>
          <span className={`swatch waste-${kind}`} aria-hidden="true" />
          {kind === "failed" ? (
            <Link href={listPath({ ...EVERYTHING, status: "failed", from })}>{WASTE_WORDS[kind]}</Link>
          ) : (
            <span>{WASTE_WORDS[kind]}</span>
          )}{" "}
          <span className="num">{usd(total.waste[kind])}</span>
        </li>
      ))}
      {kinds.length === 0 && <li className="quiet">No waste.</li>}
    </ul>
  );
}

/** The runs of a group, where the list of runs can be narrowed to them. */
function pathOfGroup({ by, from }: CostReport, key: string): string | null {
  if (by === "label") return listPath({ ...EVERYTHING, text: key, from });
  const provider = by === "provider" ? PROVIDER_NAMES.find((each) => each === key) : undefined;
  return provider === undefined ? null : listPath({ ...EVERYTHING, provider, from });
}

function GroupName({ report, name }: { report: CostReport; name: string | null }) {
  if (name === null) return <span className="quiet">none</span>;
  const path = pathOfGroup(report, name);
  return path === null ? name : <Link href={path}>{name}</Link>;
}

function GroupTable({ report, groups }: { report: CostReport; groups: readonly CostGroup[] }) {
  const most = Math.max(...groups.map(({ cost_usd }) => cost_usd ?? 0));
  const hasEstimate = groups.some(({ cost_estimate_usd }) => cost_estimate_usd !== null);
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of costs">
      <table className="small-table cost-table">
        <thead>
          <tr>
            <th scope="col">{report.by === "gpu" ? "GPU" : report.by[0]?.toUpperCase() + report.by.slice(1)}</th>
            <th scope="col" className="cost-bars">
              <span className="hidden">Work and waste</span>
            </th>
            <th scope="col" className="right">
              Cost
            </th>
            {hasEstimate && (
              <th scope="col" className="right">
                Estimate
              </th>
            )}
            <th scope="col" className="right">
              Waste
            </th>
            <th scope="col" className="right">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={group.key ?? ""}>
              <td className="cost-key">
                <GroupName report={report} name={group.key} />
              </td>
              <td className="cost-bars">
                <Bar group={group} most={most} />
              </td>
              <td className="right num">
                <Amount of={group} short />
              </td>
              {hasEstimate && <td className="right num">{usd(group.cost_estimate_usd)}</td>}
              <td className="right num">{usd(wastedOf(group))}</td>
              <td className="right num cost-time">{duration(group.hours * HOUR_MS)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One bar of work and waste, its whole length relative to the dearest group. */
function Bar({ group, most }: { group: CostGroup; most: number }) {
  const parts = [["work", group.work_usd] as const, ...WASTE_KINDS.map((kind) => [kind, group.waste[kind]] as const)];
  let x = 0;
  return (
    <svg className="cost-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      {parts.map(([kind, amount]) => {
        const width = most > 0 ? (100 * amount) / most : 0;
        const from = x;
        x += width;
        return width > 0 && <rect key={kind} className={`waste-${kind}`} x={from} y={0} width={width} height={10} />;
      })}
    </svg>
  );
}
