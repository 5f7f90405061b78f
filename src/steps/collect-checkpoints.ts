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
// K6. Paths are data from a stranger: relative, plain, bounded; no link at home is followed. Files are 0600, folders 0700.

import { hash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { copyFile, link, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isDiskFull, isMissing, nullIfMissing, orDiskFull, SvcError, UnreadableFile } from "../errors/index.ts";
import type { RemoteFile } from "../providers/host.ts";
import type { CheckpointFile } from "../schemas/job.ts";
import {
  DEPTH_MAX,
  isAnnounced,
  placesOf,
  plainName,
  printable,
  unfinishedFolders,
  whyRefused,
  whyTemporary,
} from "./checkpoint-names.ts";
import type { CheckpointHost } from "./hidden-names.ts";

export const SETTLE_MS = 10_000;
const STAGING = ".svc-partial";
const NAME_CHARS = 24;
const BATCH_BYTES = 1024 ** 3;
/**
 * A small file is a question, an answer and a wait for the disk, however little it holds: so many are under way at once. On a slow line
 * the log must not have to wait for more than so many bytes.
 */
const AT_ONCE = 48;
const AT_ONCE_BYTES = 1 << 20;
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
   */
  record?: (files: CheckpointFile[]) => Promise<void>;
}

type OneScan = ScanOptions & { signal: AbortSignal };

export interface ScanResult {
  /** Fetched by this scan. */
  saved: CheckpointFile[];
  /** Not at home yet and still in motion: a later scan may take them. */
  pending: string[];
  /** Not taken, and why. */
  skipped: { path: string; why: string }[];
}

interface Seen {
  file: RemoteFile;
  sinceMs: number;
}

/** Collects the checkpoints of one node into one folder. */
export class CheckpointCollector {
  readonly #targetDir: string;
  readonly #now: () => number;
  readonly #given: ReadonlyMap<string, { size: number; mtime_ms: number }>;
  #seen = new Map<string, Seen>();
  /** Paths that this process has recorded. */
  readonly #recorded = new Set<string>();
  #prepared = false;
  /** The scan that is under way. */
  #scan: { over: Promise<ScanResult>; controller: AbortController } | null = null;
  #stopped = false;

  /**
   * @param options.now milliseconds that never go back.
   * @param options.given what the run was given to go on from: no checkpoints of its own.
   */
  constructor(options: {
    targetDir: string;
    now: () => number;
    given?: readonly { path: string; size: number; mtime_ms: number }[];
  }) {
    this.#targetDir = options.targetDir;
    this.#now = options.now;
    this.#given = new Map(options.given?.map((file) => [file.path, file]));
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
    const result: ScanResult = { saved: [], pending: [], skipped: [] };
    let listing = await host.listCheckpoints(options.signal);
    let isOver = false;
    try {
      for (let pass = 1; ; pass++) {
        const { ready, pending, skipped, found } = await this.#sort(listing, options);
        await this.#record(found, options);
        result.skipped = skipped;
        result.pending = pending;
        const moved: string[] = [];
        // Links last: what they lead to is at home then.
        const [links, files] = [ready.filter(isLink), ready.filter((file) => !isLink(file))];
        const waiting = [...batches(files), ...batches(links)];
        for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
          const fetched = await this.#fetchAll(host, batch, options);
          if (fetched.rest.length > 0) waiting.unshift(fetched.rest);
          result.saved.push(...fetched.saved);
          result.skipped.push(...fetched.refused);
          result.pending.push(...fetched.moved);
          moved.push(...fetched.moved);
          listing = fetched.after;
        }
        if (options.final && moved.length > 0 && pass < FINAL_PASSES_MAX) continue;
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
    for (const file of listing) {
      const bad = whyRefused(file);
      if (bad !== null) {
        skipped.push({ path: printable(file.path), why: bad });
        continue;
      }
      // Our own bookkeeping: the index of announced checkpoints.
      if (file.path.split("/").some((name) => name.startsWith(".svc-"))) continue;
      if (this.#isGiven(file)) continue;
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
      }
    }
    this.#seen = seen;
    return { ready, pending, skipped, found };
  }

  /** Fetches beside, looks again, and lets those into place that did not change meanwhile. */
  async #fetchAll(host: CheckpointHost, files: RemoteFile[], options: OneScan) {
    const { signal } = options;
    const saved: CheckpointFile[] = [];
    const moved: string[] = [];
    const refused: ScanResult["skipped"] = [];
    const staged = new Map<RemoteFile, string>();
    const began = this.#now();
    let failure: unknown;
    let isHopeless = false;
    const fetch = async (file: RemoteFile): Promise<void> => {
      const beside = join(this.#targetDir, STAGING, nameBeside(file));
      try {
        const isHere = (await isBeside(beside, file)) || (await this.#copyAtHome(file, beside));
        if (isHere || (await fetchOne(host, file, beside, signal))) staged.set(file, beside);
        else moved.push(file.path);
      } catch (cause) {
        await rm(beside, { force: true }).catch(() => undefined);
        const unreadable = cause instanceof UnreadableFile;
        if (unreadable && !options.final) {
          refused.push({ path: file.path, why: cause.data.why });
          return;
        }
        failure ??= cause;
        // What is too large for this disk, or cannot be read, leaves the others; any other failure would only come again.
        isHopeless ||= !isDiskFull(cause) && !unreadable;
      }
    };
    const mayGoOn = (): boolean =>
      !signal.aborted && !isHopeless && (staged.size === 0 || this.#now() - began < BATCH_MS);
    try {
      const begun = await fetchMany(files, mayGoOn, fetch);
      signal.throwIfAborted();
      const after = await host.listCheckpoints(signal);
      const now = new Map(after.map((file) => [file.path, file]));
      const folders = new Set<string>();
      for (const file of files) {
        const beside = staged.get(file);
        if (beside === undefined) continue;
        const current = now.get(file.path);
        if (current === undefined || !same(current, file)) {
          moved.push(file.path);
          continue;
        }
        const why = await this.#place(file, beside, folders);
        if (why === null) saved.push(asRecord(file.path, file.size, file.mtimeMs));
        else refused.push({ path: file.path, why });
      }
      for (const folder of folders) await flushFolder(folder);
      await this.#record(saved, options);
      if (failure !== undefined) throw failure;
      // A file that vanished is no loss of ours: rotation removed it.
      return { saved, moved: moved.filter((path) => now.has(path)), refused, after, rest: files.slice(begun) };
    } catch (cause) {
      throw orDiskFull(cause, this.#targetDir);
    }
  }

  /** K5. Whether it could be. */
  async #copyAtHome({ leadsTo, ...file }: RemoteFile, beside: string): Promise<boolean> {
    if (leadsTo === undefined || !(await this.#isHome({ ...file, path: leadsTo }))) return false;
    const there = join(this.#targetDir, leadsTo);
    // What is at home is replaced, never written to: a second name of it costs nothing. Not every file system has such names.
    await link(there, beside).catch(() => copyFile(there, beside, constants.COPYFILE_FICLONE));
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

  async #record(files: CheckpointFile[], options: OneScan): Promise<void> {
    if (files.length === 0) return;
    await options.record?.(files);
    for (const { path } of files) this.#recorded.add(path);
  }

  /** Renames into place. A reason where something that is no folder, or no file, is in the way. */
  async #place(file: RemoteFile, beside: string, folders: Set<string>): Promise<string | null> {
    const names = file.path.split("/");
    let folder = this.#targetDir;
    for (const name of names.slice(0, -1)) {
      folders.add(folder);
      folder = join(folder, name);
      await mkdir(folder, { mode: 0o700 }).catch(unless("EEXIST"));
      if (!(await lstat(folder)).isDirectory()) return "a file of the same name as one of its folders was saved before";
    }
    folders.add(folder);
    const target = join(folder, names.at(-1)!);
    const there = await lstat(target).catch(nullIfMissing);
    if (there?.isDirectory()) return "a folder of the same name was saved before";
    await rename(beside, target);
    return null;
  }

  /** K4. Not every way of sending keeps more of a time than its seconds. */
  #isGiven(file: RemoteFile): boolean {
    const given = this.#given.get(file.path);
    return given !== undefined && given.size === file.size && Math.abs(given.mtime_ms - file.mtimeMs) < 1_000;
  }

  /** K4 */
  async #isHome(file: RemoteFile): Promise<boolean> {
    const stats = await this.#homeStats(file.path);
    return isCopyOf(file, stats);
  }

  async #homeStats(path: string) {
    const names = path.split("/");
    for (let i = 1; i < names.length; i++) {
      const folder = await lstat(join(this.#targetDir, ...names.slice(0, i))).catch(nullIfMissing);
      if (!folder?.isDirectory()) return null;
    }
    return lstat(join(this.#targetDir, path)).catch(nullIfMissing);
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

/** In order, many small ones at once. How many were begun. @param fetch never throws */
async function fetchMany(
  files: readonly RemoteFile[],
  mayGoOn: () => boolean,
  fetch: (file: RemoteFile) => Promise<void>,
): Promise<number> {
  const flying = new Set<Promise<void>>();
  let [begun, bytes] = [0, 0];
  for (const file of files) {
    while (flying.size > 0 && (flying.size >= AT_ONCE || bytes + file.size > AT_ONCE_BYTES)) await Promise.race(flying);
    if (!mayGoOn()) break;
    begun++;
    bytes += file.size;
    const one = fetch(file).then(() => {
      flying.delete(one);
      bytes -= file.size;
    });
    flying.add(one);
  }
  await Promise.all(flying);
  return begun;
}

/** Small files first, so that none waits for a huge one or is lost with it; each batch costs one more listing. */
function batches(files: RemoteFile[]): RemoteFile[][] {
  const cut: RemoteFile[][] = [];
  let bytes = Infinity;
  for (const file of files.toSorted((a, b) => a.size - b.size)) {
    if (bytes + file.size > BATCH_BYTES) {
      cut.push([]);
      bytes = 0;
    }
    cut.at(-1)!.push(file);
    bytes += file.size;
  }
  return cut;
}

/** The checkpoints at home, in order of path: plain files only, links not followed. */
export async function readCheckpoints(targetDir: string): Promise<CheckpointFile[]> {
  const files: CheckpointFile[] = [];
  const walk = async (path: string, depth: number): Promise<void> => {
    const entries = await readdir(join(targetDir, path), { withFileTypes: true }).catch(unless("ENOENT"));
    for (const entry of entries ?? []) {
      if (path === "" && entry.name === STAGING) continue;
      const inside = path === "" ? entry.name : `${path}/${entry.name}`;
      const stats = await lstat(join(targetDir, inside)).catch(nullIfMissing);
      if (stats?.isDirectory() && depth < DEPTH_MAX) await walk(inside, depth + 1);
      else if (stats?.isFile()) files.push(asRecord(inside, stats.size, stats.mtimeMs));
    }
  };
  await walk("", 1);
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** False where the file is gone or is not as long as it was listed. */
async function fetchOne(host: CheckpointHost, file: RemoteFile, beside: string, signal: AbortSignal): Promise<boolean> {
  try {
    await host.fetchCheckpoint(file, beside, signal);
  } catch (cause) {
    if (isMissing(cause) || (cause instanceof SvcError && cause.code === "file_not_found")) return false;
    throw cause;
  }
  return await asListed(file, beside);
}

/** Gives what has come its mode and time, and puts it onto the disk. False where it is not as long as it was listed. */
async function asListed(file: Pick<RemoteFile, "size" | "mtimeMs">, beside: string): Promise<boolean> {
  const stats = await lstat(beside).catch(nullIfMissing);
  if (!stats?.isFile() || stats.size !== file.size) return false;
  const handle = await open(beside, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    await handle.chmod(0o600);
    await handle.utimes(file.mtimeMs / 1_000, file.mtimeMs / 1_000);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return true;
}

const isLink = ({ leadsTo }: RemoteFile): boolean => leadsTo !== undefined;

/** The same for the same content, as far as a listing can tell. */
const nameBeside = ({ path, size, mtimeMs, inode }: RemoteFile): string =>
  hash("sha256", JSON.stringify([path, size, mtimeMs, inode]), "hex").slice(0, NAME_CHARS);

/** It bears this name only once it was whole and on the disk. */
const isBeside = async (beside: string, file: RemoteFile): Promise<boolean> =>
  isCopyOf(file, await lstat(beside).catch(nullIfMissing));

/** Half a millisecond is more than what times lose on their way through a double. */
const isCopyOf = (file: RemoteFile, stats: Stats | null): boolean =>
  stats?.isFile() === true && stats.size === file.size && Math.abs(stats.mtimeMs - file.mtimeMs) < 0.5;

const same = (a: RemoteFile, b: RemoteFile): boolean =>
  a.size === b.size && a.mtimeMs === b.mtimeMs && a.inode === b.inode;

function asRecord(path: string, size: number, mtimeMs: number): CheckpointFile {
  return { path, size, modified_at: new Date(mtimeMs).toISOString() };
}

async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function unless(code: string): (cause: NodeJS.ErrnoException) => undefined {
  return (cause) => {
    if (cause.code !== code) throw cause;
    return undefined;
  };
}
