// The columns that a person adds to the list of runs, and the order of the list. Both are in the address.

import { paramsOf } from "../../../src/domain/run-params.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import type { MetricSummary } from "../../../src/schemas/series.ts";
import { metricValue } from "../format.ts";

/** `arg`: a parameter of the run; the others are values of a metric. */
export const COLUMN_KINDS = ["last", "min", "max", "arg"] as const;
export type ColumnKind = (typeof COLUMN_KINDS)[number];
export interface Column {
  kind: ColumnKind;
  name: string;
}

export interface View {
  columns: readonly Column[];
  /** Key of a column, or one of `FIXED_SORTS`; null for newest first. */
  sort: { key: string; down: boolean } | null;
}

/** The columns that always exist and that the list can be ordered by. */
const FIXED_SORTS = ["cost", "duration", "disk"];
export const COLUMNS_MAX = 6;
const NAME_MAX = 512;
const KIND_WORDS: Readonly<Record<ColumnKind, string>> = { last: "last", min: "lowest", max: "highest", arg: "" };

export const columnKey = ({ kind, name }: Column): string => `${kind}:${name}`;
export const columnTitle = ({ kind, name }: Column): string =>
  KIND_WORDS[kind] === "" ? name : `${name}, ${KIND_WORDS[kind]}`;

function columnOf(key: string): Column[] {
  const kind = COLUMN_KINDS.find((each) => key.startsWith(`${each}:`));
  const name = kind === undefined ? "" : key.slice(kind.length + 1, kind.length + 1 + NAME_MAX);
  return kind === undefined || name === "" ? [] : [{ kind, name }];
}

export function viewOf(query: URLSearchParams): View {
  const keys = [...new Set(query.getAll("col"))];
  const columns = keys.flatMap(columnOf).slice(0, COLUMNS_MAX);
  const sort = query.get("sort") ?? "";
  const key = sort.replace(/^-/, "");
  const isKnown = FIXED_SORTS.includes(key) || columns.some((column) => columnKey(column) === key);
  return { columns, sort: isKnown ? { key, down: sort.startsWith("-") } : null };
}

/** The address with another view: the filter stays. */
export function withView(query: URLSearchParams, view: View): string {
  const next = new URLSearchParams(query);
  next.delete("col");
  next.delete("sort");
  for (const column of view.columns) next.append("col", columnKey(column));
  const { sort } = view;
  const isLeft =
    sort !== null && (!sort.key.includes(":") || view.columns.some((each) => columnKey(each) === sort.key));
  if (isLeft) next.set("sort", `${sort.down ? "-" : ""}${sort.key}`);
  const text = next.toString();
  return text ? `/?${text}` : "/";
}

type Summaries = Readonly<Record<string, MetricSummary>> | undefined;

export const isMetric = ({ kind }: Column): boolean => kind !== "arg";

/** The text of a cell; null if the run has no such value. */
export function cellText(column: Column, job: JobRecord, summaries: Summaries): string | null {
  if (column.kind === "arg") return paramsOf(job.args)[column.name] ?? null;
  const value = summaries?.[column.name]?.[column.kind];
  return value === undefined || value === null ? null : metricValue(column.name, value);
}

function sortValue(key: string, job: JobRecord, summaries: Summaries): number | string | null {
  if (key === "cost") return job.cost_usd;
  if (key === "disk") return job.disk_bytes;
  if (key === "duration") return (job.ended_at ? Date.parse(job.ended_at) : Date.now()) - Date.parse(job.created_at);
  const [column] = columnOf(key);
  if (column === undefined) return null;
  if (column.kind !== "arg") return summaries?.[column.name]?.[column.kind] ?? null;
  const text = paramsOf(job.args)[column.name];
  if (text === undefined) return null;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** In the order of the view; runs without the value come last, in either direction. */
export function sorted(
  ids: readonly string[],
  { sort }: View,
  jobs: Readonly<Record<string, JobRecord>>,
  summaries: ReadonlyMap<string, Summaries>,
): readonly string[] {
  if (sort === null) return ids;
  const rows = ids.flatMap((id) => {
    const job = jobs[id];
    return job ? [{ id, value: sortValue(sort.key, job, summaries.get(id)) }] : [];
  });
  const sign = sort.down ? -1 : 1;
  return rows
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
      if (typeof a.value === "number" && typeof b.value === "number") return sign * (a.value - b.value);
      // Numbers come before words.
      if (typeof a.value !== typeof b.value) return typeof a.value === "number" ? -1 : 1;
      return sign * String(a.value).localeCompare(String(b.value), "en", { numeric: true });
    })
    .map(({ id }) => id);
}
