// Finds the parts of an announced folder that a process saves after svc has kept the announced version.
//
// LP1. Rank 0 announces a folder, svc has all of it within a second, and another process saves its part only then. The folder is kept again
//      once the newer files have rested for REST_MS, if all were written at most LATE_MS after the announcement and none takes the place of
//      a file that was saved for it: the kept version lacks it, or has it from an earlier save. Any other newer file may be the
//      beginning of the next save.
// LP2. Once the script has ended by itself with exit code 0, newer files are part of the folder. If a file was removed, the kept version stays.

import type { RemoteFile } from "../../providers/host.ts";
import { isNewer, LATE_MS, REST_MS } from "./announcements.ts";

/** What the script has done so far, as the collector knows it. */
export interface ScriptSoFar {
  /** It has ended by itself, with exit code 0. */
  hasSucceeded: boolean;
  /** How long the listed file has not changed, in milliseconds. */
  restedMs: (file: RemoteFile) => number;
}

interface KeptFiles {
  name: string;
  files: readonly { path: string; size: number; mtime_ms: number }[];
}

export class LateParts {
  /** By the name of a kept folder: the paths of files that were there before it was saved. */
  readonly #older = new Map<string, ReadonlySet<string>>();

  /** Call it before a version is kept. @param isNext whether it was announced anew, or a part of the same one came late */
  kept(name: string, files: readonly RemoteFile[], before: KeptFiles | null, isNext: boolean): void {
    const changed = new Set(changedSince(before, files));
    const older = this.#older.get(name);
    const same = files.filter((file) => !changed.has(file) && (isNext || older?.has(file.path) === true));
    this.#older.set(name, new Set(same.map(({ path }) => path)));
  }

  /** Whether the folder has files that belong to the announcement for which `kept` was kept. */
  in(kept: KeptFiles, files: readonly RemoteFile[], announcedAt: number, script: ScriptSoFar): boolean {
    const paths = new Set(files.map(({ path }) => path));
    const newer = changedSince(kept, files);
    if (newer.length === 0 || kept.files.some(({ path }) => !paths.has(path))) return false;
    if (script.hasSucceeded) return true;
    const before = new Set(kept.files.map(({ path }) => path));
    const older = this.#older.get(kept.name);
    return newer.every(
      (file) =>
        (!before.has(file.path) || older?.has(file.path) === true) &&
        isNewer(file, announcedAt) &&
        !isNewer(file, announcedAt + LATE_MS) &&
        script.restedMs(file) >= REST_MS,
    );
  }
}

/** The files that the kept version lacks, or has otherwise. */
function changedSince(kept: KeptFiles | null, files: readonly RemoteFile[]): RemoteFile[] {
  const then = new Map(kept?.files.map((file) => [file.path, file]));
  return files.filter(({ path, size, mtimeMs }) => {
    const file = then.get(path);
    return file?.size !== size || file.mtime_ms !== mtimeMs;
  });
}
