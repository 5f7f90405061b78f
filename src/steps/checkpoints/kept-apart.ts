// Names of checkpoint files that would be one name on this computer: two that differ only in case, on the file systems of macOS and
// Windows, and a name of node 0 that is the folder of another node. The later one of them would replace the other one.

import { lstat, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { nullIfMissing } from "../../errors/index.ts";
import { foldersOf } from "./names.ts";

/** Where the files of one node are on this computer. */
export interface HomeFolder {
  folder: string;
  /** Number of other nodes whose folders `node1`, `node2`, ... are in this one: only in that of node 0. */
  others: number;
  /** Whether names that differ only in case or composition are one name there; absent: svc looks. */
  foldsNames?: boolean;
}

/** Equal for names that are one name on such a file system. It may also be equal for others: they get a suffix without need. */
const folded = (name: string): string => name.normalize("NFD").toUpperCase();

async function foldsNames(folder: string): Promise<boolean> {
  const own = await lstat(folder).catch(nullIfMissing);
  const other = await lstat(join(dirname(folder), basename(folder).toUpperCase())).catch(nullIfMissing);
  return own !== null && own.ino === other?.ino && own.dev === other.dev;
}

/**
 * The local paths of the files and folders that cannot have their own: `~` is appended to the name of the file or of its folder. Of several rivals the
 * one that the folder has already keeps its name, so that a file keeps its path from scan to scan; else the first in order does. A local file stays
 * although the machine does not have it any more: its name is taken, too.
 */
export async function keptApart(paths: readonly string[], home: HomeFolder): Promise<Map<string, string>> {
  const isFolding = home.foldsNames ?? (await foldsNames(home.folder));
  const keyOf = isFolding ? folded : (name: string): string => name;
  const taken = new Set(Array.from({ length: home.others }, (_, i) => keyOf(`node${i + 1}`)));
  if (!isFolding && !paths.some((path) => taken.has(path.split("/", 1)[0] ?? ""))) return new Map();
  const at = new Map<string, string>();
  const own = (place: string): string => {
    const cut = place.lastIndexOf("/");
    const folder = place.slice(0, Math.max(0, cut));
    return cut < 0 ? place : `${at.get(folder) ?? folder}${place.slice(cut)}`;
  };
  const listed = new Map<string, Promise<Map<string, string>>>();
  const entriesOf = async (folder: string): Promise<Map<string, string>> => {
    const names = (await readdir(join(home.folder, folder)).catch(nullIfMissing)) ?? [];
    return new Map(names.map((name) => [keyOf(name), name.normalize("NFD")]));
  };
  /** Whether a local entry has this name in another case. Some file systems change the composition of a name: that tells nothing. */
  const isOfAnother = async (path: string): Promise<boolean> => {
    if (!isFolding) return false;
    const folder = dirname(path);
    const entries = listed.get(folder) ?? entriesOf(folder);
    listed.set(folder, entries);
    const there = (await entries).get(keyOf(basename(path)));
    return there !== undefined && there !== basename(path).normalize("NFD");
  };
  // From the top: the new name of a folder moves everything in it.
  const places = new Set(paths.flatMap((path) => [...foldersOf(path).slice(1), path]));
  const byDepth = Map.groupBy(places, (place) => place.split("/").length);
  for (const [, level] of [...byDepth].toSorted(([a], [b]) => a - b)) {
    const rivals = Map.groupBy(level, (place) => keyOf(own(place)));
    for (const [key, all] of rivals) {
      const [only] = all;
      if (only !== undefined && all.length === 1 && !taken.has(key) && !(await isOfAnother(own(only)))) {
        at.set(only, own(only));
        continue;
      }
      const there = new Set(await readdir(join(home.folder, dirname(own(all[0] ?? "")))).catch(nullIfMissing));
      const isLater = (place: string): number => (there.has(basename(place)) ? 0 : 1);
      for (const place of all.toSorted((a, b) => isLater(a) - isLater(b) || (a < b ? -1 : 1))) {
        let path = own(place);
        if (taken.has(key) || (await isOfAnother(path)))
          do path += "~";
          while (taken.has(keyOf(path)) || rivals.has(keyOf(path)) || (await isOfAnother(path)));
        taken.add(keyOf(path));
        at.set(place, path);
      }
    }
  }
  return new Map([...at].filter(([place, path]) => path !== place));
}
