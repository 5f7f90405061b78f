// Downloads checkpoints. The machine is not trusted, the script may be writing, and either end may vanish at any
// moment.
//
// K1. During a run a file is downloaded when size, mtime and inode were the same in two scans at least SETTLE_MS apart,
//     or when the script announced it as complete. A file with a name for unfinished files is never downloaded,
//     announced or not. An unreadable file is reported, and the next scan tries it again.
// K2. At the end everything that is complete is downloaded; other files are reported, with the reason.
// K3. A file is downloaded to `.svc-partial/`, compared with a fresh listing, flushed, and renamed: a file under its
//     real name is complete. If it changed meanwhile it is left for a later scan. A download that a broken link
//     interrupts, or keeps from being compared, stays there for as long as the machine lists that very file, and this
//     process does not download it again.
// K4. A local copy has the original's mtime. With the same size and mtime it is not downloaded again, not even by a new
//     process. The same holds for the checkpoint from which the run resumed, until the run overwrites it (given-files.ts).
//     Scans run one after the other: the next scan continues a half-finished download, whichever step started it.
// K5. A symlink to a plain file of the same directory becomes a separate local file, copied from the target if that was
//     downloaded. Any other symlink is reported like other skipped files.
// K7. A file that keeps changing is downloaded anyway (growing-files.ts), and is marked as in progress: it has its name
//     locally, but does not count as complete until K1 or K2 find it complete.
// K8. A file that does not fit on the local disk is reported with its size, and does not prevent other downloads. At
//     the end the scan fails with `disk_full` so that it is tried again, unless the file is larger than the whole disk.
// K6. Paths are untrusted data: relative, plain, bounded; no local symlink is followed. Files are 0600, folders 0700.

import type { Unfetched } from "../../domain/budget.ts";
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
import { announcedIn, isAsAnnounced } from "./announcements.ts";
import type { CheckpointScan, ScanResult } from "./scan.ts";
import { UnfinishedFiles, type Evidence } from "./unfinished-files.ts";
import { placesOf, plainName, printable, unfinishedFolders, whyRefused, whyTemporary } from "./names.ts";
import { CheckpointSets, NOTHING_COMPLETE, type KnownComplete, type SetsOptions } from "./sets.ts";
import { GivenFiles, type GivenFile } from "./given-files.ts";
import type { HomeFolder } from "./kept-apart.ts";
import { EarlierFiles } from "./earlier-files.ts";
import { GrowingFiles } from "./growing-files.ts";
import { hadNoRoom, lacksRoom, noRoomYet, whyNoRoom, type NoRoom } from "./room.ts";
import { Retention, type KeepRules } from "./retention.ts";
import type { CheckpointHost } from "./home-names.ts";
import { UnfetchedMeter } from "./unfetched.ts";
import { unlessAborted } from "./unless-aborted.ts";

export const SETTLE_MS = 10_000;
/** Downloads are verified and moved into place this often: a process that ends, or a link that breaks, costs no more than this. */
const BATCH_MS = 5_000;
/** How often the last scan retries files that changed during their download. */
const FINAL_PASSES_MAX = 3;

type OneScan = CheckpointScan & { signal: AbortSignal };

interface Seen {
  file: RemoteFile;
  sinceMs: number;
}

/** Collects the checkpoints of one node into one folder. */
export class CheckpointCollector {
  readonly #targetDir: string;
  readonly home: HomeFolder;
  readonly #now: () => number;
  readonly #followEveryMs: number;
  readonly #given: GivenFiles;
  readonly #earlier: EarlierFiles;
  #seen = new Map<string, Seen>();
  /** Paths that this process has recorded. */
  readonly #recorded = new Set<string>();
  readonly #sets: CheckpointSets;
  readonly #growing: GrowingFiles;
  readonly #unfinished = new UnfinishedFiles();
  readonly #retention: Retention | null;
  readonly #meter: UnfetchedMeter;
  #prepared = false;
  /** From before the last listing of the scan. */
  #known: KnownComplete = NOTHING_COMPLETE;
  /** The running scan. */
  #scan: { over: Promise<ScanResult>; controller: AbortController } | null = null;
  #stopped = false;

  /**
   * @param options.now milliseconds on a clock that never goes back.
   * @param options.given the checkpoint from which the run resumed: not its own.
   * @param options.announced the names that the script has announced so far.
   */
  constructor(options: {
    targetDir: string;
    now: () => number;
    given?: readonly GivenFile[];
    announced?: SetsOptions["announced"];
    /** Absent for a run on one node. */
    place?: SetsOptions["place"];
    placements?: SetsOptions["placements"];
    /** The rules for keeping complete checkpoints; absent: keep all. */
    keep?: KeepRules | undefined;
    /** How often growing files are read while a large file is downloaded. */
    followEveryMs?: number;
    /** Receives what is not downloaded yet. */
    unfetched?: (seen: Unfetched) => void;
  }) {
    this.#targetDir = options.targetDir;
    this.home = { folder: options.targetDir, others: options.place?.node === 0 ? options.place.nodes - 1 : 0 };
    this.#now = options.now;
    this.#followEveryMs = options.followEveryMs ?? SETTLE_MS;
    this.#given = new GivenFiles(options.targetDir, options.given ?? [], options.place);
    const announced = options.announced ?? (() => Promise.resolve(announcedIn("")));
    this.#sets = new CheckpointSets({
      ...options,
      announced,
      given: this.#given,
      hasRules: options.keep !== undefined,
    });
    this.#earlier = new EarlierFiles(options, this.#given, this.#sets);
    this.#growing = new GrowingFiles({ ...options, sets: this.#sets, earlier: this.#earlier });
    this.#meter = new UnfetchedMeter(options.now, options.unfetched);
    this.#retention = options.keep ? new Retention(options.targetDir, options.keep, this.#sets) : null;
  }

  /**
   * Scans the checkpoint directory once and downloads the files that are ready. Safe to repeat after any failure:
   * downloaded files stay. Throws the host's errors, and `disk_full`.
   */
  async scan(host: CheckpointHost, options: CheckpointScan): Promise<ScanResult> {
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

  /** Ends the running scan, and all that are still requested. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#scan?.controller.abort(new SvcError("shutting_down", {}));
    await this.#scan?.over.catch(() => undefined);
  }

  async #scanOnce(host: CheckpointHost, options: OneScan): Promise<ScanResult> {
    await this.#prepare();
    const result: ScanResult = { saved: [], pending: [], skipped: [], noRoom: [], torn: [] };
    let listing = await this.#list(host, options);
    let isOver = false;
    try {
      for (let pass = 1; ; pass++) {
        const { ready, pending, skipped, found, moving } = await this.#sort(listing, options);
        this.#meter.found(listing, ready, pending);
        await this.#record(found, options);
        result.noRoom = await this.#follow(host, moving, options);
        result.skipped = skipped;
        result.pending = pending;
        const moved: string[] = [];
        // Symlinks last: their targets are downloaded by then.
        const [links, files] = [ready.filter(isLink), ready.filter((file) => !isLink(file))];
        const waiting = [...batches(files), ...batches(links)];
        for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
          const busy = new Set([batch, ...waiting].flat().map(({ path }) => path));
          const fetched = await this.#whileFollowing(host, options, busy, () => this.#fetchAll(host, batch, options));
          if (fetched.rest.length > 0) waiting.unshift(fetched.rest);
          result.saved.push(...fetched.saved);
          this.#meter.fetched(fetched.saved);
          result.skipped.push(...fetched.refused);
          result.noRoom.push(...fetched.noRoom);
          result.pending.push(...fetched.moved);
          moved.push(...fetched.moved);
          [listing, result.torn] = [fetched.after, fetched.torn];
        }
        if (ready.length === 0) result.torn = await this.#keepSets(listing, options);
        if (options.final && moved.length > 0 && pass < FINAL_PASSES_MAX) continue;
        // K8. Space may still become free for it.
        const full = options.final ? noRoomYet(this.#targetDir, result.noRoom) : undefined;
        if (full) throw full;
        result.skipped.push(...result.noRoom.map((lack) => ({ path: lack.path, why: whyNoRoom(lack) })));
        if (options.final) {
          result.skipped.push(...result.pending.map((path) => ({ path, why: "it kept changing while it was copied" })));
          result.pending = [];
        }
        result.torn.push(...this.#unfinished.among(listing));
        if (options.final) await this.#sets.keepFinal(listing, (file) => this.#isHome(file));
        this.#retire(options.announced, result);
        isOver = options.final;
        return result;
      }
    } finally {
      await this.#clearStaging(isOver ? [] : listing);
    }
  }

  async #list(host: CheckpointHost, { signal, announced, final }: OneScan): Promise<RemoteFile[]> {
    const known = await this.#sets.knownComplete();
    const names = [...known.announced.keys(), ...known.ofNode0.keys(), ...[...announced].map(plainName)].toReversed();
    const listing = this.#given.ofNode(await host.listCheckpoints(signal, names));
    this.#known = known;
    await this.#saw(listing, known, !final);
    return listing;
  }

  async #saw(listing: readonly RemoteFile[], known: KnownComplete, isRunning: boolean): Promise<void> {
    this.#unfinished.saw(listing, known.announced);
    await this.#sets.saw(listing, known, isRunning);
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

  /** A large file may take an hour: growing files are downloaded meanwhile. */
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

  /** Runs until the signal. The scan itself reports any failure. @param busy paths that the scan downloads itself. */
  async #keepFollowing(host: CheckpointHost, options: OneScan, busy: ReadonlySet<string>): Promise<void> {
    let before = new Map([...this.#seen].map(([path, { file }]) => [path, file]));
    for (;;) {
      await pause(this.#followEveryMs, undefined, { signal: options.signal });
      const known = await this.#sets.knownComplete();
      const listing = this.#given.ofNode(await host.listCheckpoints(options.signal));
      await this.#saw(listing, known, true);
      const unfinished = unfinishedFolders(listing);
      const moving: RemoteFile[] = [];
      for (const file of listing) {
        const { path } = file;
        if (busy.has(path) || whyRefused(file) !== null || path.split("/").some(isOurs)) continue;
        if (this.#given.has(file) || this.#retention?.isDropped(file) || whyTemporary(path, unfinished) !== null)
          continue;
        if (!(await this.#isHome(file)) && this.#growing.moves(file, before.get(path))) moving.push(file);
      }
      before = new Map(listing.map((file) => [file.path, file]));
      await this.#follow(host, moving, options);
    }
  }

  /** Returns the names that are torn. */
  async #keepSets(listing: readonly RemoteFile[], { hasSucceeded = false, ...options }: OneScan): Promise<string[]> {
    const isDropped = (file: RemoteFile): boolean => this.#retention?.isDropped(file) === true;
    const isHome = (file: RemoteFile): Promise<boolean> => this.#isHome(file);
    const script = { hasSucceeded, restedMs: (file: RemoteFile) => this.#restedMs(file, this.#seen) };
    const { stale, linked, torn } = await this.#sets.keep(listing, isHome, this.#known, isDropped, script);
    await this.#growing.rests(linked.map(({ path }) => path));
    const removed = (await this.#retention?.apply(listing, isHome)) ?? [];
    await this.#record(linked, options, [...stale, ...removed]);
    return torn;
  }

  /** The local files, from every process and scan. */
  atHome(): Promise<CheckpointFile[]> {
    return readCheckpoints(this.#targetDir);
  }

  /** Sorts files into ready, pending and refused ones. Remembers what it saw, for K1. */
  async #sort(listing: RemoteFile[], options: OneScan) {
    const { final, announced } = options;
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
        skipped.push({ path: printable(file.path), why: bad, isLimit: file.isLimit, others: file.others });
        continue;
      }
      // svc's own bookkeeping: the index of announced checkpoints.
      if (file.path.split("/").some(isOurs)) continue;
      if (this.#retention?.isDropped(file)) continue;
      // One that is part of a kept set is recorded like the others.
      if (this.#given.has(file) && !(await this.#isHome(file))) continue;
      const before = this.#seen.get(file.path);
      const entry = before !== undefined && same(before.file, file) ? before : { file, sinceMs: now };
      seen.set(file.path, entry);
      const settled = now - entry.sinceMs >= SETTLE_MS;
      const temporary = whyTemporary(file.path, unfinished) ?? whyTemporary(file.leadsTo ?? "", unfinished);
      if (temporary !== null) {
        if (final || settled) skipped.push({ path: file.path, why: temporary });
        else pending.push(file.path);
      } else if (this.#unfinished.has(file, this.#evidence(file, seen, options))) {
        // The download is as listed.
      } else if (await this.#isHome(file)) {
        if (!this.#recorded.has(file.path)) found.push(asRecord(file.path, file.size, file.mtimeMs));
      } else if (final || settled || isAsAnnounced(file, told, this.#known.announcedAt)) {
        ready.push(file);
      } else {
        pending.push(file.path);
        if (this.#growing.moves(file, before?.file)) moving.push(file);
      }
    }
    this.#seen = seen;
    return { ready, pending, skipped, found, moving };
  }

  #restedMs(file: RemoteFile, seen: ReadonlyMap<string, Seen>): number {
    const entry = seen.get(file.path);
    return entry !== undefined && same(entry.file, file) ? this.#now() - entry.sinceMs : 0;
  }

  #evidence(file: RemoteFile, seen: ReadonlyMap<string, Seen>, { final, hasSucceeded = false }: OneScan): Evidence {
    const announcedAt = this.#known.announcedAt.get(file.path);
    const isAnnouncedEarlier = this.#known.announcedEarlier.has(file.path);
    return { announcedAt, isAnnouncedEarlier, restedMs: this.#restedMs(file, seen), hasEnded: final, hasSucceeded };
  }

  /** Downloads to the staging folder, lists again, and moves files into place that did not change meanwhile. */
  async #fetchAll(host: CheckpointHost, files: RemoteFile[], options: OneScan) {
    const { signal } = options;
    const saved: CheckpointFile[] = [];
    const moved: string[] = [];
    const refused: ScanResult["skipped"] = [];
    const noRoom: NoRoom[] = [];
    const staged = new Map<RemoteFile, string>();
    /** Announcements that arrived during the writing are complete. */
    const verified = new Set<RemoteFile>();
    const began = this.#now();
    let failure: unknown;
    let isHopeless = false;
    const fetch = async (file: RemoteFile): Promise<void> => {
      const beside = join(this.#targetDir, STAGING, nameBeside(file));
      try {
        if (await this.#growing.isWhole(host, file, signal)) return void verified.add(file);
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
          refused.push({ path: file.path, why: cause.data.why, again: true });
          return;
        }
        failure ??= cause;
        // An unreadable file does not affect the others; any other failure would only repeat.
        isHopeless ||= !unreadable;
      }
    };
    const mayGoOn = (): boolean =>
      !signal.aborted && !isHopeless && (staged.size + verified.size === 0 || this.#now() - began < BATCH_MS);
    try {
      const begun = await fetchMany(files, mayGoOn, fetch);
      signal.throwIfAborted();
      const after = await this.#list(host, options);
      const now = new Map(after.map((file) => [file.path, file]));
      const folders = new Set<string>();
      const [removed, kept]: [string[], CheckpointFile[]] = [[], []];
      for (const file of files) {
        const beside = staged.get(file);
        if (beside === undefined && !verified.has(file)) continue;
        const current = now.get(file.path);
        if (current === undefined || !same(current, file)) {
          moved.push(file.path);
          continue;
        }
        const evidence = this.#evidence(file, this.#seen, options);
        const isUnfinished = await this.#unfinished.finds(file, beside ?? join(this.#targetDir, file.path), evidence);
        if (isUnfinished) await this.#growing.begins(file);
        if (beside !== undefined) {
          kept.push(...(await this.#earlier.keep(file.path, beside)));
          await placeFile(this.#targetDir, file.path, beside, { folders, removed });
        }
        const record = asRecord(file.path, file.size, file.mtimeMs);
        saved.push(isUnfinished ? { ...record, in_progress: true } : record);
      }
      await this.#growing.rests(saved.flatMap(({ path, in_progress }) => (in_progress ? [] : [path])));
      for (const folder of folders) if ((await lstat(folder).catch(nullIfMissing)) !== null) await flushFolder(folder);
      await this.#record([...kept, ...saved], options, removed);
      // Now, not at the end of the scan: the machine may be lost during the next download.
      const torn = await this.#keepSets(after, options);
      if (failure !== undefined) throw failure;
      // A file that vanished does not count as lost: rotation removed it.
      const left = moved.filter((path) => now.has(path));
      return { saved, moved: left, refused, noRoom, torn, after, rest: files.slice(begun) };
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
  }

  /** K5. Returns whether it could be copied. */
  async #copyAtHome({ leadsTo, ...file }: RemoteFile, beside: string): Promise<boolean> {
    if (leadsTo === undefined || !(await this.#isHome({ ...file, path: leadsTo }))) return false;
    // Local files are replaced, never modified: a hard link costs nothing.
    await linkOrCopy(join(this.#targetDir, leadsTo), beside);
    return await asListed(file, beside);
  }

  /** Partial and complete downloads stay for files that are still listed unchanged. */
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

  /** K4 */
  async #isHome(file: RemoteFile): Promise<boolean> {
    return !this.#growing.has(file.path) && isCopyOf(file, await homeStats(this.#targetDir, file.path));
  }

  /** Removes names whose files were all downloaded. */
  #retire(announced: Set<string>, { pending, skipped }: ScanResult): void {
    const left = new Set([...pending, ...skipped.map((s) => s.path)].flatMap(placesOf));
    for (const name of announced) if (!left.has(plainName(name))) announced.delete(name);
  }

  /** Once per process: creates the folder, and an empty staging folder, whatever an earlier process left there. */
  async #prepare(): Promise<void> {
    if (this.#prepared) return;
    const staging = join(this.#targetDir, STAGING);
    try {
      await mkdir(this.#targetDir, { recursive: true, mode: 0o700 });
      // A symlink planted in its place would write a stranger's files to its target, and empty a folder there.
      if (!(await lstat(this.#targetDir)).isDirectory())
        throw new SvcError("start_failed", { why: `${this.#targetDir} is a link` });
      await rm(staging, { recursive: true, force: true });
      await mkdir(staging, { mode: 0o700 });
      await this.#given.prepare();
      await this.#sets.prepare();
      await this.#growing.prepare();
      await this.#retention?.prepare();
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
    this.#prepared = true;
  }
}
