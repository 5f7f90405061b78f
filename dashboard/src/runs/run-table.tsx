// The table of the runs page. It draws only the rows in view, and moves the focus and the selection by keys.

import { memo, useEffect, useRef, useState, type FocusEvent } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { asProblem } from "../api.ts";
import { useKeys } from "../keys.ts";
import { plural, usdPerHour } from "../format.ts";
import { refusalOf } from "../../../src/domain/refusal.ts";
import { costText } from "../../../src/domain/money.ts";
import { RunStatus } from "../parts/status-pill.tsx";
import { Ago, DURATION_COUNTS, Span } from "../parts/time.tsx";
import { useNarrow, useSteady, useWindowRows } from "../parts/window-rows.ts";
import { Link, navigate, runPath } from "../router.tsx";
import { isActive, isAsked, isKillable, isSelectable, shortReason, titleOf } from "../status.ts";
import { loadMore } from "../sync.ts";

/** Heights of a row, by the style sheet `runs.css`. */
const ROW_WIDE = 54;
const ROW_NARROW = 96;
/** The next page is requested this many rows before the end of the loaded ones. */
const AHEAD = 60;
/** Delay before a failed page is requested again. */
const AGAIN_MS = 5_000;
/** Height of the bars above and below, which would hide a row. */
const ABOVE_PX = 110;
const BELOW_PX = 70;

interface RunTableProps {
  ids: readonly string[];
  jobs: Record<string, JobRecord>;
  /** Whether `ids` is complete. */
  complete: boolean;
  selected: ReadonlySet<string>;
  onToggle: (id: string) => void;
  onSelectAll: (all: boolean) => void;
  onKill: (id: string) => void;
}

/** The row that had the focus last, also before a visit to a run's page. */
let lastRow: string | null = null;

export function RunTable({ ids, jobs, complete, selected, onToggle, onSelectAll, onKill }: RunTableProps) {
  const top = useRef<HTMLDivElement>(null);
  const height = useNarrow() ? ROW_NARROW : ROW_WIDE;
  const { first, end } = useWindowRows(top, ids.length, height);
  const above = useSteady(top, ids, height);
  const failure = useMore(!complete && end + AHEAD >= ids.length);
  const anyActive = ids.some((id) => jobs[id] && isActive(jobs[id]));

  const current = useRef<string | null>(null);
  const step = (by: number) => {
    const at = ids.indexOf(current.current ?? lastRow ?? "");
    const index = Math.min(ids.length - 1, Math.max(0, at + by));
    const id = ids[index];
    if (id === undefined) return;
    current.current = lastRow = id;
    const y = (top.current?.getBoundingClientRect().top ?? 0) + index * height;
    if (y < ABOVE_PX) scrollBy(0, y - ABOVE_PX);
    else if (y + 2 * height > innerHeight - BELOW_PX) scrollBy(0, y + 2 * height - innerHeight + BELOW_PX);
    // After scrolling, the row is drawn in the next frame.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => document.getElementById(`run-${id}`)?.focus({ preventScroll: true })),
    );
  };
  const atCurrent = (act: (job: JobRecord) => void) => {
    const job = jobs[current.current ?? ""];
    if (job) act(job);
  };
  useKeys("List", [
    { keys: "j", does: "Next run", run: () => step(1) },
    { keys: "k", does: "Previous run", run: () => step(-1) },
    { keys: "o", does: "Open the run", run: () => atCurrent((job) => navigate(runPath(job.id))) },
    { keys: "x", does: "Select the run", run: () => atCurrent((job) => isSelectable(job) && onToggle(job.id)) },
  ]);

  const focused = (event: FocusEvent) => {
    const row = event.target.closest("tr")?.querySelector(".run-link")?.id;
    if (row) current.current = lastRow = row.slice("run-".length);
  };
  const selectable = ids.filter((id) => jobs[id] && isKillable(jobs[id])).length;

  return (
    <>
      {above > 0 && (
        <button type="button" className="button primary newer" onClick={() => scrollTo({ top: 0 })}>
          ↑ {plural(above, "new run")}
        </button>
      )}
      <div ref={top} />
      <table className="runs" aria-rowcount={complete ? ids.length + 1 : -1} onFocus={focused}>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" className="cell-select">
              <span className="hidden">Select</span>
              {anyActive && (
                <input
                  type="checkbox"
                  aria-label="Select all active runs that are loaded"
                  checked={selected.size > 0 && selected.size >= selectable}
                  ref={(box) => {
                    if (box) box.indeterminate = selected.size > 0 && selected.size < selectable;
                  }}
                  onChange={(event) => onSelectAll(event.target.checked)}
                />
              )}
            </th>
            <th scope="col" className="cell-status">
              Status
            </th>
            <th scope="col" className="cell-run">
              Run
            </th>
            <th scope="col" className="cell-machine">
              Machine
            </th>
            <th scope="col" className="right cell-age">
              Age
            </th>
            <th scope="col" className="right cell-duration" title={DURATION_COUNTS}>
              Duration
            </th>
            <th scope="col" className="right cell-price">
              Price
            </th>
            <th scope="col" className="right cell-cost">
              Cost
            </th>
            <th scope="col" className="cell-actions">
              <span className="hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <Space height={first * height} />
        <tbody>
          {ids.slice(first, end).map((id, i) => {
            const job = jobs[id];
            return (
              job && (
                <RunRow
                  key={id}
                  job={job}
                  index={first + i + 2}
                  selected={selected.has(id)}
                  onToggle={onToggle}
                  onKill={onKill}
                />
              )
            );
          })}
        </tbody>
        <Space height={(ids.length - end) * height} />
      </table>
      {!complete && <p className="quiet more">{failure || "Reading older runs…"}</p>}
    </>
  );
}

/** Space for rows that are not drawn. Spans one column: a larger span would create new columns. */
const Space = ({ height }: { height: number }) =>
  height > 0 ? (
    <tbody aria-hidden="true" className="space">
      <tr style={{ height }}>
        <td />
      </tr>
    </tbody>
  ) : null;

const frame = () => new Promise<unknown>((resolve) => requestAnimationFrame(resolve));

/** Loads pages while they are `wanted`. Returns the error message of a failed load, which is retried after a while. */
function useMore(wanted: boolean): string {
  const [failure, setFailure] = useState("");
  const latest = useRef(wanted);
  useEffect(() => void (latest.current = wanted));
  useEffect(() => {
    const left = new AbortController();
    const read = async () => {
      while (!left.signal.aborted && latest.current) {
        const words = await loadMore().then(
          () => "",
          (error: unknown) => asProblem(error).detail,
        );
        setFailure(words);
        if (words !== "") await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        // New rows are drawn before the code knows whether they are enough.
        await frame();
        await frame();
      }
    };
    if (wanted) void read();
    return () => left.abort();
  }, [wanted]);
  return failure;
}

interface RunRowProps {
  job: JobRecord;
  index: number;
  selected: boolean;
  onToggle: (id: string) => void;
  onKill: (id: string) => void;
}

/** Redrawn only when its run has changed: while scrolling, most rows stay. */
const RunRow = memo(function RunRow({ job, index, selected, onToggle, onKill }: RunRowProps) {
  const reason = shortReason(job);
  const killable = isKillable(job);
  const name = `${titleOf(job)} ${job.id}`;
  return (
    <tr aria-rowindex={index} className={selected ? "selected" : undefined}>
      <td className="cell-select">
        {isSelectable(job) && (
          <input type="checkbox" aria-label={`Select ${name}`} checked={selected} onChange={() => onToggle(job.id)} />
        )}
      </td>
      <td className="cell-status">
        <RunStatus job={job} />
      </td>
      <td className="cell-run">
        <Link href={runPath(job.id)} className="run-link" id={`run-${job.id}`}>
          <bdi>{titleOf(job)}</bdi>
        </Link>
        <span className="run-sub">
          <code>{job.id}</code>
          {job.disk_bytes !== null && <span className="quiet num">{bytes(job.disk_bytes)}</span>}
          {reason && (
            <span
              className={job.error && !isAsked(job) && refusalOf(job) === null ? "reason bad" : "reason"}
              title={job.note?.message ?? job.error?.message ?? reason}
            >
              <bdi>{reason}</bdi>
            </span>
          )}
        </span>
      </td>
      <td className="cell-machine">
        <span className="one-line">
          {job.provider} <span className="quiet">{job.gpus}</span>
          {job.nodes > 1 && <span className="quiet"> × {job.nodes}</span>}
        </span>
      </td>
      <td className="right num cell-age">
        <Ago at={job.created_at} />
      </td>
      <td className="right num cell-duration">
        <Span from={job.created_at} to={job.ended_at} />
      </td>
      <td className="right num cell-price">{usdPerHour(job.price_per_hour_usd)}</td>
      <td className="right num cell-cost">{costText(job)}</td>
      <td className="right cell-actions">
        {killable ? (
          <button type="button" className="button small" onClick={() => onKill(job.id)} aria-label={`Kill ${name}`}>
            Kill
          </button>
        ) : (
          !isActive(job) && (
            <Link
              href={`/new?from=${encodeURIComponent(job.id)}`}
              className="button small rerun"
              aria-label={`Run ${name} again with changes`}
            >
              Rerun
            </Link>
          )
        )}
      </td>
    </tr>
  );
});
