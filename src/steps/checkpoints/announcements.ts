// Reads the announcements of a script, and judges whether the files that a machine lists are still the announced ones.
//
// AN1. An announcement is about the files as they were then. A file that is newer by the machine's own clock is not complete for it.
// AN2. A folder of which a file was overwritten or removed after the announcement may be in the middle of the next save. It becomes a kept
//      set only once the script has ended by itself with exit code 0, or once all of it has rested for REST_MS and nothing was removed or written
//      later than LATE_MS after the announcement: another process may have saved its part that late. A file that was only added (by
//      a process that saves its part late, or as a note) does not matter: svc has listed the announced folder without it. A newer file
//      in the first listing may have replaced one that svc never saw.
// AN3. A script that wrote no time into the announcement, or one before this program knew it, is believed.
// AN4. The announcements of an earlier machine of the run are about its files. They say nothing about those of the present one, except
//      that the script announces files of that name: one that it has not announced again may be half written (unfinished-files.ts).

import { readFile } from "node:fs/promises";
import { hash } from "node:crypto";
import { z } from "zod";
import { jsonOf } from "../../domain/parsed-lines.ts";
import type { RemoteFile } from "../../providers/host.ts";
import { same } from "./files.ts";
import { placesOf, plainName } from "./names.ts";

/** Long enough for a script that gathers the parts of a model between two files. */
export const REST_MS = 30_000;
/** A process may need so long to save its part after another one has announced all of it. The next save begins later, as a rule. */
export const LATE_MS = 120_000;
/** The script writes its time in whole milliseconds. */
const ROUNDING_MS = 2;

/** One call of `svc.checkpoint`, its path relative to the checkpoint directory. */
export interface Announcement {
  path: string;
  step: number | null;
  /** Milliseconds since the epoch, by the machine's clock; null if the script did not say it. */
  at: number | null;
}

/** The script's announcements by name: how often each was made, and the step, the time and the placement of the last one. */
export interface Announced {
  times: Map<string, number>;
  steps: Map<string, number>;
  at: Map<string, number>;
  /** Without those that an older program has stored. */
  placements: Map<string, number>;
}

const Line = z.object({
  path: z.string(),
  step: z.number().optional(),
  at: z.number().optional(),
  placement: z.int().optional(),
  /** How many announcements the line stands for, if not one. */
  times: z.int().optional(),
});
type Line = z.infer<typeof Line>;
const AnyLine = z.union([z.string().transform((path): Line => ({ path })), Line]);
const textOf = (line: Line): string => `${JSON.stringify(line)}\n`;

/** The line of the file that `readAnnounced` reads. */
export const lineOf = ({ path, step, at }: Announcement, placement: number): string =>
  textOf({ path, ...(step !== null && { step }), ...(at !== null && { at }), placement });

/** The lines for the same announcements, one for each name. */
export const shortened = ({ times, steps, at, placements }: Announced): string =>
  [...times]
    .map(([path, count]) => {
      const of = { step: steps.get(path), at: at.get(path), placement: placements.get(path) };
      // Members without a value have no place in JSON.
      return textOf({ path, ...(of as Partial<Line>), times: count });
    })
    .join("");

/** The announcements in the text of such a file. Lines that a crash cut short are skipped. */
export function announcedIn(text: string): Announced {
  const found: Announced = { times: new Map(), steps: new Map(), at: new Map(), placements: new Map() };
  for (const line of text.split("\n")) {
    const said = AnyLine.safeParse(jsonOf(line));
    if (!said.success) continue;
    const { path, step, at, placement, times = 1 } = said.data;
    const plain = plainName(path);
    found.times.set(plain, (found.times.get(plain) ?? 0) + times);
    if (step !== undefined) found.steps.set(plain, step);
    setOrDelete(found.at, plain, at);
    setOrDelete(found.placements, plain, placement);
  }
  return found;
}

function setOrDelete(map: Map<string, number>, name: string, value: number | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}

export const readAnnounced = async (file: string): Promise<Announced> =>
  announcedIn(await readFile(file, "utf8").catch(() => ""));

/** AN4. `earlier`: the names that only earlier placements announced. */
export function ofPlacement(
  { times, at, placements }: Pick<Announced, "times" | "at" | "placements">,
  present: number,
): Pick<Announced, "times" | "at"> & { earlier: Set<string> } {
  const isPresent = ([name]: [string, number]): boolean => (placements.get(name) ?? present) === present;
  return {
    times: new Map([...times].filter(isPresent)),
    at: new Map([...at].filter(isPresent)),
    earlier: new Set([...times].filter((each) => !isPresent(each)).map(([name]) => name)),
  };
}

type Times = ReadonlyMap<string, number>;

/** Whether the file was written after the announcement. */
export const isNewer = (file: RemoteFile, at: number | undefined): boolean =>
  at !== undefined && file.mtimeMs > at + ROUNDING_MS;

/** AN1. Whether one of the names covers the file, and the file has not changed since. */
export const isAsAnnounced = (file: RemoteFile, names: ReadonlySet<string>, at: Times): boolean =>
  names.size > 0 && placesOf(file.path).some((place) => names.has(place) && !isNewer(file, at.get(place)));

interface Watched {
  times: number;
  /** The files of the first listing since the announcement. */
  first: Map<string, RemoteFile>;
  /** All listed files, and since when they have been listed so. */
  shape: string;
  sinceMs: number;
  hasRested: boolean;
}

/** AN2. Watches the announced folders of one node that are not kept yet. */
export class AnnouncedFolders {
  readonly #now: () => number;
  readonly #watched = new Map<string, Watched>();

  /** @param now milliseconds on a clock that never goes back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * @param times the announcement, by its number.
   * @param files the files of the folder.
   * @param isRunning whether the script may still write.
   */
  saw(name: string, times: number, files: readonly RemoteFile[], isRunning: boolean): void {
    const shape = hash("sha256", JSON.stringify(files.map((f) => [f.path, f.size, f.mtimeMs, f.inode])), "hex");
    let seen = this.#watched.get(name);
    if (seen?.times !== times) {
      const first = new Map(files.map((file) => [file.path, file]));
      seen = { times, first, shape, sinceMs: this.#now(), hasRested: false };
      this.#watched.set(name, seen);
    }
    if (seen.shape !== shape) {
      seen.shape = shape;
      seen.sinceMs = this.#now();
      seen.hasRested = false;
    }
    if (isRunning) seen.hasRested = this.#now() - seen.sinceMs >= REST_MS;
  }

  /**
   * Whether the listed files may belong to two saves.
   * @param complete when it was announced and, if a framework has marked it as complete since, when that was.
   * @param members the paths of the version that was kept before.
   */
  isTorn(
    name: string,
    complete: { announcedAt: number; markedAt: number },
    files: readonly RemoteFile[],
    members: ReadonlySet<string>,
  ): boolean {
    const seen = this.#watched.get(name);
    if (seen === undefined) return false;
    const isMarked = complete.markedAt > complete.announcedAt;
    const at = isMarked ? complete.markedAt : complete.announcedAt;
    const listed = new Map(files.map((file) => [file.path, file]));
    const replaced = files.filter((file) => isNewer(file, at) && members.has(file.path));
    for (const file of seen.first.values()) {
      const now = listed.get(file.path);
      if (now === undefined && isMarked) continue;
      if (now === undefined) return true;
      if (isNewer(now, at)) replaced.push(now);
      else if (!isMarked && !same(now, file)) return true;
    }
    const isNext = (file: RemoteFile): boolean => isNewer(file, complete.announcedAt + LATE_MS);
    return replaced.some(isNext) || (replaced.length > 0 && !seen.hasRested);
  }

  forget(name: string): void {
    this.#watched.delete(name);
  }
}
