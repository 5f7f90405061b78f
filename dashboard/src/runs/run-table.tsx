// The table of the runs page. It draws only the rows in view, and moves the focus and the selection by keys.

import { memo, useEffect, useRef, useState, type FocusEvent } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { asProblem } from "../api.ts";
import { useKeys } from "../keys.ts";
import { DASH, plural, usdPerHour } from "../format.ts";
import { Sparkline } from "../parts/sparkline.tsx";
import { refusalOf } from "../../../src/domain/refusal.ts";
import { costText } from "../../../src/domain/money.ts";
import { RunStatus } from "../parts/status-pill.tsx";
import { Ago, Span } from "../parts/time.tsx";
import { useNarrow, useSteady, useWindowRows } from "../parts/window-rows.ts";
import { Link, navigate, runPath } from "../router.tsx";
import { isActive, isAsked, isKillable, isSelectable, shortReason, titleOf } from "../status.ts";
import { checkpointWords } from "../run/resume-source.ts";
import { loadMore } from "../sync.ts";
import { SortHead } from "./column-menu.tsx";
import { cellText, columnKey, columnTitle, type Column, type View } from "./columns.ts";
import type { RunMetrics } from "./metric-book.ts";
import { TagLinks } from "./tag-links.tsx";

/** Heights of a row, by the style sheet `runs.css`. */
const ROW_WIDE = 38;
const ROW_NARROW = 96;
/** The further line of a row with chosen columns. */
const LINE_NARROW = 20;
/** The next page is requested this many rows before the end of the loaded ones. */
const AHEAD = 60;
/** Delay before a failed page is requested again. */
const AGAIN_MS = 5_000;
/** Height of the bars above and below, which would hide a row. */
const ABOVE_PX = 110;
const BELOW_PX = 70;

/** @param alsoBetween the runs between this one and the one that was toggled before follow it */
type Toggles = (id: string, alsoBetween: boolean) => void;

interface RunTableProps {
  ids: readonly string[];
  jobs: Record<string, JobRecord>;
  /** Whether `ids` is complete. */
  complete: boolean;
  selected: ReadonlySet<string>;
  onToggle: Toggles;
  onSelect: (ids: readonly string[]) => void;
  onKill: (id: string) => void;
  view: View;
  metrics: ReadonlyMap<string, RunMetrics>;
  /** More runs are wanted than the rows in view need. */
  eager: boolean;
}

/** Room for the fixed columns, the name of the run and the chosen columns, by the widths of `runs.css`. */
const widthWith = (columns: readonly Column[]): number =>
  columns.reduce((sum, { kind }) => sum + (kind === "last" ? 148 : 88), 886);

/** The row that had the focus last, also before a visit to a run's page. */
let lastRow: string | null = null;

export function RunTable(props: RunTableProps) {
  const { ids, jobs, complete, selected, onToggle, onSelect, onKill, view, metrics, eager } = props;
  const { columns } = view;
  const top = useRef<HTMLDivElement>(null);
  const isNarrow = useNarrow();
  const height = isNarrow ? ROW_NARROW + (columns.length > 0 ? LINE_NARROW : 0) : ROW_WIDE;
  const { first, end } = useWindowRows(top, ids.length, height);
  const above = useSteady(top, ids, height);
  const failure = useMore(!complete && (eager || end + AHEAD >= ids.length));
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
    { keys: "x", does: "Select the run", run: () => atCurrent((job) => isSelectable(job) && onToggle(job.id, false)) },
  ]);

  const focused = (event: FocusEvent) => {
    const row = event.target.closest("tr")?.querySelector(".run-link")?.id;
    if (row) current.current = lastRow = row.slice("run-".length);
  };
  // Active runs cost money, so one click means them as long as there are any.
  const selectable = ids.filter((id) => jobs[id] && (anyActive ? isKillable(jobs[id]) : isSelectable(jobs[id])));
  const isAll = selectable.length > 0 && selectable.every((id) => selected.has(id));

  return (
    <>
      {above > 0 && (
        <button type="button" className="button primary newer" onClick={() => scrollTo({ top: 0 })}>
          ↑ {plural(above, "new run")}
        </button>
      )}
      <div ref={top} />
      <div className={columns.length > 0 ? "runs-wide" : undefined}>
        <table
          className="runs"
          style={columns.length > 0 && !isNarrow ? { minWidth: widthWith(columns) } : undefined}
          aria-rowcount={complete ? ids.length + 1 : -1}
          onFocus={focused}
        >
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col" className="cell-select">
                <span className="hidden">Select</span>
                <input
                  type="checkbox"
                  aria-label={anyActive ? "Select all active runs that are loaded" : "Select all runs that are loaded"}
                  checked={isAll}
                  ref={(box) => {
                    if (box) box.indeterminate = selected.size > 0 && !isAll;
                  }}
                  onChange={(event) => onSelect(event.target.checked ? selectable : [])}
                />
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
              {isNarrow
                ? columns.length > 0 && <th scope="col">Chosen columns</th>
                : columns.map((column) => (
                    <SortHead
                      key={columnKey(column)}
                      view={view}
                      sortKey={columnKey(column)}
                      title={columnTitle(column)}
                      className={column.kind === "last" ? "right cell-last" : "right cell-value"}
                    />
                  ))}
              <th scope="col" className="right cell-age">
                Age
              </th>
              <SortHead view={view} sortKey="duration" title="Duration" className="right cell-duration" />
              <SortHead view={view} sortKey="disk" title="Disk" className="right cell-disk" />
              <th scope="col" className="right cell-price">
                Price
              </th>
              <SortHead view={view} sortKey="cost" title="Cost" className="right cell-cost" />
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
                    columns={columns}
                    metrics={metrics.get(id)}
                    isNarrow={isNarrow}
                  />
                )
              );
            })}
          </tbody>
          <Space height={(ids.length - end) * height} />
        </table>
      </div>
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
  onToggle: Toggles;
  onKill: (id: string) => void;
  columns: readonly Column[];
  metrics: RunMetrics | undefined;
  isNarrow: boolean;
}

/** Redrawn only when its run has changed: while scrolling, most rows stay. */
const RunRow = memo(function RunRow(props: RunRowProps) {
  const { job, index, selected, onToggle, onKill, columns, metrics, isNarrow } = props;
  const reason = shortReason(job);
  const killable = isKillable(job);
  const name = `${titleOf(job)} ${job.id}`;
  return (
    <tr aria-rowindex={index} className={selected ? "selected" : undefined}>
      <td className="cell-select">
        {isSelectable(job) && (
          <label className="row-hit">
            <input
              type="checkbox"
              aria-label={`Select ${name}`}
              checked={selected}
              onChange={({ nativeEvent }) =>
                onToggle(job.id, nativeEvent instanceof MouseEvent && nativeEvent.shiftKey)
              }
            />
          </label>
        )}
      </td>
      <td className="cell-status">
        <RunStatus job={job} />
      </td>
      <td className="cell-run">
        <div className="run-cell">
          <div className="run-line">
            <Link href={runPath(job.id)} className="run-link" id={`run-${job.id}`}>
              <bdi>{titleOf(job)}</bdi>
            </Link>
            <span className="run-sub">
              <code>{job.id}</code>
              <TagLinks tags={job.tags} />
              {job.resumed_from !== null && <ResumedFrom source={job.resumed_from} />}
              {job.disk_bytes !== null && <span className="quiet num run-disk">{bytes(job.disk_bytes)}</span>}
              {reason && (
                <span
                  className={job.error && !isAsked(job) && refusalOf(job) === null ? "reason bad" : "reason"}
                  title={job.note?.message ?? job.error?.message ?? reason}
                >
                  <bdi>{reason}</bdi>
                </span>
              )}
            </span>
          </div>
        </div>
      </td>
      <td className="cell-machine">
        <span className="one-line">
          {job.provider} <span className="quiet">{job.gpus}</span>
          {job.nodes > 1 && <span className="quiet"> × {job.nodes}</span>}
        </span>
      </td>
      {isNarrow ? (
        columns.length > 0 && (
          <td className="cell-chosen one-line num">
            {columns.map((column) => (
              <span key={columnKey(column)}>
                <bdi className="quiet">{columnTitle(column)}</bdi> <bdi>{cellText(column, job, metrics) ?? DASH}</bdi>
              </span>
            ))}
          </td>
        )
      ) : (
        <ChosenCells job={job} columns={columns} metrics={metrics} />
      )}
      <td className="right num cell-age">
        <Ago at={job.created_at} />
      </td>
      <td className="right num cell-duration">
        <Span from={job.created_at} to={job.ended_at} />
      </td>
      <td className="right num cell-disk">{job.disk_bytes === null ? DASH : bytes(job.disk_bytes)}</td>
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
              aria-label={`Rerun ${name} with changes`}
            >
              Rerun
            </Link>
          )
        )}
      </td>
    </tr>
  );
});

/** A run that resumes often has the name of the one that it continues. */
const ResumedFrom = ({ source }: { source: NonNullable<JobRecord["resumed_from"]> }) => {
  const words = checkpointWords(source);
  return (
    <span className="run-source" title={`Resumes ${source.job}${words && `, ${source.checkpoint ?? ""}`}`}>
      <span aria-hidden="true">↳ </span>
      <span className="hidden">resumes </span>
      <code>{source.job}</code>
      {words && (
        <>
          {" "}
          <bdi>{words}</bdi>
        </>
      )}
    </span>
  );
};

const ChosenCells = ({ job, columns, metrics }: Pick<RunRowProps, "job" | "columns" | "metrics">) =>
  columns.map((column) => {
    const text = cellText(column, job, metrics);
    return (
      <td key={columnKey(column)} className={column.kind === "last" ? "right num cell-last" : "right num cell-value"}>
        <span className="one-line" title={text ?? undefined}>
          {column.kind === "last" && (
            <Sparkline values={(metrics?.[column.name]?.samples ?? []).map((value) => value ?? Number.NaN)} />
          )}{" "}
          {text === null ? <span className="quiet">{DASH}</span> : <bdi>{text}</bdi>}
        </span>
      </td>
    );
  });
