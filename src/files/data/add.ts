// Makes a manifest: every file is read once, and not again as long as its size, times and inode are unchanged.

import { realpathSync, statSync } from "node:fs";
import { basename } from "node:path";
import { isMissing, SvcError } from "../../errors/index.ts";
import type { DataManifest, DataSummary } from "../../schemas/data.ts";
import { neverDataOf, scanRoots, type Found, type Root } from "./scan.ts";
import { checkDataName, digestOfAll, readManifest, summaryOf, writeManifest } from "./store.ts";
import { systemWords, type Hashed, type HashResult } from "../hash-file.ts";
import { hashFiles } from "../hash-pool.ts";

/** A file modified so shortly before it was read may be modified again without a change of its times. */
export const UNTRUSTED_MS = 2_000;
const LEFT_OUT_MAX = 1_000;
const NAMED_MAX = 5;

export interface Progress {
  doing: "looking" | "reading";
  files: number;
  bytes: number;
  /** Totals to read; unknown while scanning. */
  files_total: number | null;
  bytes_total: number | null;
}

export interface DataOptions {
  home: string;
  /** Milliseconds since the epoch. */
  now: number;
  signal: AbortSignal;
  progress?: (progress: Progress) => void;
}

export interface AddRequest {
  name: string;
  /** Absolute. */
  paths: readonly string[];
  followLinks: boolean;
}

export interface Added {
  data: DataSummary;
  /** Null if the name is new; otherwise whether the data is unchanged. */
  unchanged: boolean | null;
  read_files: number;
  read_bytes: number;
}

/**
 * Adds data, or records its current state if the name is known. Throws `data_name_refused`, `data_path_refused`,
 * `disk_full`; then nothing was changed.
 */
export async function addData(request: AddRequest, options: DataOptions): Promise<Added> {
  const { home, now, signal, progress } = options;
  const { name, paths, followLinks } = request;
  checkDataName(home, name);
  const roots = rootsOf(paths, home);
  const looking = (done: { files: number; bytes: number }): void =>
    progress?.({ doing: "looking", ...done, files_total: null, bytes_total: null });
  const scan = await scanRoots(roots, { home, followLinks, signal, progress: looking });
  if (scan.problems.length > 0) throw unreadable(scan.problems);
  if (scan.files.length === 0)
    throw new SvcError("data_path_refused", { path: paths.join(", "), why: "it contains no file" });
  const before = earlier(home, name);
  const known = new Map((before?.files ?? []).map((file) => [file[0], file]));
  const stale = scan.files.filter((found) => !isAsRecorded(found, known.get(found.path)));
  const results = await readAll(stale, options);
  const failed = stale.flatMap(({ path }, i) =>
    isHashed(results[i]!) ? [] : [{ path, why: (results[i] as { why: string }).why }],
  );
  if (failed.length > 0) throw unreadable(failed);
  const read = new Map(stale.map((found, i) => [found, results[i] as Hashed]));
  const files = scan.files.map((found): DataManifest["files"][number] => {
    const hashed = read.get(found);
    return hashed ? recordOf(found.path, hashed) : known.get(found.path)!;
  });
  const at = new Date(now).toISOString();
  const manifest: DataManifest = {
    version: 1,
    name,
    sha256: digestOfAll(files),
    bytes: files.reduce((sum, [, size]) => sum + size, 0),
    follow_links: followLinks,
    created_at: before?.created_at ?? at,
    checked_at: at,
    roots,
    files,
    left_out: scan.leftOut.slice(0, LEFT_OUT_MAX),
    left_out_count: scan.leftOut.length,
  };
  writeManifest(home, manifest);
  const read_bytes = [...read.values()].reduce((sum, { size }) => sum + size, 0);
  const unchanged = before === null ? null : before.sha256 === manifest.sha256;
  return { data: summaryOf(manifest), unchanged, read_files: read.size, read_bytes };
}

/** Reads files and reports the progress. */
export function readAll(files: readonly Found[], { signal, progress }: DataOptions): Promise<HashResult[]> {
  const files_total = files.length;
  const bytes_total = files.reduce((sum, { size }) => sum + size, 0);
  return hashFiles(files, {
    signal,
    progress: (done) => progress?.({ doing: "reading", ...done, files_total, bytes_total }),
  });
}

export const isHashed = (result: HashResult): result is Hashed => "sha256" in result;

/** Whether the file is unmodified since it was read, as far as the file system shows. */
export const isAsRecorded = (
  found: Omit<Found, "path" | "at">,
  record: DataManifest["files"][number] | undefined,
): boolean =>
  record !== undefined &&
  record[1] === found.size &&
  record[3] === found.mtimeMs &&
  record[4] === found.ctimeMs &&
  record[5] === found.ino;

export function recordOf(path: string, { size, sha256, mtimeMs, ctimeMs, ino }: Hashed): DataManifest["files"][number] {
  const trusted = Math.max(mtimeMs, ctimeMs) < Date.now() - UNTRUSTED_MS;
  return [path, size, sha256, mtimeMs, ctimeMs, trusted ? ino : -1];
}

function earlier(home: string, name: string): DataManifest | null {
  try {
    return readManifest(home, name);
  } catch (e) {
    if (e instanceof SvcError && (e.code === "data_not_found" || e.code === "data_manifest_damaged")) return null;
    throw e;
  }
}

/** A single folder is the data itself; several paths are entries under their own names. */
function rootsOf(paths: readonly string[], svcHome: string): Root[] {
  const neverData = neverDataOf(svcHome);
  const roots = paths.map((given): Root => {
    const refuse = (why: string, cause?: unknown): never => {
      throw new SvcError("data_path_refused", { path: given, why }, { cause });
    };
    try {
      const path = realpathSync(given);
      const stats = statSync(path);
      if (!stats.isFile() && !stats.isDirectory()) return refuse("it is neither a file nor a folder");
      const never = neverData(path);
      if (never !== null) return refuse(never);
      return {
        path,
        into: stats.isDirectory() && paths.length === 1 ? "" : basename(path),
        folder: stats.isDirectory(),
      };
    } catch (cause) {
      if (cause instanceof SvcError) throw cause;
      return refuse(isMissing(cause) ? "there is nothing of that name" : systemWords(cause), cause);
    }
  });
  const twice = roots.find((root, i) => roots.some((other, k) => k < i && other.into === root.into));
  if (twice)
    throw new SvcError("data_path_refused", { path: twice.path, why: `there are two paths called ${twice.into}` });
  return roots;
}

function unreadable(all: readonly { path: string; why: string }[]): SvcError {
  const named = all.slice(0, NAMED_MAX).map(({ path, why }) => `${path}: ${why}`);
  const more = all.length > NAMED_MAX ? `; and ${all.length - NAMED_MAX} more` : "";
  const first = all[0]?.path ?? "";
  return new SvcError("data_path_refused", { path: first, why: `it cannot be read (${named.join("; ")}${more})` });
}
