// What the script has announced as complete, and whether the files that a machine lists are still those of the announcement.
//
// AN1. An announcement is about the files as they were then. A file that is newer by the machine's own clock is not complete for it.
// AN2. A folder of which a file was overwritten or removed after the announcement may be in the middle of the next save. It becomes a kept
//      set only once all of it has rested for REST_MS, or the script has ended by itself with exit code 0. A file that was only added (by
//      a process that saves its part late, or as a note) does not matter.
// AN3. A script that wrote no time into the announcement, or one before this program knew it, is believed.

import { readFile } from "node:fs/promises";
import { hash } from "node:crypto";
import { z } from "zod";
import { jsonOf } from "../../domain/parsed-lines.ts";
import type { RemoteFile } from "../../providers/host.ts";
import { placesOf, plainName } from "./names.ts";

/** Long enough for a script that gathers the parts of a model between two files. */
export const REST_MS = 30_000;
/** The script writes its time in whole milliseconds. */
const ROUNDING_MS = 2;

/** One call of `svc.checkpoint`, its path relative to the checkpoint directory. */
export interface Announcement {
  path: string;
  step: number | null;
  /** Milliseconds since the epoch, by the machine's clock; null if the script did not say it. */
  at: number | null;
}

/** The script's announcements by name: how often each was made, and the step and the time of the last one. */
export interface Announced {
  times: Map<string, number>;
  steps: Map<string, number>;
  at: Map<string, number>;
}

const Line = z.union([
  z.string(),
  z.object({ path: z.string(), step: z.number().optional(), at: z.number().optional() }),
]);

/** The line of the file that `readAnnounced` reads. */
export function lineOf({ path, step, at }: Announcement): string {
  return JSON.stringify({ path, ...(step !== null && { step }), ...(at !== null && { at }) } satisfies z.infer<
    typeof Line
  >);
}

/** Lines that a crash cut short are skipped. */
export async function readAnnounced(file: string): Promise<Announced> {
  const text = await readFile(file, "utf8").catch(() => "");
  const found: Announced = { times: new Map(), steps: new Map(), at: new Map() };
  for (const line of text.split("\n")) {
    const said = Line.safeParse(jsonOf(line));
    if (!said.success) continue;
    const { path, step, at } = typeof said.data === "string" ? { path: said.data } : said.data;
    const plain = plainName(path);
    found.times.set(plain, (found.times.get(plain) ?? 0) + 1);
    if (step !== undefined) found.steps.set(plain, step);
    if (at === undefined) found.at.delete(plain);
    else found.at.set(plain, at);
  }
  return found;
}

type Times = ReadonlyMap<string, number>;

const isNewer = (file: RemoteFile, at: number | undefined): boolean =>
  at !== undefined && file.mtimeMs > at + ROUNDING_MS;

/** AN1. Whether one of the names covers the file, and the file has not changed since. */
export const isAsAnnounced = (file: RemoteFile, names: ReadonlySet<string>, at: Times): boolean =>
  names.size > 0 && placesOf(file.path).some((place) => names.has(place) && !isNewer(file, at.get(place)));

interface Watched {
  /** The announcement, by its number. */
  times: number;
  /** Files that were listed as they were at the announcement. */
  before: Set<string>;
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

  /** @param files the files of the folder. @param isRunning whether the script may still write. */
  saw(
    name: string,
    announcement: { times: number; at: number },
    files: readonly RemoteFile[],
    isRunning: boolean,
  ): void {
    const { times, at } = announcement;
    const shape = hash("sha256", JSON.stringify(files.map((f) => [f.path, f.size, f.mtimeMs, f.inode])), "hex");
    let seen = this.#watched.get(name);
    if (seen?.times !== times) {
      seen = { times, before: new Set(), shape, sinceMs: this.#now(), hasRested: false };
      this.#watched.set(name, seen);
    }
    for (const file of files) if (!isNewer(file, at)) seen.before.add(file.path);
    if (seen.shape !== shape) {
      seen.shape = shape;
      seen.sinceMs = this.#now();
      seen.hasRested = false;
    }
    if (isRunning) seen.hasRested = this.#now() - seen.sinceMs >= REST_MS;
  }

  /**
   * Whether the listed files may belong to two saves.
   * @param members the paths of the version that was kept before.
   */
  isTorn(name: string, at: number, files: readonly RemoteFile[], members: ReadonlySet<string>): boolean {
    const seen = this.#watched.get(name);
    if (seen === undefined || seen.hasRested) return false;
    const listed = new Set(files.map(({ path }) => path));
    const isOverwritten = (file: RemoteFile): boolean =>
      isNewer(file, at) && (seen.before.has(file.path) || members.has(file.path));
    return files.some(isOverwritten) || [...seen.before].some((path) => !listed.has(path));
  }

  forget(name: string): void {
    this.#watched.delete(name);
  }
}
