// Opens the store for reading commands, with or without a running control plane.

import { accessSync, constants, existsSync, statSync, type Stats } from "node:fs";
import { maskedValue } from "../domain/masked-json.ts";
import { safeField } from "../domain/terminal-text.ts";
import type { Redactor } from "../domain/redaction.ts";
import { SvcError, systemCode } from "../errors/index.ts";
import type { JobRecord, JobsQuery } from "../schemas/job.ts";
import { secretsOfHome } from "../app/shown-secrets.ts";
import { openReads } from "../store/open-reads.ts";
import type { Reads } from "../store/reads.ts";
import type { Io } from "./io.ts";
import { entryOfOthers, homeObjection } from "../platform/home.ts";
import { homeLayout } from "../platform/home-layout.ts";

/** With the secrets of the home, which its reads mask. */
export type OpenReads = Reads & { close(): void; secrets: Redactor };

/**
 * Null for a home that was never used: it has no runs, and reading does not create it. Refuses the homes that a control plane refuses:
 * the command by which `svc ssh` reaches a machine comes from the store, and whoever wrote that would run it as this user.
 */
export async function storeOfHome(io: Io): Promise<OpenReads | null> {
  const home = io.home();
  const there = lookAt(home);
  if (!there) return null;
  const why = homeObjection(there);
  if (why !== null) throw new SvcError("home_unusable", { home, why });
  try {
    accessSync(home, constants.R_OK | constants.X_OK);
  } catch (cause) {
    throw new SvcError("home_unusable", { home, why: "cannot be read by this user" }, { cause });
  }
  const planted = entryOfOthers(home);
  if (planted !== null) throw new SvcError("home_unusable", { home, why: `holds ${planted} of another user` });
  if (!existsSync(homeLayout.store(home)) && !existsSync(homeLayout.installation(home))) return null;
  const shown = secretsOfHome(home, io.env);
  const opened = openReads(home, shown);
  const secrets = shown.redactor();
  const reads = Object.assign(opened, { secrets });
  return secrets.empty ? reads : masked(reads, secrets);
}

/** Reads that stay as they are stored: bytes, numbers, and names by which files and machines are found. All others are printed. */
const AS_STORED: ReadonlySet<string> = new Set([
  "resolveJobId",
  "regions",
  "seriesPoints",
  "seriesShape",
  "readLog",
  "logTimes",
  "checkpointPath",
  "code",
  "leftOutList",
  "heldHandle",
] satisfies (keyof Reads)[]);

/** The store's reads with every known secret masked, including secrets that became known after a record was written. */
function masked(reads: OpenReads, secrets: Redactor): OpenReads {
  return new Proxy(reads, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(member, target, args);
        return typeof name === "string" && AS_STORED.has(name) ? result : maskedValue(result, secrets);
      };
    },
  });
}

function lookAt(home: string): Stats | undefined {
  try {
    return statSync(home);
  } catch (cause) {
    const code = systemCode(cause);
    if (code === "ENOENT") return undefined;
    const why = code === "ENOTDIR" ? "has a file as one of its parent folders" : `cannot be read (${code})`;
    throw new SvcError("home_unusable", { home, why }, { cause });
  }
}

/** Every run, newest first, page by page. A run that changes between two pages may appear twice. */
export function* everyJob(
  reads: Pick<Reads, "jobs">,
  query: Pick<JobsQuery, "status" | "archived"> = {},
  page = 500,
): Generator<JobRecord> {
  for (let cursor: string | null = null; ;) {
    const { jobs, next_cursor } = reads.jobs({ ...query, limit: page, ...(cursor ? { cursor } : {}) });
    yield* jobs;
    if (next_cursor === null) return;
    if (next_cursor === cursor) throw new SvcError("internal_error", { why: "a page of runs returned its own cursor" });
    cursor = next_cursor;
  }
}

/** Passes the store, or null for a home that was never used, and closes it at the end. Tells if SVC_HOME names such a home. */
export const withStore = <T>(io: Io, use: (reads: OpenReads | null) => T | Promise<T>): Promise<T> =>
  withStoreQuietly(io, (reads) => {
    const words = reads === null ? unusedHome(io) : null;
    if (words !== null) io.err(words);
    return use(reads);
  });

/** The same without words, for a caller that needs no home or says so itself. */
export async function withStoreQuietly<T>(io: Io, use: (reads: OpenReads | null) => T | Promise<T>): Promise<T> {
  const reads = await storeOfHome(io);
  try {
    return await use(reads);
  } finally {
    reads?.close();
  }
}

/** What is wrong with a home in SVC_HOME that holds nothing: a mistyped one would look like one without runs. Null without SVC_HOME. */
export function unusedHome(io: Io): string | null {
  if (!io.env["SVC_HOME"]) return null;
  const home = io.home();
  const what = existsSync(home) ? "holds nothing of svc" : "does not exist";
  return `The home ${safeField(home)} ${what}, so it has no runs. If you expected some, check SVC_HOME.`;
}

/** The runs that the prefixes name, in their order, each once. Throws `job_not_found`, `job_ambiguous`. */
export const withJobs = <T>(
  io: Io,
  prefixes: readonly string[],
  use: (reads: OpenReads, ids: string[]) => T | Promise<T>,
): Promise<T> => withStoreQuietly(io, (reads) => use(...namedIn(reads, prefixes, io)));

/** The run that the prefix names. Throws `job_not_found`, `job_ambiguous`. */
export const withJob = <T>(io: Io, prefix: string, use: (reads: OpenReads, id: string) => T | Promise<T>): Promise<T> =>
  withJobs(io, [prefix], (reads, [id = prefix]) => use(reads, id));

/** The store, which must exist, and the ids of these runs. The error names the home that was looked at. */
export function namedIn(reads: OpenReads | null, prefixes: readonly string[], io: Io): [OpenReads, string[]] {
  try {
    if (!reads) throw new SvcError("job_not_found", { id: prefixes[0] ?? "" });
    return [reads, [...new Set(prefixes.map((prefix) => reads.resolveJobId(prefix)))]];
  } catch (thrown) {
    if (thrown instanceof SvcError && thrown.code === "job_not_found")
      Object.assign(thrown, {
        hint: notFoundHint(reads === null ? unusedHome(io) : null, (thrown as SvcError<"job_not_found">).data.id, io),
      });
    throw thrown;
  }
}

function notFoundHint(unused: string | null, id: string, io: Io): string {
  if (unused !== null) return unused;
  const home = safeField(io.home());
  return id === "last"
    ? `\`last\` is the newest run, and the home ${home} has none yet. If you expected one, check SVC_HOME.`
    : `\`svc jobs --all\` lists the runs of the home ${home}. If you expected to find it there, check SVC_HOME.`;
}
