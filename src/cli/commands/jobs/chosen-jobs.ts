// Reads the runs that `svc jobs` was asked for: by id, or page by page until there are enough.

import { SvcError } from "../../../errors/index.ts";
import type { JobRecord, JobStatus } from "../../../schemas/job.ts";
import type { ProviderName } from "../../../schemas/spec.ts";
import type { Io } from "../../io.ts";
import { namedIn, type OpenReads } from "../../store.ts";

export interface ChosenJobs {
  /** Prefixes; if there are any, nothing else narrows the list. */
  ids: readonly string[];
  provider: ProviderName | undefined;
  label: string | undefined;
  tag: readonly string[] | undefined;
  status: JobStatus | undefined;
  /** Archived runs instead of the others. */
  archived: boolean;
  /** The length of the list at most. */
  most: number;
}

export interface JobList {
  jobs: JobRecord[];
  /** Null if there are no more. */
  next: string | null;
}

const PAGE = 500;

/** Throws `job_not_found`, `job_ambiguous`. */
export function readChosen(reads: OpenReads | null, chosen: ChosenJobs, io: Io): JobList {
  if (chosen.ids.length > 0) {
    const [store, ids] = namedIn(reads, chosen.ids, io);
    return { jobs: ids.flatMap((id) => store.job(id) ?? []), next: null };
  }
  const jobs: JobRecord[] = [];
  if (!reads) return { jobs, next: null };
  const { status, provider, label, tag, archived, most } = chosen;
  let cursor: string | null = null;
  do {
    const page = reads.jobs({
      limit: Math.min(PAGE, most - jobs.length),
      ...(status ? { status: [status] } : {}),
      ...(provider ? { provider } : {}),
      ...(label === undefined ? {} : { label }),
      ...(archived ? { archived: "only" as const } : {}),
      ...(tag === undefined ? {} : { tag: [...tag] }),
      ...(cursor ? { cursor } : {}),
    });
    jobs.push(...page.jobs);
    if (page.next_cursor !== null && page.next_cursor === cursor)
      throw new SvcError("internal_error", { why: "a page of runs returned its own cursor" });
    cursor = page.next_cursor;
  } while (cursor !== null && jobs.length < most);
  return { jobs, next: cursor };
}
