// Bringing checkpoints home. The machine is not trusted, the script may be writing, and either end may vanish at any moment.
//
// K1. During a run a file is fetched when size, mtime and inode were the same in two scans at least SETTLE_MS apart, or when the
//     script announced it as complete. A file whose name says that it is unfinished is never fetched, announced or not.
//     One that cannot be read is named, and tried again by the next scan.
// K2. At the end everything that is complete is fetched; what is left behind is named, with the reason.
// K3. A file is fetched beside its place (`.svc-partial/`), compared with a fresh listing, flushed, and renamed: what stands
//     under its real name is whole. If it changed meanwhile it is left for a later scan. What a broken link keeps from being
//     compared, or cuts off, stays beside for as long as the machine lists that very file, and is not fetched again by this process.
// K4. What is at home carries the original's mtime. Same size and mtime: not fetched again, also not by a new process.
//     So is what was put into the checkpoint directory for the run to go on from, until the run writes over it. One scan follows
//     the other: what one has half here, the next does not begin anew, whichever step asked for it.
// K5. A link to a plain file of the same directory comes home as a file of its own, copied from there where that one is at home. Any other
//     link is named, as what is left behind is.
// K7. A file that is written to again and again is downloaded while it does not rest (growing-files.ts), and is marked as in progress: at
//     home under its name, but complete for nobody until K1 or K2 find it whole.
// K8. A file for which the disk at home has no room is named with its size, and keeps nothing else from being downloaded. At the end the
//     scan fails with `disk_full` so that it is tried again, unless the file is larger than the whole disk.
// K6. Paths are data from a stranger: relative, plain, bounded; no link at home is followed. Files are 0600, folders 0700.

import { lstat, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import { isDiskFull, nullIfMissing, orDiskFull, SvcError, UnreadableFile } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import {
  asListed,
  asRecord,
  batches,
  fetchMany,
  fetchOne,
  flushFolder,
  homeStats,
  isBeside,
  isCopyOf,
  isLink,
  isOurs,
  NAME_CHARS,
  nameBeside,
  placeFile,
  readCheckpoints,
  same,
  STAGING,
  stillToCome,
} from "./files.ts";
import { isAnnounced, placesOf, plainName, printable, unfinishedFolders, whyRefused, whyTemporary } from "./names.ts";
import { CheckpointSets, type Announcements } from "./sets.ts";
import { GrowingFiles } from "./growing-files.ts";
import { hadNoRoom, lacksRoom, neverFits, noRoomError, whyNoRoom, type NoRoom } from "./room.ts";
import { Retention, type KeepRules } from "./retention.ts";
import type { CheckpointHost } from "./home-names.ts";

export const SETTLE_MS = 10_000;
/** What has come is compared and put in its place this often: a process that ends, or a link that breaks, costs no more than that. */
const BATCH_MS = 5_000;
/** How often the last scan tries files that changed under its hands. */
const FINAL_PASSES_MAX = 3;

export interface ScanOptions {
  /** The run is over: nothing will settle any more. */
  final: boolean;
  /**
   * Files and folders that the script called complete, relative to the checkpoint directory. The collector takes a name
   * out when everything below it is at home; the caller adds it again when it is announced again.
   */
  announced: Set<string>;
  /** None: it goes on until `stop`. */
  signal?: AbortSignal;
  /**
   * Told of every file that is in its place, whatever becomes of the rest of the scan; also, once per process, of those that
   * were there before: whoever brought them may have died before it could record them.
   * @param removed files that are not at home any more.
   */
  record?: (files: CheckpointFile[], removed: readonly string[]) => Promise<void>;
}

type OneScan = ScanOptions & { signal: AbortSignal };

export interface ScanResult {
  /** Fetched by this scan. */
  saved: CheckpointFile[];
  /** Not at home yet and still in motion: a later scan may take them. */
  pending: string[];
  /** Not taken, and why. */
  skipped: { path: string; why: string }[];
  /** Of these, the ones for which the disk at home has no room. */
  noRoom: NoRoom[];
}

interface Seen {
  file: RemoteFile;
  sinceMs: number;
}

/** Collects the checkpoints of one node into one folder. */
export class CheckpointCollector {
  readonly #targetDir: string;
  readonly #now: () => number;
  readonly #followEveryMs: number;
  readonly #given: ReadonlyMap<string, { size: number; mtime_ms: number }>;
  #seen = new Map<string, Seen>();
  /** Paths that this process has recorded. */
  readonly #recorded = new Set<string>();
  readonly #sets: CheckpointSets;
  readonly #growing: GrowingFiles;
  readonly #retention: Retention | null;
  #prepared = false;
  /** The scan that is under way. */
  #scan: { over: Promise<ScanResult>; controller: AbortController } | null = null;
  #stopped = false;

  /**
   * @param options.now milliseconds that never go back.
   * @param options.given what the run was given to go on from: no checkpoints of its own.
   * @param options.announced what the script has called complete so far.
   */
  constructor(options: {
    targetDir: string;
    now: () => number;
    given?: readonly { path: string; size: number; mtime_ms: number }[];
    announced?: Announcements;
    /** Which complete checkpoints stay; all where absent. */
    keep?: KeepRules | undefined;
    /** How often growing files are read while a large file is downloaded. */
    followEveryMs?: number;
  }) {
    this.#targetDir = options.targetDir;
    this.#now = options.now;
    this.#followEveryMs = options.followEveryMs ?? SETTLE_MS;
    this.#given = new Map(options.given?.map((file) => [file.path, file]));
    this.#sets = new CheckpointSets(options.targetDir, options.announced ?? (() => Promise.resolve(new Map())));
    this.#growing = new GrowingFiles({ targetDir: options.targetDir, now: options.now, sets: this.#sets });
    this.#retention = options.keep ? new Retention(options.targetDir, options.keep, this.#sets) : null;
  }

  /**
   * One look at the checkpoint directory, and the fetching of what is ready. Safe to repeat after any failure: what came
   * home stays there. Throws what the host throws, and `disk_full`.
   */
  async scan(host: CheckpointHost, options: ScanOptions): Promise<ScanResult> {
    const { signal } = options;
    while (this.#scan !== null) {
      await unlessAborted(this.#scan, signal).catch(() => undefined);
      signal?.throwIfAborted();
    }
    const controller = new AbortController();
    if (this.#stopped) controller.abort(new SvcError("shutting_down", {}));
    this.#scan = { controller, over: this.#scanOnce(host, { ...options, signal: controller.signal }) };
    try {
      return await unlessAborted(this.#scan, signal);
    } finally {
      this.#scan = null;
    }
  }

  /** Ends the scan that is under way, and all that are still asked for. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#scan?.controller.abort(new SvcError("shutting_down", {}));
    await this.#scan?.over.catch(() => undefined);
  }

  async #scanOnce(host: CheckpointHost, options: OneScan): Promise<ScanResult> {
    await this.#prepare();
    const result: ScanResult = { saved: [], pending: [], skipped: [], noRoom: [] };
    let listing = await host.listCheckpoints(options.signal);
    let isOver = false;
    try {
      for (let pass = 1; ; pass++) {
        const { ready, pending, skipped, found, moving } = await this.#sort(listing, options);
        await this.#record(found, options);
        result.noRoom = await this.#follow(host, moving, options);
        result.skipped = skipped;
        result.pending = pending;
        const moved: string[] = [];
        // Links last: what they lead to is at home then.
        const [links, files] = [ready.filter(isLink), ready.filter((file) => !isLink(file))];
        const waiting = [...batches(files), ...batches(links)];
        for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
          const busy = new Set([batch, ...waiting].flat().map(({ path }) => path));
          const fetched = await this.#whileFollowing(host, options, busy, () => this.#fetchAll(host, batch, options));
          if (fetched.rest.length > 0) waiting.unshift(fetched.rest);
          result.saved.push(...fetched.saved);
          result.skipped.push(...fetched.refused);
          result.noRoom.push(...fetched.noRoom);
          result.pending.push(...fetched.moved);
          moved.push(...fetched.moved);
          listing = fetched.after;
        }
        if (ready.length === 0) await this.#keepSets(listing, options);
        if (options.final && moved.length > 0 && pass < FINAL_PASSES_MAX) continue;
        // K8. Room may still be made for it.
        const fits = options.final ? result.noRoom.find((lack) => !neverFits(lack)) : undefined;
        if (fits) throw noRoomError(this.#targetDir, fits);
        result.skipped.push(...result.noRoom.map((lack) => ({ path: lack.path, why: whyNoRoom(lack) })));
        if (options.final) {
          result.skipped.push(...result.pending.map((path) => ({ path, why: "it kept changing while it was copied" })));
          result.pending = [];
        }
        this.#retire(options.announced, result);
        isOver = options.final;
        return result;
      }
    } finally {
      await this.#clearStaging(isOver ? [] : listing);
    }
  }

  /** K7 */
  async #follow(host: CheckpointHost, moving: RemoteFile[], options: OneScan): Promise<NoRoom[]> {
    if (moving.length === 0) return [];
    try {
      const { files, removed, noRoom } = await this.#growing.take(host, moving, options.signal);
      await this.#record(files, options, removed);
      return noRoom;
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
  }

  /** A large file may take an hour: what grows is downloaded meanwhile. */
  async #whileFollowing<T>(
    host: CheckpointHost,
    options: OneScan,
    busy: ReadonlySet<string>,
    work: () => Promise<T>,
  ): Promise<T> {
    if (options.final) return work();
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, options.signal]);
    const following = this.#keepFollowing(host, { ...options, signal }, busy).catch(() => undefined);
    try {
      return await work();
    } finally {
      over.abort();
      await following;
    }
  }

  /** Until the signal. Whatever it fails with, the scan meets as well. @param busy paths that the scan downloads itself. */
  async #keepFollowing(host: CheckpointHost, options: OneScan, busy: ReadonlySet<string>): Promise<void> {
    let before = new Map([...this.#seen].map(([path, { file }]) => [path, file]));
    for (;;) {
      await pause(this.#followEveryMs, undefined, { signal: options.signal });
      const listing = await host.listCheckpoints(options.signal);
      const unfinished = unfinishedFolders(listing);
      const moving: RemoteFile[] = [];
      for (const file of listing) {
        const { path } = file;
        if (busy.has(path) || whyRefused(file) !== null || path.split("/").some(isOurs)) continue;
        if (this.#isGiven(file) || this.#retention?.isDropped(file) || whyTemporary(path, unfinished) !== null)
          continue;
        if (!(await this.#isHome(file)) && this.#growing.moves(file, before.get(path))) moving.push(file);
      }
      before = new Map(listing.map((file) => [file.path, file]));
      await this.#follow(host, moving, options);
    }
  }

  async #keepSets(listing: readonly RemoteFile[], options: OneScan): Promise<void> {
    const stale = await this.#sets.keep(listing, (file) => this.#isHome(file));
    const removed = (await this.#retention?.apply(listing, (file) => this.#isHome(file))) ?? [];
    await this.#record([], options, [...stale, ...removed]);
  }

  /** What is at home by now, whichever process and scan brought it. */
  atHome(): Promise<CheckpointFile[]> {
    return readCheckpoints(this.#targetDir);
  }

  /** Which files are ready, which may become so, which never will. Remembers what was seen, for K1. */
  async #sort(listing: RemoteFile[], { final, announced }: OneScan) {
    const now = this.#now();
    const told = new Set([...announced].map(plainName));
    const unfinished = unfinishedFolders(listing);
    const seen = new Map<string, Seen>();
    const ready: RemoteFile[] = [];
    const pending: string[] = [];
    const skipped: ScanResult["skipped"] = [];
    const found: CheckpointFile[] = [];
    const moving: RemoteFile[] = [];
    this.#retention?.saw(listing);
    for (const file of listing) {
      const bad = whyRefused(file);
      if (bad !== null) {
        skipped.push({ path: printable(file.path), why: bad });
        continue;
      }
      // Our own bookkeeping: the index of announced checkpoints.
      if (file.path.split("/").some(isOurs)) continue;
      if (this.#isGiven(file) || this.#retention?.isDropped(file)) continue;
      const before = this.#seen.get(file.path);
      const entry = before !== undefined && same(before.file, file) ? before : { file, sinceMs: now };
      seen.set(file.path, entry);
      const settled = now - entry.sinceMs >= SETTLE_MS;
      const temporary = whyTemporary(file.path, unfinished) ?? whyTemporary(file.leadsTo ?? "", unfinished);
      if (temporary !== null) {
        if (final || settled) skipped.push({ path: file.path, why: temporary });
        else pending.push(file.path);
      } else if (await this.#isHome(file)) {
        if (!this.#recorded.has(file.path)) found.push(asRecord(file.path, file.size, file.mtimeMs));
      } else if (final || settled || isAnnounced(file.path, told)) {
        ready.push(file);
      } else {
        pending.push(file.path);
        if (this.#growing.moves(file, before?.file)) moving.push(file);
      }
    }
    this.#seen = seen;
    return { ready, pending, skipped, found, moving };
  }

  /** Fetches beside, looks again, and lets those into place that did not change meanwhile. */
  async #fetchAll(host: CheckpointHost, files: RemoteFile[], options: OneScan) {
    const { signal } = options;
    const saved: CheckpointFile[] = [];
    const moved: string[] = [];
    const refused: ScanResult["skipped"] = [];
    const noRoom: NoRoom[] = [];
    const staged = new Map<RemoteFile, string>();
    /** What had come while they were being written is all of them. */
    const verified = new Set<RemoteFile>();
    const began = this.#now();
    let failure: unknown;
    let isHopeless = false;
    const fetch = async (file: RemoteFile): Promise<void> => {
      const beside = join(this.#targetDir, STAGING, nameBeside(file));
      try {
        if (await this.#growing.isWhole(host, file, signal)) {
          verified.add(file);
          return;
        }
        const isHere = (await isBeside(beside, file)) || (await this.#copyAtHome(file, beside));
        const lack = isHere ? null : await lacksRoom(this.#targetDir, file, await stillToCome(file, beside));
        if (lack) noRoom.push(lack);
        else if (isHere || (await fetchOne(host, file, beside, signal))) staged.set(file, beside);
        else moved.push(file.path);
      } catch (cause) {
        await rm(beside, { force: true }).catch(() => undefined);
        if (isDiskFull(cause)) {
          noRoom.push(await hadNoRoom(this.#targetDir, file));
          return;
        }
        const unreadable = cause instanceof UnreadableFile;
        if (unreadable && !options.final) {
          refused.push({ path: file.path, why: cause.data.why });
          return;
        }
        failure ??= cause;
        // A file that cannot be read leaves the others; any other failure would only come again.
        isHopeless ||= !unreadable;
      }
    };
    const mayGoOn = (): boolean =>
      !signal.aborted && !isHopeless && (staged.size + verified.size === 0 || this.#now() - began < BATCH_MS);
    try {
      const begun = await fetchMany(files, mayGoOn, fetch);
      signal.throwIfAborted();
      const after = await host.listCheckpoints(signal);
      const now = new Map(after.map((file) => [file.path, file]));
      const folders = new Set<string>();
      const removed: string[] = [];
      for (const file of files) {
        const beside = staged.get(file);
        if (beside === undefined && !verified.has(file)) continue;
        const current = now.get(file.path);
        if (current === undefined || !same(current, file)) {
          moved.push(file.path);
          continue;
        }
        if (beside === undefined) {
          saved.push(asRecord(file.path, file.size, file.mtimeMs));
          continue;
        }
        await placeFile(this.#targetDir, file.path, beside, { folders, removed });
        saved.push(asRecord(file.path, file.size, file.mtimeMs));
      }
      await this.#growing.rests(saved.map(({ path }) => path));
      for (const folder of folders) if ((await lstat(folder).catch(nullIfMissing)) !== null) await flushFolder(folder);
      await this.#record(saved, options, removed);
      // Now, not at the end of the scan: the machine may be lost while the next one comes.
      await this.#keepSets(after, options);
      if (failure !== undefined) throw failure;
      // A file that vanished is no loss of ours: rotation removed it.
      return { saved, moved: moved.filter((path) => now.has(path)), refused, noRoom, after, rest: files.slice(begun) };
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
  }

  /** K5. Whether it could be. */
  async #copyAtHome({ leadsTo, ...file }: RemoteFile, beside: string): Promise<boolean> {
    if (leadsTo === undefined || !(await this.#isHome({ ...file, path: leadsTo }))) return false;
    // What is at home is replaced, never written to: a second name of it costs nothing.
    await linkOrCopy(join(this.#targetDir, leadsTo), beside);
    return await asListed(file, beside);
  }

  /** Of files that are still listed as they were, whatever has come stays: whole or a part. */
  async #clearStaging(listing: readonly RemoteFile[]): Promise<void> {
    const staging = join(this.#targetDir, STAGING);
    const names = await readdir(staging);
    if (names.length === 0) return;
    const kept = new Set(listing.map(nameBeside));
    for (const name of names)
      if (!kept.has(name.slice(0, NAME_CHARS))) await rm(join(staging, name), { recursive: true, force: true });
  }

  async #record(files: CheckpointFile[], options: OneScan, removed: readonly string[] = []): Promise<void> {
    if (files.length + removed.length === 0) return;
    const saved = new Set(files.map(({ path }) => path));
    const gone = removed.filter((path) => !saved.has(path));
    await options.record?.(files, gone);
    for (const path of gone) this.#recorded.delete(path);
    for (const { path, in_progress } of files) if (!in_progress) this.#recorded.add(path);
  }

  /** K4. Not every way of sending keeps more of a time than its seconds. */
  #isGiven(file: RemoteFile): boolean {
    const given = this.#given.get(file.path);
    return given !== undefined && given.size === file.size && Math.abs(given.mtime_ms - file.mtimeMs) < 1_000;
  }

  /** K4 */
  async #isHome(file: RemoteFile): Promise<boolean> {
    return !this.#growing.has(file.path) && isCopyOf(file, await homeStats(this.#targetDir, file.path));
  }

  /** Names whose files are all at home have done their work. */
  #retire(announced: Set<string>, { pending, skipped }: ScanResult): void {
    const left = new Set([...pending, ...skipped.map((s) => s.path)].flatMap(placesOf));
    for (const name of announced) if (!left.has(plainName(name))) announced.delete(name);
  }

  /** Once per process: the folder, and an empty place beside, whatever an earlier process left there. */
  async #prepare(): Promise<void> {
    if (this.#prepared) return;
    const staging = join(this.#targetDir, STAGING);
    try {
      await mkdir(this.#targetDir, { recursive: true, mode: 0o700 });
      // A link planted in its place would have strangers' files written, and a folder emptied, wherever it leads.
      if (!(await lstat(this.#targetDir)).isDirectory())
        throw new SvcError("start_failed", { why: `${this.#targetDir} is a link` });
      await rm(staging, { recursive: true, force: true });
      await mkdir(staging, { mode: 0o700 });
      await this.#sets.prepare();
      await this.#growing.prepare();
      await this.#retention?.prepare();
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
    this.#prepared = true;
  }
}

/** What comes of a scan; the signal of whoever waits for it ends it. */
async function unlessAborted(
  { over, controller }: { over: Promise<ScanResult>; controller: AbortController },
  signal: AbortSignal | undefined,
): Promise<ScanResult> {
  const end = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) end();
  signal?.addEventListener("abort", end, { once: true });
  try {
    return await over;
  } finally {
    signal?.removeEventListener("abort", end);
  }
}
