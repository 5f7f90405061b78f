// The filter of a run list: in the address, in the API's query, and applied to a single run.

import type { JobRecord, JobStatus } from "../../src/schemas/job.ts";
import { TAG_LENGTH_MAX, TAG_WORD, TAGS_MAX, tagsIn } from "../../src/schemas/tag-words.ts";
import { PROVIDER_NAMES } from "../../src/providers/descriptors.ts";
import type { ProviderName } from "../../src/schemas/spec.ts";
import { ACTIVE_STATUSES, hasEnded, JOB_STATUSES } from "../../src/schemas/names.ts";

export interface RunFilter {
  /** `active`, a status, or null for all. */
  status: "active" | JobStatus | null;
  provider: ProviderName | null;
  /** Text that the run must contain; empty for any. */
  text: string;
  /** The run must have all of these tags. */
  tags: readonly string[];
  /** Submitted since: a day such as `2026-11-26`, or the last days such as `7d`; null for any. */
  from: string | null;
  /** Submitted on this day or before. */
  until: string | null;
  /** Archived runs instead of the others. */
  archived: boolean;
}

export const EVERYTHING: RunFilter = {
  status: null,
  provider: null,
  text: "",
  tags: [],
  from: null,
  until: null,
  archived: false,
};
export const isEverything = (filter: RunFilter): boolean => filterQuery(filter).size === 0;

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_MS = 86_400_000;
const isDay = (text: string): boolean => DAY.test(text) && !Number.isNaN(Date.parse(`${text}T00:00`));

/** The first instant that counts, in milliseconds since the epoch; days are those of this browser. */
function fromMs({ from }: RunFilter): number | null {
  const days = /^(\d{1,4})d$/.exec(from ?? "")?.[1];
  // Rounded to the minute: with an exact instant every request would have another cache key.
  if (days !== undefined) return Math.floor((Date.now() - Number(days) * DAY_MS) / 60_000) * 60_000;
  return from === null ? null : Date.parse(`${from}T00:00`);
}

function untilMs({ until }: RunFilter): number | null {
  if (until === null) return null;
  const day = new Date(`${until}T00:00`);
  day.setDate(day.getDate() + 1);
  return day.getTime();
}

export function filterOf(query: URLSearchParams): RunFilter {
  const status = query.get("status");
  const provider = query.get("provider");
  return {
    status: status === "active" ? "active" : (JOB_STATUSES.find((each) => each === status) ?? null),
    provider: PROVIDER_NAMES.find((each) => each === provider) ?? null,
    text: (query.get("q") ?? "").trim().slice(0, 200),
    tags: tagsIn(query.get("tag") ?? "")
      .filter((tag) => TAG_WORD.test(tag) && tag.length <= TAG_LENGTH_MAX)
      .slice(0, TAGS_MAX),
    from: [query.get("from")].find((each) => each !== null && (isDay(each) || /^\d{1,4}d$/.test(each))) ?? null,
    archived: query.get("archived") === "only",
    until: [query.get("until")].find((each) => each !== null && isDay(each)) ?? null,
  };
}

/** The address of the list with this filter; also the key that distinguishes two filters. */
export function listPath(filter: RunFilter): string {
  const text = filterQuery(filter).toString();
  return text ? `/?${text}` : "/";
}

function filterQuery(filter: RunFilter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.status !== null) query.set("status", filter.status);
  if (filter.provider !== null) query.set("provider", filter.provider);
  if (filter.text !== "") query.set("q", filter.text);
  if (filter.tags.length > 0) query.set("tag", filter.tags.join(","));
  if (filter.from !== null) query.set("from", filter.from);
  if (filter.until !== null) query.set("until", filter.until);
  if (filter.archived) query.set("archived", "only");
  return query;
}

/** The present address with another filter: columns and order stay. */
export function filteredPath(filter: RunFilter): string {
  const query = new URLSearchParams(location.search);
  for (const name of ["status", "provider", "q", "tag", "from", "until", "archived"]) query.delete(name);
  const text = new URLSearchParams([...filterQuery(filter), ...query]).toString();
  return text ? `/?${text}` : "/";
}

/** The filter in the form of `GET /jobs`. */
export const questionOf = (filter: RunFilter) => ({
  status: filter.status === "active" ? ACTIVE_STATUSES.join(",") : filter.status,
  ...countQuestionOf(filter),
});

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** The filter without its status, in the form of `GET /v1/summary`, which counts by status. */
export const countQuestionOf = (filter: RunFilter) => ({
  provider: filter.provider,
  q: filter.text === "" ? null : filter.text,
  tag: filter.tags.length === 0 ? null : filter.tags.join(","),
  created_from: isoOf(fromMs(filter)),
  created_until: isoOf(untilMs(filter)),
  archived: filter.archived ? "only" : null,
});

/** Whether a changed run belongs to the list, by the same rules as the server's. */
export function belongs(filter: RunFilter, job: JobRecord): boolean {
  if ((job.archived_at !== null) !== filter.archived) return false;
  if (filter.status === "active" && hasEnded(job.status)) return false;
  if (filter.status !== null && filter.status !== "active" && filter.status !== job.status) return false;
  if (filter.provider !== null && filter.provider !== job.provider) return false;
  const at = Date.parse(job.created_at);
  if (at < (fromMs(filter) ?? -Infinity) || at >= (untilMs(filter) ?? Infinity)) return false;
  if (!filter.tags.every((tag) => job.tags.includes(tag))) return false;
  if (filter.text === "") return true;
  const words = [
    job.id,
    job.label ?? "",
    job.tags.join(" "),
    job.provider,
    job.gpus,
    job.entrypoint,
    job.error ? JSON.stringify(job.error) : "",
  ];
  return words.join(" ").toLowerCase().includes(filter.text.toLowerCase());
}
