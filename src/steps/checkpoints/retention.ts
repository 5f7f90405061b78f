// Decides which complete checkpoints stay on this computer (`keep_checkpoints` of a run).
//
// KC1. The newest complete checkpoint (newest-first.ts) always stays, and so does one that cannot be judged: without a step, or a value of the metric.
// KC2. Only complete checkpoints are removed: incomplete ones, and files that belong to no checkpoint, stay.
// KC3. Each removal is recorded first, so that the file is not downloaded again while the machine still has it. A
//      version that is saved under the same name later counts as a new one.
// KC5. On several nodes, node 0 chooses, and the others remove what it has removed: a checkpoint is of use only with the shards of all. One
//      that another node still has to download counts as incomplete, so an earlier one stays until then.
// KC6. `rotation: follow` never removes what an earlier machine of the run saved and this one never had: its script removed nothing.
// KC7. A checkpoint stays until every sink has copied all of its files, or has given up.
// KC4. Another run that resumes from a checkpoint has hard links of its own to it.

import { lstat, readFile, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { bestOf, parseBest } from "../../schemas/best.ts";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { newestFirst, newestOf, type SavedWhen } from "../../domain/newest-first.ts";
import { nullIfMissing } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import type { KeepCheckpoints } from "../../schemas/spec.ts";
import { isCopyOf, readCheckpoints } from "./files.ts";
import { foldersOf, unfinishedFolders, whyRefused, whyTemporary } from "./names.ts";
import { isAtOrBelow, placesOnNodes } from "./named-files.ts";
import { keptSet, type CheckpointSets } from "./sets.ts";
import type { Announced } from "./announcements.ts";
import { completeOnes, type Resume } from "./resume.ts";

export interface KeepRules {
  keep: KeepCheckpoints;
  announced: () => Promise<Announced>;
  /** Points of a metric, in the order in which they were logged. */
  points: (metric: string) => readonly { step: number; value: number }[];
  /** The placement whose machine saved each file of the run, on all nodes; 1 where it is missing. */
  savedBy: () => ReadonlyMap<string, number>;
  /** Whether all of these files were downloaded from an earlier machine of the run. */
  isEarlier: (paths: readonly string[]) => boolean;
  /** The files of the run, on all nodes, that a sink has still to copy. */
  uncopied: () => readonly string[];
  node: number;
  nodes: number;
  /** The folder of node 0 on this computer. */
  checkpoints: string;
}

/** Next to the local checkpoints of a node. */
const DROPPED = ".svc-dropped.json";
const Dropped = z.array(z.object({ name: z.string(), path: z.string(), size: z.number(), mtime_ms: z.number() }));
type Dropped = z.infer<typeof Dropped>;
/** The file next to node 0's checkpoints that lists what node 0 has removed, for the other nodes (KC5). */
const REMOVED = ".svc-removed.json";
const Removed = z.array(z.string());

export class Retention {
  readonly #targetDir: string;
  readonly #rules: KeepRules;
  readonly #sets: CheckpointSets;
  #dropped = new Map<string, Dropped[number]>();
  /** The names that node 0 has removed; only used by node 0 of several. */
  #removed: readonly string[] = [];
  /** KC6. The checkpoints that this machine had in a listing of this process. */
  readonly #seen = new Set<string>();

  constructor(targetDir: string, rules: KeepRules, sets: CheckpointSets) {
    this.#targetDir = targetDir;
    this.#rules = rules;
    this.#sets = sets;
  }

  async prepare(): Promise<void> {
    const text = await readFile(join(this.#targetDir, DROPPED), "utf8").catch(nullIfMissing);
    const known = text === null ? null : Dropped.safeParse(jsonOf(text));
    this.#dropped = new Map((known?.success ? known.data : []).map((file) => [file.path, file]));
    if (this.#rules.node === 0 && this.#rules.nodes > 1) this.#removed = await readRemoved(this.#rules.checkpoints);
  }

  /** KC3. One new or changed file makes the checkpoint a new one, even if its other files are the same. */
  saw(listing: readonly RemoteFile[]): void {
    const names = new Set([...[...this.#dropped.values()].map(({ name }) => name), ...this.#removed]);
    if (names.size === 0) return;
    const saved = new Set<string>();
    for (const file of listing) {
      if (this.isDropped(file)) continue;
      for (const place of [...foldersOf(file.path), file.path]) if (names.has(place)) saved.add(place);
    }
    for (const [path, { name }] of this.#dropped) if (saved.has(name)) this.#dropped.delete(path);
    if (this.#removed.some((name) => saved.has(name)))
      this.#setRemoved(this.#removed.filter((name) => !saved.has(name)));
  }

  isDropped(file: RemoteFile): boolean {
    const dropped = this.#dropped.get(file.path);
    return dropped?.size === file.size && Math.abs(dropped.mtime_ms - file.mtimeMs) < 0.5;
  }

  /**
   * Removes what need not stay.
   * @param isHome whether the machine's version is completely downloaded.
   * @returns the paths that are not on this computer any more.
   */
  async apply(listing: readonly RemoteFile[], isHome: (file: RemoteFile) => Promise<boolean>): Promise<string[]> {
    const removed = await this.#finish(listing);
    const surplus = this.#rules.node === 0 ? await this.#surplus(listing) : await this.#removedByNode0();
    const names: string[] = [];
    const uncopied = surplus.length === 0 ? [] : this.#rules.uncopied();
    for (const name of surplus) {
      // KC7
      if (placesOnNodes(name, this.#rules.nodes).some((top) => uncopied.some((path) => isAtOrBelow(path, top))))
        continue;
      if (!(await this.#isSavedAgain(name, listing, isHome))) names.push(name);
    }
    return names.length === 0 ? removed : [...removed, ...(await this.#drop(names, listing))];
  }

  /** The names of complete checkpoints that need not stay. */
  async #surplus(listing: readonly RemoteFile[]): Promise<string[]> {
    const announced = await this.#rules.announced();
    const all = await this.#complete(announced);
    const coming = await this.#stillComing(all, announced);
    const stays = this.#chosen(all.slice(coming), announced, listing);
    for (const one of all.slice(0, coming)) stays.add(one);
    const goes = all.filter((one) => !stays.has(one));
    if (goes.length === 0) return [];
    const used = new Set([...stays].flatMap(({ name, files }) => [name, ...files.map(({ path }) => path)]));
    // A name inside a kept one, or around it, is part of it.
    const isPart = ({ name }: Resume): boolean =>
      [...foldersOf(name), name].some((place) => place !== "" && used.has(place)) ||
      [...used].some((path) => path.startsWith(`${name}/`));
    return goes.filter((one) => !isPart(one)).map(({ name }) => name);
  }

  async #complete({ times }: Announced): Promise<Resume[]> {
    const { checkpoints, nodes } = this.#rules;
    const all: Resume[] = [];
    const savedBy = this.#rules.savedBy();
    for await (const one of completeOnes({ job: "", checkpoints, announced: new Set(times.keys()), nodes, savedBy }))
      all.push(one);
    return all;
  }

  /** KC5. How many of the newest ones a node that has shards of an older one has not downloaded yet. */
  async #stillComing(all: readonly Resume[], { times }: Announced): Promise<number> {
    let coming = 0;
    for (let node = 1; node < this.#rules.nodes; node++) {
      const folder = join(this.#rules.checkpoints, `node${node}`);
      for (const [i, { name }] of all.entries()) {
        if (!(await isHeld(folder, name, times.has(name)))) continue;
        coming = Math.max(coming, i);
        break;
      }
    }
    return coming;
  }

  /**
   * KC5. This node's checkpoints that node 0 has removed, if this node has a later one that node 0 kept: a name that
   * only this node was seen to save again stays.
   */
  async #removedByNode0(): Promise<string[]> {
    const { checkpoints, node } = this.#rules;
    const removed = await readRemoved(checkpoints);
    if (removed.length === 0) return [];
    const savedBy = this.#rules.savedBy();
    const here = async (name: string): Promise<SavedWhen | null> => {
      const kept = await keptSet(this.#targetDir, name);
      if (kept?.saved !== undefined) return kept.saved;
      const files = await filesOf(this.#targetDir, name);
      const each = files.map(({ path, at }) => ({ placement: savedBy.get(`node${node}/${path}`) ?? 1, at }));
      return each.length === 0 ? null : newestOf(each);
    };
    const kept = (await this.#complete(await this.#rules.announced())).map(({ name }) => here(name));
    const newest = newestOf((await Promise.all(kept)).filter((saved) => saved !== null));
    const names: string[] = [];
    for (const name of removed) {
      const saved = await here(name);
      if (saved === null || newestFirst(saved, newest) <= 0) continue;
      if ((await filesOf(checkpoints, name)).length === 0) names.push(name);
    }
    return names;
  }

  /** Whether the machine has a version of it that was not downloaded yet: removed now, it would never be downloaded. */
  async #isSavedAgain(
    name: string,
    listing: readonly RemoteFile[],
    isHome: (file: RemoteFile) => Promise<boolean>,
  ): Promise<boolean> {
    const unfinished = unfinishedFolders(listing);
    for (const file of listing) {
      if (file.path !== name && !file.path.startsWith(`${name}/`)) continue;
      if (whyRefused(file) !== null || whyTemporary(file.path, unfinished) !== null || this.isDropped(file)) continue;
      if (!(await isHome(file))) return true;
    }
    return false;
  }

  #chosen(all: readonly Resume[], announced: Announced, listing: readonly RemoteFile[]): Set<Resume> {
    const { last, best: text, rotation } = this.#rules.keep;
    let stays = new Set(last === undefined && text === undefined ? all : all.slice(0, last ?? 0));
    const best = text === undefined ? null : parseBest(text);
    if (best) {
      const points = this.#rules.points(best.metric);
      const values = new Map(all.map((one) => [one, valueAt(points, stepOf(one.name, announced))]));
      for (const one of bestOf(all, best, (each) => values.get(each) ?? null)) stays.add(one);
      // KC1
      for (const one of all) if (values.get(one) === null && last === undefined) stays.add(one);
    }
    if (rotation === "follow" && isWhole(listing)) {
      const there = new Set(listing.flatMap(({ path }) => [...foldersOf(path), path]));
      for (const { name } of all) if (there.has(name)) this.#seen.add(name);
      const isRemoved = ({ name, files }: Resume): boolean =>
        !there.has(name) && (this.#seen.has(name) || !this.#rules.isEarlier(files.map(({ path }) => path)));
      stays = new Set([...stays].filter((one) => !isRemoved(one)));
    }
    const [newest] = all;
    if (newest) stays.add(newest);
    return stays;
  }

  async #drop(names: readonly string[], listing: readonly RemoteFile[]): Promise<string[]> {
    const gone = new Set(names);
    const nameOf = (path: string): string | undefined => [...foldersOf(path), path].find((place) => gone.has(place));
    const there = new Set(listing.map(({ path }) => path));
    for (const path of this.#dropped.keys()) if (!there.has(path)) this.#dropped.delete(path);
    for (const { path, size, mtimeMs } of listing) {
      const name = nameOf(path);
      if (name !== undefined) this.#dropped.set(path, { name, path, size, mtime_ms: mtimeMs });
    }
    replaceFile(join(this.#targetDir, DROPPED), JSON.stringify([...this.#dropped.values()]));
    if (this.#rules.node === 0 && this.#rules.nodes > 1) this.#setRemoved([...new Set([...this.#removed, ...names])]);
    const removed: string[] = [];
    for (const name of names) {
      const below = (await readCheckpoints(join(this.#targetDir, name)).catch(() => [])).map(
        ({ path }) => `${name}/${path}`,
      );
      for (const path of [...below, name]) if (await this.#unlink(path)) removed.push(path);
      await this.#sets.dropFile(name);
    }
    return removed;
  }

  #setRemoved(names: readonly string[]): void {
    this.#removed = names;
    replaceFile(join(this.#rules.checkpoints, REMOVED), JSON.stringify(names));
  }

  /** Removes the files that were recorded as removed but that a crash left behind. */
  async #finish(listing: readonly RemoteFile[]): Promise<string[]> {
    const removed: string[] = [];
    for (const file of listing) {
      if (!this.isDropped(file)) continue;
      const stats = await lstat(join(this.#targetDir, file.path)).catch(() => null);
      if (stats && isCopyOf(file, stats) && (await this.#unlink(file.path))) removed.push(file.path);
    }
    return removed;
  }

  /** Removes a file, and folders above it that become empty. False if the file did not exist. */
  async #unlink(path: string): Promise<boolean> {
    const full = join(this.#targetDir, path);
    const stats = await lstat(full).catch(() => null);
    if (!stats?.isFile()) return false;
    await rm(full, { force: true });
    for (const folder of foldersOf(path).toReversed()) {
      if (
        folder === "" ||
        !(await rmdir(join(this.#targetDir, folder)).then(
          () => true,
          () => false,
        ))
      )
        break;
    }
    return true;
  }
}

async function readRemoved(checkpoints: string): Promise<readonly string[]> {
  const text = await readFile(join(checkpoints, REMOVED), "utf8").catch(nullIfMissing);
  const known = text === null ? null : Removed.safeParse(jsonOf(text));
  return known?.success ? known.data : [];
}

/** The files of the name in this folder, with their times in epoch milliseconds. */
async function filesOf(folder: string, name: string): Promise<{ path: string; at: number }[]> {
  const stats = await lstat(join(folder, name)).catch(() => null);
  if (stats?.isFile()) return [{ path: name, at: stats.mtimeMs }];
  if (!stats?.isDirectory()) return [];
  const files = await readCheckpoints(join(folder, name));
  return files.map(({ path, modified_at }) => ({ path: `${name}/${path}`, at: Date.parse(modified_at) }));
}

/** Whether the folder of a node holds its share of a checkpoint: one that was announced counts once all of it is there. */
async function isHeld(folder: string, name: string, announced: boolean): Promise<boolean> {
  if ((await keptSet(folder, name)) !== null) return true;
  const stats = await lstat(join(folder, name)).catch(() => null);
  return stats?.isFile() === true || (stats?.isDirectory() === true && !announced);
}

/** Whether the machine listed all that it has: a symlink that is refused hides nothing. */
const isWhole = (listing: readonly RemoteFile[]): boolean =>
  listing.every(({ refused, isLink }) => refused === undefined || isLink === true);

/** The announced step, or the last number of the name: `checkpoint-500`, `epoch=3-step=600.ckpt`. */
function stepOf(name: string, { steps }: Announced): number | null {
  const said = steps.get(name);
  if (said !== undefined) return said;
  const number = /([0-9]{1,15})[^0-9]*$/.exec(name.slice(name.lastIndexOf("/") + 1))?.[1];
  return number === undefined ? null : Number(number);
}

/** The last value that was logged up to the step. */
function valueAt(
  points: KeepRules["points"] extends (m: string) => infer P ? P : never,
  step: number | null,
): number | null {
  if (step === null) return null;
  let found: { step: number; value: number } | null = null;
  for (const point of points) if (point.step <= step && (found === null || point.step >= found.step)) found = point;
  return found?.value ?? null;
}
