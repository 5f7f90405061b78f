// The files of the checkpoint from which a run resumed, as its machines still have them. svc sent them, so they are not downloaded; a
// checkpoint that the script saves again under the same name may keep some of them as they are.
//
// GV1. A given file counts as downloaded as long as the machine lists it unchanged and this computer has the copy that was sent. Its
//      listing then has the time of that copy: not every transport keeps more of a time than its seconds.
// GV2. On several nodes every machine receives the files of all nodes. A node's listing leaves out the unchanged ones of other nodes:
//      they belong to the shares of those.
// GV3. A given file is linked among the run's own files only as a part of a checkpoint that the run itself has saved.

import { lstat, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import { nullIfMissing } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import { asListed, homeStats, isCopyOf, nameBeside, placeFile, STAGING } from "./files.ts";

/** One file of the checkpoint, below `root` on this computer. */
export interface GivenFile {
  root: string;
  path: string;
  size: number;
  mtime_ms: number;
  /** The node that saved it. An older program did not say it, but numbered the roots: a node without files has none. */
  node?: number | undefined;
}

export class GivenFiles {
  readonly #targetDir: string;
  readonly #place: { node: number; nodes: number } | undefined;
  readonly #files: ReadonlyMap<string, GivenFile>;
  /** By path: where the copy of a file of this node is, and the time that it has. */
  readonly #own = new Map<string, { from: string; mtimeMs: number }>();
  #others: ReadonlySet<string> = new Set();

  /** @param place absent for a run on one node, to which all files belong. */
  constructor(targetDir: string, files: readonly GivenFile[], place?: { node: number; nodes: number }) {
    this.#targetDir = targetDir;
    this.#place = place;
    this.#files = new Map(files.map((file) => [file.path, file]));
  }

  async prepare(): Promise<void> {
    this.#others = new Set([...this.#files.values()].filter((file) => this.#isOthers(file)).map(({ path }) => path));
    for (const { root, path, size, mtime_ms } of this.#files.values()) {
      if (this.#others.has(path)) continue;
      const from = join(root, path);
      const stats = await lstat(from).catch(nullIfMissing);
      if (!stats?.isFile() || stats.size !== size) continue;
      // A copy in place of a hard link has the time at which it was made.
      const isTimed = Math.abs(stats.mtimeMs - mtime_ms) < 1;
      this.#own.set(path, { from, mtimeMs: isTimed ? stats.mtimeMs : mtime_ms });
    }
  }

  /** A run on fewer nodes than the checkpoint: node 0 has the files of the nodes that are missing. */
  #isOthers({ root, node = Number(basename(root)) }: GivenFile): boolean {
    return this.#place !== undefined && (node < this.#place.nodes ? node : 0) !== this.#place.node;
  }

  /** GV1, GV2. What the machine lists of this node. */
  ofNode(listing: readonly RemoteFile[]): RemoteFile[] {
    const own: RemoteFile[] = [];
    for (const file of listing) {
      const isGiven = this.#isUnchanged(file);
      if (isGiven && this.#others.has(file.path)) continue;
      const copy = isGiven ? this.#own.get(file.path) : undefined;
      own.push(copy ? { ...file, mtimeMs: copy.mtimeMs } : file);
    }
    return own;
  }

  #isUnchanged(file: RemoteFile): boolean {
    const given = this.#files.get(file.path);
    return given !== undefined && given.size === file.size && Math.abs(given.mtime_ms - file.mtimeMs) < 1_000;
  }

  /** Whether a file of `ofNode` is a given one that this computer has. */
  has(file: RemoteFile): boolean {
    return this.#own.has(file.path) && this.#isUnchanged(file);
  }

  /** Whether the run was given a file under this name, changed since or not. */
  hasPath(path: string): boolean {
    return this.#files.has(path);
  }

  /** Where the copy of a file is for which `has` is true. */
  copyOf({ path }: RemoteFile): string {
    return this.#own.get(path)!.from;
  }

  /**
   * GV3. Gives it its name among the run's own files. False if the copy has changed since.
   * @param removed gets the paths of files that were in the way.
   */
  async link(file: RemoteFile, removed: string[]): Promise<boolean> {
    if (isCopyOf(file, await homeStats(this.#targetDir, file.path))) return true;
    const beside = join(this.#targetDir, STAGING, nameBeside(file));
    await rm(beside, { force: true });
    await linkOrCopy(this.copyOf(file), beside);
    if (!(await asListed(file, beside))) return false;
    await placeFile(this.#targetDir, file.path, beside, { folders: new Set(), removed });
    return true;
  }
}
