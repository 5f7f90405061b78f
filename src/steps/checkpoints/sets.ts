// Checkpoints of many files: folders that the script announced, or into which a framework has written its last file.
//
// U1. A set consists of the files that the machine listed in it when it was complete. Once all of them are downloaded,
//     the set is kept by hard links to its files (which cost nothing), and recorded: a run resumes only from a kept
//     set, never from half of one, nor from a mixture of two that were saved under one name.
// U2. It is complete again when it is announced again, or when its last file has changed. Otherwise its files may be
//     half overwritten, or half removed.
// U3. A kept set changes by one rename: the old one is removed once the new one is in place. The local tree has the
//     newest of each file; once a set is complete, its folder holds the files of that set and no others.

import { hash, randomBytes } from "node:crypto";
import { lstat, mkdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { nullIfMissing, orDiskFull } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import { isCopyOf, isOurs, readCheckpoints } from "./files.ts";
import { trackedFolders, TRACKERS } from "./trackers.ts";
import { foldersOf, unfinishedFolders, whyRefused, whyTemporary } from "./names.ts";

/** Next to the local checkpoints of a node: the kept sets, and one file that describes each. */
export const SETS = ".svc-sets";
/**
 * Frameworks mark a complete folder with these files: torch DCP and Megatron, the Trainer of Hugging Face, Orbax,
 * TensorFlow's SavedModel.
 */
export const LAST_WRITTEN = [".metadata", "trainer_state.json", "_CHECKPOINT_METADATA", "saved_model.pb"];
/** TensorFlow's CheckpointManager replaces this file after each save: it names the last prefix of those in its folder. */
export const TF_STATE = "checkpoint";
const TF_INDEX = /\.index$/;
/** The marks among these file names. */
export const marksIn = (names: ReadonlySet<string>): string[] => [
  ...LAST_WRITTEN.filter((mark) => names.has(mark)),
  ...(names.has(TF_STATE) && [...names].some((name) => TF_INDEX.test(name)) ? [TF_STATE] : []),
];

const Kept = z.object({
  name: z.string(),
  /** How often the script had announced it. */
  announced: z.int(),
  /** Folder in SETS with the same tree as the checkpoint directory. */
  folder: z.string().regex(/^[0-9a-f]+-[0-9a-f]+$/),
  files: z.array(z.object({ path: z.string(), size: z.number(), mtime_ms: z.number() })),
});
export type Kept = z.infer<typeof Kept>;

/** For each name, how often the script has announced it. */
export type Announcements = () => Promise<ReadonlyMap<string, number>>;

/** A set's name may contain characters that a file's may not. */
const idOf = (name: string): string => hash("sha256", name, "hex").slice(0, 24);

const fileOf = (targetDir: string, name: string): string => join(targetDir, SETS, `${idOf(name)}.json`);

/** The kept set of this name; null if there is none. */
export async function keptSet(targetDir: string, name: string): Promise<Kept | null> {
  const text = await readFile(fileOf(targetDir, name), "utf8").catch(nullIfMissing);
  const kept = text === null ? null : Kept.safeParse(jsonOf(text));
  return kept?.success && kept.data.name === name ? kept.data : null;
}

/** Whether the program that downloaded the checkpoints kept sets: an older program did not. */
export const knowsSets = async (targetDir: string): Promise<boolean> =>
  (await lstat(join(targetDir, SETS)).catch(nullIfMissing))?.isDirectory() === true;

/** The folder of a kept set's files, by their paths. */
export const rootOf = (targetDir: string, { folder }: Kept): string => join(targetDir, SETS, folder);

/** Keeps the sets of one node. */
export class CheckpointSets {
  readonly #targetDir: string;
  readonly #announced: Announcements;
  readonly #known = new Map<string, Kept | null>();

  constructor(targetDir: string, announced: Announcements) {
    this.#targetDir = targetDir;
    this.#announced = announced;
  }

  async prepare(): Promise<void> {
    await mkdir(join(this.#targetDir, SETS), { recursive: true, mode: 0o700 });
  }

  /**
   * Keeps every set of the listing that is complete (U2) and fully downloaded. Throws `disk_full`.
   * @returns paths of files that only an earlier save under the same name had: they no longer exist locally.
   */
  async keep(listing: readonly RemoteFile[], isHome: (file: RemoteFile) => Promise<boolean>): Promise<string[]> {
    const stale: string[] = [];
    const announced = await this.#announced();
    const tracked = await trackedFolders(this.#targetDir, await trackersAtHome(listing, isHome));
    for (const [name, files] of setsIn(listing, announced, tracked)) {
      const times = announced.get(name) ?? 0;
      if (!isAnew(await this.#keptOf(name), times, name, files)) continue;
      if (!(await areAll(files, isHome))) continue;
      await this.#keep(name, times, files).catch((cause: unknown) => {
        throw orDiskFull(cause, this.#targetDir);
      });
      stale.push(...(await this.#removeStale(name, files)));
    }
    return stale;
  }

  /** U3. */
  async #removeStale(name: string, files: readonly RemoteFile[]): Promise<string[]> {
    const listed = new Set(files.map(({ path }) => path));
    const stale: string[] = [];
    for (const file of await readCheckpoints(join(this.#targetDir, name))) {
      const path = `${name}/${file.path}`;
      if (listed.has(path)) continue;
      await rm(join(this.#targetDir, path), { force: true });
      stale.push(path);
    }
    return stale;
  }

  /** Whether the script has announced it. */
  async isAnnounced(path: string): Promise<boolean> {
    return (await this.#announced()).has(path);
  }

  /** Keeps a complete file under its name before a possibly torn version replaces it. */
  async keepFile(file: RemoteFile): Promise<void> {
    await this.#keptOf(file.path);
    await this.#keep(file.path, 0, [file]);
  }

  /** Drops the copy of `keepFile`: the file itself is complete again. */
  async dropFile(path: string): Promise<void> {
    const kept = await this.#keptOf(path);
    if (kept === null) return;
    await rm(fileOf(this.#targetDir, path), { force: true });
    this.#known.set(path, null);
    await rm(rootOf(this.#targetDir, kept), { recursive: true, force: true });
  }

  async #keptOf(name: string): Promise<Kept | null> {
    let kept = this.#known.get(name);
    if (kept === undefined) this.#known.set(name, (kept = await keptSet(this.#targetDir, name)));
    return kept;
  }

  async #keep(name: string, announced: number, files: readonly RemoteFile[]): Promise<void> {
    const folder = `${idOf(name)}-${randomBytes(6).toString("hex")}`;
    const kept: Kept = {
      name,
      announced,
      folder,
      files: files.map(({ path, size, mtimeMs }) => ({ path, size, mtime_ms: mtimeMs })),
    };
    const root = rootOf(this.#targetDir, kept);
    const before = this.#known.get(name) ?? null;
    for (const file of files) {
      if (await secondName(join(this.#targetDir, file.path), join(root, file.path), file)) continue;
      // A file was removed here: the next scan may find all of it.
      await rm(root, { recursive: true, force: true });
      return;
    }
    replaceFile(fileOf(this.#targetDir, name), JSON.stringify(kept));
    this.#known.set(name, kept);
    if (before !== null) await rm(rootOf(this.#targetDir, before), { recursive: true, force: true });
  }
}

/** Tracker files of the listing that were downloaded. */
async function trackersAtHome(
  listing: readonly RemoteFile[],
  isHome: (file: RemoteFile) => Promise<boolean>,
): Promise<RemoteFile[]> {
  const found: RemoteFile[] = [];
  for (const file of listing)
    if (TRACKERS.has(file.path.slice(file.path.lastIndexOf("/") + 1)) && (await isHome(file))) found.push(file);
  return found;
}

/** The folders of a listing that are sets, with all their files. */
function setsIn(
  listing: readonly RemoteFile[],
  announced: ReadonlyMap<string, number>,
  tracked: ReadonlySet<string>,
): Map<string, RemoteFile[]> {
  const unfinished = unfinishedFolders(listing);
  const names = new Map<string, Set<string>>();
  for (const { path, refused } of listing) {
    const folder = foldersOf(path).at(-1) ?? "";
    if (refused !== undefined) continue;
    const inside = names.get(folder) ?? new Set<string>();
    names.set(folder, inside.add(path.slice(path.lastIndexOf("/") + 1)));
  }
  const marked = new Set(tracked);
  for (const [folder, inside] of names) if (marksIn(inside).length > 0) marked.add(folder);
  const sets = new Map<string, RemoteFile[]>();
  for (const file of listing) {
    if (file.path.split("/").some(isOurs) || whyTemporary(file.path, unfinished) !== null) continue;
    for (const folder of foldersOf(file.path)) {
      if (folder === "" || !(announced.has(folder) || marked.has(folder))) continue;
      const files = sets.get(folder);
      if (files) files.push(file);
      else sets.set(folder, [file]);
    }
  }
  return sets;
}

/** U2. */
function isAnew(kept: Kept | null, announced: number, name: string, files: readonly RemoteFile[]): boolean {
  if (kept === null || announced > kept.announced) return true;
  return [...LAST_WRITTEN, TF_STATE].some((last) => {
    const now = files.find(({ path }) => path === `${name}/${last}`);
    const then = kept.files.find(({ path }) => path === `${name}/${last}`);
    return now !== undefined && (now.size !== then?.size || now.mtimeMs !== then.mtime_ms);
  });
}

/**
 * A file that cannot be downloaded belongs to the checkpoint, too: without it the checkpoint is incomplete. So it is
 * with a file under another local name, since the framework would search it under its own.
 */
async function areAll(files: readonly RemoteFile[], isHome: (file: RemoteFile) => Promise<boolean>): Promise<boolean> {
  for (const file of files) if (file.renamed || whyRefused(file) !== null || !(await isHome(file))) return false;
  return true;
}

/**
 * False if the file differs from the listing. A local file is replaced, never modified: a hard link keeps its content.
 */
async function secondName(file: string, name: string, listed: RemoteFile): Promise<boolean> {
  await mkdir(dirname(name), { recursive: true, mode: 0o700 });
  try {
    await linkOrCopy(file, name);
  } catch {
    return false;
  }
  return isCopyOf(listed, await lstat(name).catch(nullIfMissing));
}
