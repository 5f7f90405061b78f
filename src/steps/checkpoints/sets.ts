// Checkpoints of many files: folders that the script announced, or into which a framework has written its last file.
//
// U1. A set consists of the files that the machine listed in it when it was complete. Once all of them are downloaded,
//     the set is kept by hard links to its files (which cost nothing), and recorded: a run resumes only from a kept
//     set, never from half of one, nor from a mixture of two that were saved under one name. A file that the run was given
//     and that its script left as it was counts as downloaded (given-files.ts).
// U2. It is complete again when it is announced again, when its last file has changed, or when a part of it came late
//     (late-parts.ts). Otherwise its files may be half overwritten, or half removed. So it is with a set that the run was given. A folder that the script writes again before
//     the announced version is downloaded waits (announcements.ts).
// U3. A kept set changes by one rename: the old one is removed once the new one is in place. The local tree has the
//     newest of each file. Files that only the set saved before under the same name had are removed there, and no others:
//     what never belonged to the set stays, and so does what belongs to another set below it. A folder that TensorFlow's
//     CheckpointManager writes holds several checkpoints, each under names of its own: all stay unless a rule removes them.
// U4. On several nodes, node 0 says what is complete, and each other node keeps its share of it: the files that its
//     machine lists in a listing that began after node 0 kept its set. If a name is saved again, the version that
//     every node has stays until every node has the next one. shares.ts judges whether a share is downloaded.

import { hash, randomBytes } from "node:crypto";
import { lstat, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import type { SavedWhen } from "../../domain/newest-first.ts";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { nullIfMissing, orDiskFull } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import { AnnouncedFolders, ofPlacement, type Announced } from "./announcements.ts";
import { asRecord, isCopyOf, isOurs, readCheckpoints } from "./files.ts";
import { GivenFiles } from "./given-files.ts";
import { LateParts, type ScriptSoFar } from "./late-parts.ts";
import { marksIn, marksOf, setsIn, TF_STATE } from "./folders-in-listing.ts";
import { trackedFolders, TRACKERS } from "./trackers.ts";
import { foldersOf, unfinishedFolders, whyRefused, whyTemporary } from "./names.ts";

/** Next to the local checkpoints of a node: the kept sets, and one file that describes each. */
export const SETS = ".svc-sets";
export const WhenSaved = z.object({ placement: z.int(), at: z.number() });
const KeptFile = z.object({ path: z.string(), size: z.number(), mtime_ms: z.number() });
const Version = z.object({
  /** Folder in SETS with the same tree as the checkpoint directory. */
  folder: z.string().regex(/^[0-9a-f]+-[0-9a-f]+$/),
  files: z.array(KeptFile),
  /** Without the times of files that the run was given. Absent in a set of an older program. */
  saved: WhenSaved.optional(),
  /** On several nodes: the placement whose machines saved it. */
  placement: z.int().optional(),
  /** On a node other than 0: the folder of node 0's set of which this is a share. */
  of: z.string().optional(),
});
export type Version = z.infer<typeof Version>;
const Kept = Version.extend({
  name: z.string(),
  /** How often the script had announced it. */
  announced: z.int(),
  /** U4. The previous version, kept until every node has this one. */
  earlier: Version.optional(),
});
export type Kept = z.infer<typeof Kept>;

/** The files that a node's machine listed after the script had ended there. */
const Final = z.object({
  placement: z.int(),
  /** `is_given`: a given file that is unchanged. Its copy is below the folder of `givenAtTheEnd`. */
  files: z.array(KeptFile.extend({ is_home: z.boolean(), is_given: z.boolean().optional() })),
});
export type Final = z.infer<typeof Final>;
const FINAL = "final.json";
const FINAL_GIVEN = "final-given-";
export const givenAtTheEnd = (targetDir: string, placement: number): string =>
  join(targetDir, SETS, `${FINAL_GIVEN}${placement}`);

/** The node of a run on several nodes whose sets are kept. */
export interface NodeOfSeveral {
  node: number;
  nodes: number;
  placement: number;
  /** The folder of node 0 on this computer. */
  checkpoints: string;
}

/** The sets that were complete before a listing was requested. */
export interface KnownComplete {
  announced: ReadonlyMap<string, number>;
  /** When each was announced last, by the clock of node 0's machine. */
  announcedAt: ReadonlyMap<string, number>;
  /** AN4. Names that the script announced on earlier machines, and not yet on this one. */
  announcedEarlier: ReadonlySet<string>;
  /** On a node other than 0: node 0's sets of this placement. */
  ofNode0: ReadonlyMap<string, Kept>;
}

export const NOTHING_COMPLETE: KnownComplete = {
  announced: new Map(),
  announcedAt: new Map(),
  announcedEarlier: new Set(),
  ofNode0: new Map(),
};

type Announcements = () => Promise<Pick<Announced, "times" | "at" | "placements">>;

export interface SetsOptions {
  targetDir: string;
  announced: Announcements;
  /** Milliseconds on a clock that never goes back. */
  now: () => number;
  /** Absent for a run on one node. */
  place?: NodeOfSeveral | undefined;
  given?: GivenFiles;
  placements?: SavingPlacements | undefined;
  /** Whether a rule of the run removes complete checkpoints from this computer. */
  hasRules?: boolean;
}

/** `present`: whose machine the listings are of. `of`: whose machine saved a downloaded file; null if that is unknown. */
export interface SavingPlacements {
  present: number;
  of: (path: string) => number | null;
}

/** A set's name may contain characters that a file's may not. */
const idOf = (name: string): string => hash("sha256", name, "hex").slice(0, 24);

/** The file that describes the kept set of this name. */
export const setFile = (targetDir: string, name: string): string => join(targetDir, SETS, `${idOf(name)}.json`);

/** The kept set of this name; null if there is none. */
export async function keptSet(targetDir: string, name: string): Promise<Kept | null> {
  const text = await readFile(setFile(targetDir, name), "utf8").catch(nullIfMissing);
  const kept = text === null ? null : Kept.safeParse(jsonOf(text));
  return kept?.success && kept.data.name === name ? kept.data : null;
}

/** All kept sets of a node, by name. */
export async function allKept(targetDir: string): Promise<Map<string, Kept>> {
  const found = new Map<string, Kept>();
  for (const file of (await readdir(join(targetDir, SETS)).catch(nullIfMissing)) ?? []) {
    if (!/^[0-9a-f]{24}\.json$/.test(file)) continue;
    const text = await readFile(join(targetDir, SETS, file), "utf8").catch(nullIfMissing);
    const kept = text === null ? null : Kept.safeParse(jsonOf(text));
    if (kept?.success) found.set(kept.data.name, kept.data);
  }
  return found;
}

export async function finalOf(targetDir: string): Promise<Final | null> {
  const text = await readFile(join(targetDir, SETS, FINAL), "utf8").catch(nullIfMissing);
  const final = text === null ? null : Final.safeParse(jsonOf(text));
  return final?.success ? final.data : null;
}

/** The current version of a kept set, and the one before. */
export const versionsOf = (kept: Kept): Version[] => [kept, ...(kept.earlier ? [kept.earlier] : [])];

/** The folder of a node's checkpoints on this computer. @param checkpoints the folder of node 0. */
export const folderOfNode = (checkpoints: string, node: number): string =>
  node === 0 ? checkpoints : join(checkpoints, `node${node}`);

/** Whether the program that downloaded the checkpoints kept sets: an older program did not. */
export const knowsSets = async (targetDir: string): Promise<boolean> =>
  (await lstat(join(targetDir, SETS)).catch(nullIfMissing))?.isDirectory() === true;

/** The folder of a kept set's files, by their paths. */
export const rootOf = (targetDir: string, { folder }: Version): string => join(targetDir, SETS, folder);

/** Keeps the sets of one node. */
export class CheckpointSets {
  readonly #targetDir: string;
  readonly #announced: Announcements;
  readonly #given: GivenFiles;
  readonly #placements: SavingPlacements;
  readonly #hasRules: boolean;
  readonly #place: NodeOfSeveral | undefined;
  readonly #known = new Map<string, Kept | null>();
  readonly #folders: AnnouncedFolders;
  readonly #late = new LateParts();

  constructor({ targetDir, announced, now, place, given, placements, hasRules = false }: SetsOptions) {
    this.#folders = new AnnouncedFolders(now);
    this.#hasRules = hasRules;
    this.#targetDir = targetDir;
    this.#announced = announced;
    this.#given = given ?? new GivenFiles(targetDir, []);
    this.#placements = placements ?? { present: place?.placement ?? 1, of: () => null };
    this.#place = place;
  }

  async prepare(): Promise<void> {
    await mkdir(join(this.#targetDir, SETS), { recursive: true, mode: 0o700 });
  }

  /** To be asked before the listing is requested: a listing may be older than an announcement that follows it. */
  async knownComplete(): Promise<KnownComplete> {
    const said = ofPlacement(await this.#announced(), this.#placements.present);
    const { times: announced, at: announcedAt, earlier: announcedEarlier } = said;
    if (!this.#place || this.#place.node === 0) return { announced, announcedAt, announcedEarlier, ofNode0: new Map() };
    const { placement, checkpoints } = this.#place;
    const sets = [...(await allKept(checkpoints))].filter(([, kept]) => kept.placement === placement);
    // By the clock of another machine.
    return { announced, announcedAt: new Map(), announcedEarlier, ofNode0: new Map(sets) };
  }

  /** AN2. To be called with every listing, before files of it are downloaded. @param isRunning whether the script may still write. */
  async saw(listing: readonly RemoteFile[], known: KnownComplete, isRunning: boolean): Promise<void> {
    if (known.announcedAt.size === 0) return;
    for (const [name, files] of setsIn(listing, known.announced, new Set(), true)) {
      const times = known.announced.get(name) ?? 0;
      const isKept = times <= ((await this.#keptOf(name))?.announced ?? 0);
      if (isKept || !known.announcedAt.has(name)) this.#folders.forget(name);
      else this.#folders.saw(name, times, this.#own(files), isRunning);
    }
  }

  #own(files: readonly RemoteFile[]): RemoteFile[] {
    return files.filter((file) => !this.#given.has(file));
  }

  /** AN2. A framework's mark that was written later says that the folder is complete as it was at that time. */
  #isTorn(name: string, files: readonly RemoteFile[], kept: Kept | null, known: KnownComplete): boolean {
    const announcedAt = known.announcedAt.get(name);
    if (announcedAt === undefined) return false;
    const markedAt = marksOf(name, files).reduce((at, { mtimeMs }) => Math.max(at, mtimeMs), 0);
    const members = new Set(kept?.files.map(({ path }) => path));
    return this.#folders.isTorn(name, { announcedAt, markedAt }, this.#own(files), members);
  }

  #hasLateParts(kept: Kept | null, files: readonly RemoteFile[], known: KnownComplete, script: ScriptSoFar): boolean {
    const announcedAt = kept === null ? undefined : known.announcedAt.get(kept.name);
    return kept !== null && announcedAt !== undefined && this.#late.in(kept, files, announcedAt, script);
  }

  /**
   * Keeps every set of the listing that is complete (U2, U4) and fully downloaded. Throws `disk_full`.
   * @param isHome whether the listed file was downloaded
   * @param isDropped whether the listed file belongs to a checkpoint that retention removed, and that was not saved again
   * @returns `stale`: paths of files that only an earlier save under the same name had: they no longer exist locally.
   *   `linked`: given files that are now among the run's own. `torn`: names of complete downloads that AN2 does not keep.
   */
  async keep(
    listing: readonly RemoteFile[],
    isHome: (file: RemoteFile) => Promise<boolean>,
    known: KnownComplete,
    isDropped: (file: RemoteFile) => boolean = () => false,
    script: ScriptSoFar = { hasSucceeded: false, restedMs: () => 0 },
  ): Promise<{ stale: string[]; linked: CheckpointFile[]; torn: string[] }> {
    const [stale, torn]: [string[], string[]] = [[], []];
    const linked: CheckpointFile[] = [];
    const isHere = this.#isHere(isHome);
    const isOther = this.#place !== undefined && this.#place.node > 0;
    const { announced, ofNode0 } = known;
    const tracked = isOther
      ? new Set(ofNode0.keys())
      : await trackedFolders(this.#targetDir, await trackersAtHome(listing, isHome));
    const sets = setsIn(listing, isOther ? new Map() : announced, tracked, isOther);
    for (const name of isOther ? ofNode0.keys() : [])
      if (!sets.has(name) && !(await this.#hasFiles(name))) sets.set(name, []);
    for (const [name, files] of sets) {
      const times = announced.get(name) ?? 0;
      const of = ofNode0.get(name);
      const kept = await this.#keptOf(name);
      const isNext = of ? kept?.of !== of.folder : isAnew(kept, times, name, files, this.#given);
      if (!isNext && (isOther || !this.#hasLateParts(kept, files, known, script))) continue;
      // A given file counts as downloaded although retention removed it. Which sets other nodes have a share of, node 0 says.
      if (!isOther && files.some(isDropped)) continue;
      if (!(await areAll(files, isHere))) continue;
      if (!script.hasSucceeded && this.#isTorn(name, files, kept, known)) {
        torn.push(name);
        continue;
      }
      try {
        for (const file of files) {
          if (!this.#given.has(file)) continue;
          if (await this.#given.link(file, stale)) linked.push(asRecord(file.path, file.size, file.mtimeMs));
        }
        const at = this.#own(files).reduce((newest, { mtimeMs }) => Math.max(newest, mtimeMs), 0);
        if (times > 0) this.#late.kept(name, files, kept, isNext);
        await this.#keep(name, times, files, of, { placement: this.#placements.present, at });
      } catch (cause) {
        throw orDiskFull(cause, this.#targetDir);
      }
      if (kept !== null) stale.push(...(await this.#removeStale(kept, files, announced)));
    }
    return { stale, linked, torn };
  }

  /** Writes down what the machine has after the script has ended, on a run of several nodes. */
  async keepFinal(listing: readonly RemoteFile[], isHome: (file: RemoteFile) => Promise<boolean>): Promise<void> {
    if (!this.#place) return;
    const { placement } = this.#place;
    const isHere = this.#isHere(isHome);
    const unfinished = unfinishedFolders(listing);
    const files: Final["files"] = [];
    // The folder from which the run was given them goes when the run is over.
    const folder = givenAtTheEnd(this.#targetDir, placement);
    await rm(folder, { recursive: true, force: true });
    for (const file of listing) {
      if (file.path.split("/").some(isOurs) || whyTemporary(file.path, unfinished) !== null) continue;
      const { path, size, mtimeMs } = file;
      // Node 0's own files are in its kept sets.
      const is_given = this.#place.node > 0 && this.#given.has(file);
      const is_home = is_given
        ? await isLinked(this.#given.copyOf(file), join(folder, path), size)
        : await areAll([file], isHere);
      files.push({ path, size, mtime_ms: mtimeMs, is_home, ...(is_given && { is_given }) });
    }
    replaceFile(join(this.#targetDir, SETS, FINAL), JSON.stringify({ placement, files } satisfies Final));
    for (const name of await readdir(join(this.#targetDir, SETS)))
      if (name.startsWith(FINAL_GIVEN) && join(this.#targetDir, SETS, name) !== folder)
        await rm(join(this.#targetDir, SETS, name), { recursive: true, force: true });
  }

  readonly #isHere =
    (isHome: (file: RemoteFile) => Promise<boolean>) =>
    async (file: RemoteFile): Promise<boolean> =>
      this.#given.has(file) || (await isHome(file));

  async #hasFiles(name: string): Promise<boolean> {
    const stats = await lstat(join(this.#targetDir, name)).catch(nullIfMissing);
    return stats !== null && (!stats.isDirectory() || (await readCheckpoints(join(this.#targetDir, name))).length > 0);
  }

  /** U3. @param before the set that was kept under the name until now */
  async #removeStale(
    before: Kept,
    files: readonly RemoteFile[],
    announced: ReadonlyMap<string, number>,
  ): Promise<string[]> {
    const names = new Set(before.files.map(({ path }) => path.slice(before.name.length + 1)));
    if (!this.#hasRules && marksIn(names).includes(TF_STATE)) return [];
    const listed = new Set(files.map(({ path }) => path));
    const stale: string[] = [];
    for (const { path } of before.files) {
      if (listed.has(path) || announced.has(path) || (await this.#isBelowAnother(path, before.name))) continue;
      const there = await lstat(join(this.#targetDir, path)).catch(nullIfMissing);
      if (!there?.isFile()) continue;
      await rm(join(this.#targetDir, path), { force: true });
      stale.push(path);
    }
    return stale;
  }

  async #isBelowAnother(path: string, name: string): Promise<boolean> {
    for (const folder of foldersOf(path))
      if (folder.length > name.length && (await this.#keptOf(folder)) !== null) return true;
    return false;
  }

  /** Whether the path is in a folder that counts as one checkpoint: one that was kept, or that the script announced. */
  async isMember(path: string): Promise<boolean> {
    const { times } = await this.#announced();
    for (const folder of foldersOf(path))
      if (folder !== "" && (times.has(folder) || (await this.#keptOf(folder)) !== null)) return true;
    return false;
  }

  /** Whether the script has announced it. */
  async isAnnounced(path: string): Promise<boolean> {
    return (await this.#announced()).times.has(path);
  }

  /** Keeps a complete file under its name before a possibly torn version replaces it. */
  async keepFile(file: RemoteFile): Promise<void> {
    await this.#keptOf(file.path);
    const placement = this.#placements.of(file.path) ?? this.#placements.present;
    await this.#keep(file.path, 0, [file], null, { placement, at: file.mtimeMs });
  }

  /** Drops the copy of `keepFile`: the file itself is complete again. */
  async dropFile(path: string): Promise<void> {
    const kept = await this.#keptOf(path);
    if (kept === null) return;
    await rm(setFile(this.#targetDir, path), { force: true });
    this.#known.set(path, null);
    for (const version of versionsOf(kept))
      await rm(rootOf(this.#targetDir, version), { recursive: true, force: true });
  }

  async #keptOf(name: string): Promise<Kept | null> {
    let kept = this.#known.get(name);
    if (kept === undefined) this.#known.set(name, (kept = await keptSet(this.#targetDir, name)));
    return kept;
  }

  /** @param of node 0's set of which it is a share; null for a file by itself. */
  async #keep(
    name: string,
    announced: number,
    files: readonly RemoteFile[],
    of: Kept | null | undefined,
    saved: SavedWhen,
  ): Promise<void> {
    const before = this.#known.get(name) ?? null;
    const earlier = before === null || of === null ? undefined : await this.#stillNeeded(before, of);
    const kept: Kept = {
      name,
      announced,
      folder: `${idOf(name)}-${randomBytes(6).toString("hex")}`,
      files: files.map(({ path, size, mtimeMs }) => ({ path, size, mtime_ms: mtimeMs })),
      saved,
      ...(this.#place && of !== null && { placement: this.#place.placement }),
      ...(of && { of: of.folder }),
      ...(earlier && { earlier }),
    };
    const root = rootOf(this.#targetDir, kept);
    for (const file of files) {
      if (await secondName(join(this.#targetDir, file.path), join(root, file.path), file)) continue;
      // A file was removed here: the next scan may find all of it.
      await rm(root, { recursive: true, force: true });
      return;
    }
    replaceFile(setFile(this.#targetDir, name), JSON.stringify(kept));
    this.#known.set(name, kept);
    for (const version of before === null ? [] : versionsOf(before))
      if (version.folder !== earlier?.folder)
        await rm(rootOf(this.#targetDir, version), { recursive: true, force: true });
  }

  /** U4. The version before the one that is being kept, if a run may have to resume from it. */
  async #stillNeeded(before: Kept, of: Kept | undefined): Promise<Version | undefined> {
    if (!this.#place) return undefined;
    const versions = versionsOf(before).map((version) => Version.parse(version));
    if (of) return versions.find((version) => version.of !== undefined && version.of === of.earlier?.folder);
    const { checkpoints, nodes } = this.#place;
    const others = await Promise.all(
      Array.from({ length: nodes - 1 }, (_, i) => keptSet(folderOfNode(checkpoints, i + 1), before.name)),
    );
    const isEverywhere = ({ folder }: Version): boolean =>
      others.every((kept) => kept !== null && versionsOf(kept).some((version) => version.of === folder));
    return versions.find(isEverywhere) ?? versions[0];
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

/** U2. */
function isAnew(
  kept: Kept | null,
  announced: number,
  name: string,
  files: readonly RemoteFile[],
  given: GivenFiles,
): boolean {
  if (announced > (kept?.announced ?? 0)) return true;
  const marks = marksOf(name, files);
  // A folder without a mark of its own: a tracker next to it names it, and is never given.
  if (kept === null && marks.length === 0) return !files.every((file) => given.has(file));
  return marks.some((now) => {
    if (given.has(now)) return false;
    const then = kept?.files.find(({ path }) => path === now.path);
    return now.size !== then?.size || now.mtimeMs !== then.mtime_ms;
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

/** False if the file differs from the listing. A local file is replaced, never modified: a hard link keeps its content. */
const secondName = async (file: string, name: string, listed: RemoteFile): Promise<boolean> =>
  (await isLinked(file, name, listed.size)) && isCopyOf(listed, await lstat(name).catch(nullIfMissing));

/** False if the file is missing or has another length. */
async function isLinked(file: string, name: string, size: number): Promise<boolean> {
  await mkdir(dirname(name), { recursive: true, mode: 0o700 });
  try {
    await linkOrCopy(file, name);
  } catch {
    return false;
  }
  return (await lstat(name).catch(nullIfMissing))?.size === size;
}
