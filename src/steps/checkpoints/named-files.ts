// Finds, measures and deletes the local files of named checkpoints of an ended run. src/engine/checkpoint-removals.ts calls it.
//
// NF1. A name covers its file, or everything below its folder, in the folder of each node, its given files at the end of a run on
//      several nodes, and the kept sets (sets.ts) of that name and of names below it.
// NF2. Nothing is reached through a symlink: a deletion stays inside the home.
// NF3. The disk frees the space of a file with its last hard link. A kept set has hard links to the files under the name.

import { constants } from "node:fs";
import { access, lstat, readdir, realpath, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { isMissing, nullIfMissing, systemCode } from "../../errors/index.ts";
import { flushFolder, isOurs } from "./files.ts";
import { foldersOf } from "./names.ts";
import { allKept, finalOf, folderOfNode, givenAtTheEnd, rootOf, setFile, versionsOf } from "./sets.ts";

/** Where the checkpoints of a run are on this computer. */
export interface CheckpointPlace {
  home: string;
  /** The folder of node 0. */
  checkpoints: string;
  nodes: number;
}

/** Disk space in bytes. */
export interface Space {
  freed: number;
  linked: number;
}

interface FoundFile {
  path: string;
  dev: number;
  ino: number;
  links: number;
  size: number;
  onDisk: number;
}

export interface NamedFiles {
  /** What `deleteNamed` deletes: files and whole folders, absolute. */
  targets: string[];
  /** The records of kept sets. A retry finds the folders of a set by its record, so `deleteNamed` deletes it after them. */
  records: string[];
  files: FoundFile[];
  /** For each name, the files that a person sees under it. */
  byName: Map<string, { files: number; bytes: number }>;
  /** Why a target cannot be deleted; null if nothing is known to prevent it. */
  obstacle: { name: string; why: string; remedy: string } | null;
}

/** Whether text can be the name of a checkpoint; it is compared and joined only if it can. */
export const isPlainName = (name: string): boolean =>
  !name.includes("\0") &&
  name.split("/").every((part) => part !== "" && part !== "." && part !== ".." && !isOurs(part));

/** The paths below the folder of node 0 at which the nodes have the name. */
export const placesOnNodes = (name: string, nodes: number): string[] => [
  name,
  ...Array.from({ length: nodes - 1 }, (_, i) => `node${i + 1}/${name}`),
];

export const isAtOrBelow = (path: string, top: string): boolean => path === top || path.startsWith(`${top}/`);

/** The node and the name there, for each folder that may have files or kept sets of the name. */
function nodesWith(name: string, nodes: number): { node: number; name: string }[] {
  const found = Array.from({ length: nodes }, (_, node) => ({ node, name }));
  const [, k = "", rest] = /^node([0-9]+)\/(.+)$/.exec(name) ?? [];
  if (rest !== undefined && Number(k) > 0 && Number(k) < nodes) found.push({ node: Number(k), name: rest });
  return found;
}

export async function findNamed(place: CheckpointPlace, names: readonly string[]): Promise<NamedFiles> {
  const found: NamedFiles = { targets: [], records: [], files: [], byName: new Map(), obstacle: null };
  const seen = new Set<string>();
  const visible: string[] = [];
  for (const name of names) {
    const own = { files: 0, bytes: 0 };
    const shown = new Set<string>();
    found.byName.set(name, own);
    const blocked = (why: string, remedy: string): void => void (found.obstacle ??= { name, why, remedy });
    const take = async (target: string): Promise<FoundFile[]> => {
      const stats = await lstat(target).catch(nullIfNowhere);
      if (stats === null) return [];
      if (!(await isStraight(place.home, target))) {
        blocked("a folder above it is a symlink", "Delete the files behind the symlink yourself.");
        return [];
      }
      const files = await filesBelow(target, blocked);
      for (const file of files) {
        if (seen.has(file.path)) continue;
        seen.add(file.path);
        found.files.push(file);
      }
      return files;
    };
    for (const { node, name: there } of nodesWith(name, place.nodes)) {
      const folder = folderOfNode(place.checkpoints, node);
      for (const [kept, set] of await allKept(folder)) {
        if (!isAtOrBelow(kept, there)) continue;
        const [roots, record] = [versionsOf(set).map((version) => rootOf(folder, version)), setFile(folder, kept)];
        for (const target of [...roots, record]) await take(target);
        found.targets.push(...roots);
        found.records.push(record);
      }
      const final = await finalOf(folder);
      const given = final && join(givenAtTheEnd(folder, final.placement), there);
      if (given !== null && (await take(given)).length > 0) found.targets.push(given);
      const target = join(folder, there);
      for (const file of await take(target)) {
        if (shown.has(file.path)) continue;
        shown.add(file.path);
        own.files++;
        own.bytes += file.size;
      }
      visible.push(target);
    }
  }
  found.targets.push(...visible);
  return found;
}

/** NF3. */
export function spaceOf(files: readonly FoundFile[]): Space {
  const here = new Map<string, number>();
  const inodeOf = ({ dev, ino }: FoundFile): string => `${dev}:${ino}`;
  for (const file of files) here.set(inodeOf(file), (here.get(inodeOf(file)) ?? 0) + 1);
  const space = { freed: 0, linked: 0 };
  const counted = new Set<string>();
  for (const file of files) {
    const inode = inodeOf(file);
    if (counted.has(inode)) continue;
    counted.add(inode);
    if ((here.get(inode) ?? 0) >= file.links) space.freed += file.onDisk;
    else space.linked += file.onDisk;
  }
  return space;
}

/** Deletes the targets, and folders above them that become empty. Throws the first failure, after deleting all that can be deleted. */
export async function deleteNamed({ checkpoints }: CheckpointPlace, { targets, records }: NamedFiles): Promise<void> {
  const failures: unknown[] = [];
  const changed = new Set<string>();
  for (const target of [...targets, ...records]) {
    if (failures.length > 0 && records.includes(target)) continue;
    try {
      await rm(target, { recursive: true, force: true });
      changed.add(dirname(target));
      const inside = relative(checkpoints, dirname(target));
      for (const folder of inside === "" ? [] : [...foldersOf(inside), inside].toReversed())
        if (folder === "" || !(await isEmptied(join(checkpoints, folder)))) break;
    } catch (e) {
      failures.push(await refusalOf(e));
    }
  }
  if (failures.length > 0) throw failures[0];
  for (const folder of changed) await flushFolder(folder).catch(nullIfMissing);
}

/** `rm` of Node takes a file that it may not delete for a folder, and then reports `ENOTDIR`. This asks for the real reason. */
async function refusalOf(failure: unknown): Promise<unknown> {
  const { path } = failure as { path?: unknown };
  if (systemCode(failure) !== "ENOTDIR" || typeof path !== "string") return failure;
  return unlink(path).then(
    () => failure,
    (e: unknown) => e,
  );
}

/** No file can have a name that the system refuses for its length. */
const nullIfNowhere = (thrown: unknown): null => (systemCode(thrown) === "ENAMETOOLONG" ? null : nullIfMissing(thrown));

/** Removes a folder if it is empty, except svc's own. */
async function isEmptied(folder: string): Promise<boolean> {
  const name = folder.slice(folder.lastIndexOf("/") + 1);
  if (isOurs(name)) return false;
  return rmdir(folder).then(
    () => true,
    () => false,
  );
}

/** NF2. */
async function isStraight(home: string, path: string): Promise<boolean> {
  const inside = relative(home, dirname(path));
  if (inside.startsWith("..")) return false;
  return (await realpath(dirname(path))) === join(await realpath(home), inside);
}

/** The files at the path and below it. @param blocked called when a folder cannot be changed or read. */
async function filesBelow(path: string, blocked: (why: string, remedy: string) => void): Promise<FoundFile[]> {
  const files: FoundFile[] = [];
  const mayChange = async (folder: string): Promise<boolean> => {
    const failure: unknown = await access(folder, constants.R_OK | constants.W_OK | constants.X_OK).catch(
      (e: unknown) => e,
    );
    if (failure !== undefined)
      blocked(
        `the folder ${folder} does not permit it (${systemCode(failure)})`,
        "Make the folder writable for the user that svc runs as, then try again.",
      );
    return failure === undefined;
  };
  const walk = async (at: string): Promise<void> => {
    const stats = await lstat(at).catch(nullIfMissing);
    if (stats === null) return;
    if (!stats.isDirectory()) {
      const { dev, ino, nlink: links, size, blocks } = stats;
      files.push({ path: at, dev, ino, links, size, onDisk: blocks * 512 });
      return;
    }
    if (!(await mayChange(at))) return;
    for (const name of await readdir(at).catch((e: unknown) => (isMissing(e) ? [] : Promise.reject(e as Error))))
      await walk(join(at, name));
  };
  if (await mayChange(dirname(path))) await walk(path);
  return files;
}
