// The filter of a run list: in the address, in the API's query, and applied to a single run.

import type { JobRecord, JobStatus } from "../../src/schemas/job.ts";
import { PROVIDER_NAMES } from "../../src/providers/descriptors.ts";
import type { ProviderName } from "../../src/schemas/spec.ts";
import { ACTIVE_STATUSES, hasEnded, JOB_STATUSES } from "../../src/schemas/names.ts";

export interface RunFilter {
  /** `active`, a status, or null for all. */
  status: "active" | JobStatus | null;
  provider: ProviderName | null;
  /** Text that the run must contain; empty for any. */
  text: string;
}

export const EVERYTHING: RunFilter = { status: null, provider: null, text: "" };
export const isEverything = (filter: RunFilter): boolean =>
  filter.status === null && filter.provider === null && filter.text === "";

export function filterOf(query: URLSearchParams): RunFilter {
  const status = query.get("status");
  const provider = query.get("provider");
  return {
    status: status === "active" ? "active" : (JOB_STATUSES.find((each) => each === status) ?? null),
    provider: PROVIDER_NAMES.find((each) => each === provider) ?? null,
    text: (query.get("q") ?? "").trim().slice(0, 200),
  };
}

/** The address of the list with this filter; also the key that distinguishes two filters. */
export function listPath(filter: RunFilter): string {
  const query = new URLSearchParams();
  if (filter.status !== null) query.set("status", filter.status);
  if (filter.provider !== null) query.set("provider", filter.provider);
  if (filter.text !== "") query.set("q", filter.text);
  const text = query.toString();
  return text ? `/?${text}` : "/";
}

/** The filter in the form of `GET /jobs`. */
export const questionOf = (filter: RunFilter) => ({
  status: filter.status === "active" ? ACTIVE_STATUSES.join(",") : filter.status,
  provider: filter.provider,
  q: filter.text === "" ? null : filter.text,
});

/** Whether a changed run belongs to the list, by the same rules as the server's. */
export function belongs(filter: RunFilter, job: JobRecord): boolean {
  if (filter.status === "active" && hasEnded(job.status)) return false;
  if (filter.status !== null && filter.status !== "active" && filter.status !== job.status) return false;
  if (filter.provider !== null && filter.provider !== job.provider) return false;
  if (filter.text === "") return true;
  const words = [
    job.id,
    job.label ?? "",
    job.provider,
    job.gpus,
    job.entrypoint,
    job.error ? JSON.stringify(job.error) : "",
  ];
  return words.join(" ").toLowerCase().includes(filter.text.toLowerCase());
}
