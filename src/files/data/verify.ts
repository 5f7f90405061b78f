// Checks data against its manifest. `verifyData` reports every difference; `checkData` is quick and stops at the first
// doubt: it runs before each submission.

import { statSync } from "node:fs";
import { isMissing } from "../../errors/index.ts";
import type { DataManifest, DataReport } from "../../schemas/data.ts";
import { isAsRecorded, isHashed, readAll, recordOf, type DataOptions } from "./add.ts";
import { placeBelow, scanRoots, type Found } from "./scan.ts";
import { markChecked, readManifest, stampOf, writeManifest } from "./store.ts";
import { systemWords } from "../hash-file.ts";

const SLICE_MS = 8;

/**
 * Compares the data with its manifest. Files whose size, times and inode are as recorded are not read, unless `full`
 * asks for it. If a file was only touched, its new times are recorded in the manifest, so that it is not read again.
 * Throws `data_not_found`, `data_manifest_damaged`.
 */
export async function verifyData(name: string, full: boolean, options: DataOptions): Promise<DataReport> {
  const { home, signal, progress } = options;
  const stamp = stampOf(home, name);
  const manifest = readManifest(home, name);
  const looking = (done: { files: number; bytes: number }): void =>
    progress?.({ doing: "looking", ...done, files_total: manifest.files.length, bytes_total: null });
  const scan = await scanRoots(manifest.roots, { home, followLinks: manifest.follow_links, signal, progress: looking });
  const found = new Map(scan.files.map((file) => [file.path, file]));
  const report: DataReport = {
    name,
    ok: true,
    files: manifest.files.length,
    bytes: manifest.bytes,
    changed: [],
    missing: [],
    unreadable: [],
    extra: [],
    read_files: 0,
    read_bytes: 0,
  };
  const toRead: Found[] = [];
  for (const record of manifest.files) {
    const file = found.get(record[0]);
    if (!file) absent(manifest, record[0], report);
    else if (full || !isAsRecorded(file, record)) {
      if (file.size === record[1]) toRead.push(file);
      else report.changed.push({ path: record[0], why: `${file.size} bytes, not ${record[1]}` });
    }
  }
  const named = new Set(manifest.files.map(([path]) => path));
  report.extra = scan.files.filter(({ path }) => !named.has(path)).map(({ path }) => path);
  for (const { path, why } of scan.problems) {
    if (!named.has(path) && !report.unreadable.some((u) => u.path === path)) report.unreadable.push({ path, why });
  }
  const refreshed = await compare(manifest, toRead, report, options);
  for (const list of [report.changed, report.unreadable]) list.sort((a, b) => (a.path < b.path ? -1 : 1));
  report.ok = report.changed.length + report.missing.length + report.unreadable.length + report.extra.length === 0;
  remember(manifest, stamp, refreshed, report.ok, options);
  return report;
}

/** A file of the manifest that the walk did not find: it is gone, or exists and cannot be read. */
function absent({ roots }: DataManifest, path: string, report: DataReport): void {
  const at = placeBelow(roots, path);
  try {
    const stats = at === null ? undefined : statSync(at, { throwIfNoEntry: false });
    if (!stats) report.missing.push(path);
    else
      report.changed.push({
        path,
        why: stats.isFile() ? "it is a symlink that leaves the folder now" : "it is no longer a plain file",
      });
  } catch (cause) {
    if (isMissing(cause)) report.missing.push(path);
    else report.unreadable.push({ path, why: systemWords(cause) });
  }
}

/** Reads files that may have changed; resolves with new records of those that have not. */
async function compare(manifest: DataManifest, files: readonly Found[], report: DataReport, options: DataOptions) {
  const digests = new Map(manifest.files.map(([path, , sha256]) => [path, sha256]));
  const refreshed = new Map<string, DataManifest["files"][number]>();
  const results = await readAll(files, options);
  files.forEach(({ path }, i) => {
    const result = results[i]!;
    report.read_files += 1;
    if (!isHashed(result)) return report.unreadable.push({ path, why: result.why });
    report.read_bytes += result.size;
    if (result.sha256 === digests.get(path)) return refreshed.set(path, recordOf(path, result));
    return report.changed.push({ path, why: "its content differs" });
  });
  return refreshed;
}

/** Only if the data was not added again meanwhile. */
function remember(
  manifest: DataManifest,
  stamp: string | null,
  refreshed: ReadonlyMap<string, DataManifest["files"][number]>,
  ok: boolean,
  { home, now }: DataOptions,
): void {
  if (!ok && refreshed.size === 0) return;
  if (stampOf(home, manifest.name) !== stamp) return;
  if (refreshed.size > 0) {
    const files = manifest.files.map((record) => refreshed.get(record[0]) ?? record);
    writeManifest(home, { ...manifest, files });
  }
  if (ok) markChecked(home, manifest.name, now);
  else if (refreshed.size > 0) markChecked(home, manifest.name, Date.parse(manifest.checked_at));
}

/** Null if every file still looks unchanged; else a few words on the first ones that do not. Reads no file. */
export async function doubts(manifest: DataManifest): Promise<string | null> {
  const odd: string[] = [];
  let more = 0;
  let sliceEndsAt = performance.now() + SLICE_MS;
  for (const record of manifest.files) {
    if (performance.now() > sliceEndsAt) {
      await new Promise((resolve) => setImmediate(resolve));
      sliceEndsAt = performance.now() + SLICE_MS;
    }
    const why = doubt(manifest, record);
    if (why === null) continue;
    if (odd.length < 3) odd.push(`${record[0]} ${why}`);
    else more += 1;
  }
  return odd.length === 0 ? null : `${odd.join(", ")}${more > 0 ? ` and ${more} more files` : ""}`;
}

function doubt({ roots }: DataManifest, record: DataManifest["files"][number]): string | null {
  const at = placeBelow(roots, record[0]);
  try {
    const stats = at === null ? undefined : statSync(at, { throwIfNoEntry: false });
    if (!stats) return "is missing";
    if (!stats.isFile()) return "is no longer a plain file";
    // The inode is not recorded for a file modified just before it was read; size and times are.
    const ino = record[5] === -1 ? -1 : stats.ino;
    return isAsRecorded({ size: stats.size, mtimeMs: stats.mtimeMs, ctimeMs: stats.ctimeMs, ino }, record)
      ? null
      : "has changed";
  } catch (cause) {
    return isMissing(cause) ? "is missing" : `cannot be looked at (${systemWords(cause)})`;
  }
}
