// Stores a model in a folder of its own: plain files, without indirection, for every library.
//
// F1. The folder is made under a temporary name and renamed: it is complete, or in its earlier state.
// F2. A user's own files in the folder stay. Files that the release lacks stay, too. Folders keep their permissions.
// F3. The bookkeeping follows the hub's own library (`.cache/huggingface`), which then finds the files offline.
// F4. A crash between the two renames leaves a finished tree; the next access finishes it.

import { existsSync, statSync } from "node:fs";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { linkOrCopy } from "../platform/link-or-copy.ts";
import { isMissing, SvcError, systemCode } from "../errors/index.ts";
import { blobName, type HubFile } from "./client.ts";
import { nameOfContent } from "./fetch-blob.ts";
import { CACHEDIR_TAG, statsOf, treeListing, type BlobPlaces, type Place, type Release } from "./place.ts";

export const BOOKS = join(".cache", "huggingface");
export const MARKER = join(BOOKS, "svc.json");

export class FolderPlace implements Place {
  readonly #target: string;
  readonly #staging: string;

  /** `mark` keeps the unfinished work of several homes apart. */
  private constructor(target: string, mark: string) {
    this.#target = target;
    this.#staging = join(dirname(target), `.${basename(target)}.svc-${mark}`);
  }

  /** Follows a symlink that the user made of the folder. Throws `hub_folder_refused`. */
  static async at(folder: string, mark: string): Promise<FolderPlace> {
    if (dirname(folder) === folder) throw refused(folder, "is the root of a disk");
    await mkdir(dirname(folder), { recursive: true }).catch((e: unknown) => {
      throw refused(folder, `has no usable folder above it (${systemCode(e)})`);
    });
    const target = await realpath(folder).catch(async (e: unknown) => {
      // Another program might create its target meanwhile.
      if (isMissing(e) && (await lstat(folder).catch(() => null))?.isSymbolicLink())
        throw refused(folder, "is a broken symlink");
      return folder;
    });
    return new FolderPlace(target, mark);
  }

  get key(): string {
    return this.#target;
  }
  get disk(): string {
    return dirname(this.#target);
  }

  async prepare(): Promise<void> {
    await this.#settle();
    const found = await statsOf(this.#target);
    if (found === null) return;
    if (!found.isDirectory()) throw refused(this.#target, "is not a folder");
    if (found.dev !== statSync(this.disk).dev) throw refused(this.#target, "is the root of a mounted disk");
  }

  blob(file: HubFile): BlobPlaces {
    const whole = join(this.#staging, "blobs", blobName(file));
    return { whole, partial: `${whole}.incomplete` };
  }

  async kept(files: readonly HubFile[], signal: AbortSignal): Promise<Set<string>> {
    const kept = new Set<string>();
    for (const file of files) {
      const path = join(this.#target, file.path);
      const found = await statsOf(path);
      if (found?.isFile() !== true || found.size !== file.size) continue;
      const known = await this.#known(file.path, found.mtimeMs);
      if ((known ?? (await nameOfContent(path, file, signal))) === blobName(file)) kept.add(file.path);
    }
    return kept;
  }

  /** The blob name in the bookkeeping of a file that is unchanged since. */
  async #known(path: string, mtimeMs: number): Promise<string | null> {
    const text = await readFile(bookOf(this.#target, path), "utf8").catch(() => "");
    const [, name, at] = text.split("\n");
    return name !== undefined && mtimeMs / 1_000 - 1 <= Number(at) ? name : null;
  }

  async publish(release: Release, kept: ReadonlySet<string>): Promise<string> {
    const tree = join(this.#staging, "tree");
    await rm(tree, { recursive: true, force: true });
    await mkdir(tree, { recursive: true });
    const replaced = new Set(release.files.filter((f) => !kept.has(f.path)).map((f) => f.path));
    if (existsSync(this.#target)) await this.#carryOver(this.#target, tree, replaced);
    for (const file of release.files) {
      if (!replaced.has(file.path)) continue;
      await mkdir(dirname(join(tree, file.path)), { recursive: true }).catch((e: unknown) => {
        throw refused(this.#target, `holds a file where the model has a folder (${systemCode(e)})`);
      });
      await linkOrCopy(this.blob(file).whole, join(tree, file.path));
    }
    await writeBooks(tree, release);
    await this.#swap(tree);
    return this.#target;
  }

  /** Hard-links every file of the old folder except those being replaced, and those that are removed meanwhile. */
  async #carryOver(from: string, to: string, replaced: ReadonlySet<string>, below = ""): Promise<void> {
    const { mode } = await stat(from);
    // svc writes more files into it: it needs its own permissions there.
    await chmod(to, (mode & 0o7777) | 0o700);
    for (const entry of await readdir(from, { withFileTypes: true })) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (replaced.has(path)) {
        if (entry.isDirectory()) throw refused(this.#target, `holds a folder ${path} where the model has a file`);
      } else if (entry.isDirectory()) {
        await mkdir(target);
        await this.#carryOver(source, target, replaced, path);
      } else if (entry.isSymbolicLink()) await readlink(source).then((to) => symlink(to, target), unlessMissing);
      else if (entry.isFile()) await linkOrCopy(source, target).catch(unlessMissing);
    }
  }

  async #swap(tree: string): Promise<void> {
    const ready = join(this.#staging, "ready");
    await rename(tree, ready);
    const old = join(this.#staging, "old");
    if (existsSync(this.#target)) {
      await rm(old, { recursive: true, force: true });
      await rename(this.#target, old);
    }
    await rename(ready, this.#target);
    await this.#clear();
  }

  /** F4: `ready` is a complete tree that only needs its final name. */
  async #settle(): Promise<void> {
    const ready = join(this.#staging, "ready");
    if (!existsSync(this.#target) && existsSync(ready)) await rename(ready, this.#target);
    else if (!existsSync(this.#target) && existsSync(join(this.#staging, "old")))
      await rename(join(this.#staging, "old"), this.#target);
    await rm(ready, { recursive: true, force: true });
    if (existsSync(join(this.#staging, "old"))) await this.#leftovers(join(this.#staging, "old"), this.#target);
    await rm(join(this.#staging, "old"), { recursive: true, force: true });
  }

  async #clear(): Promise<void> {
    const old = join(this.#staging, "old");
    if (existsSync(old)) await this.#leftovers(old, this.#target);
    await rm(this.#staging, { recursive: true, force: true });
  }

  /** Files that appeared in the old folder while the new one was made, or replaced the file that the new one has. */
  async #leftovers(from: string, to: string, below = ""): Promise<void> {
    for (const entry of await readdir(from, { withFileTypes: true })) {
      const path = join(below, entry.name);
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (!existsSync(target) || (entry.isFile() && (await this.#isSavedSince(source, target, path))))
        await rename(source, target).catch(() => undefined);
      else if (entry.isDirectory() && statSync(target).isDirectory()) await this.#leftovers(source, target, path);
    }
  }

  /** Never a file of the model or a record of it: the release stays whole (F1). An unchanged file is the same one, linked. */
  async #isSavedSince(source: string, target: string, path: string): Promise<boolean> {
    const [old, now] = await Promise.all([source, target].map((file) => lstat(file).catch(() => null)));
    if (!old || !now?.isFile() || old.ino === now.ino || old.mtimeMs <= now.mtimeMs) return false;
    return !path.startsWith(join(BOOKS, "/")) && !existsSync(bookOf(this.#target, path));
  }
}

async function writeBooks(tree: string, release: Release): Promise<void> {
  const books = join(tree, BOOKS);
  const at = Date.now() / 1_000;
  for (const file of release.files) {
    const path = bookOf(tree, file.path);
    await mkdir(dirname(path), { recursive: true });
    // Never through the hard link: the old folder's own record stays unchanged.
    await rm(path, { force: true });
    await writeFile(path, `${release.commit}\n${blobName(file)}\n${at}\n`);
  }
  await mkdir(join(books, "trees"), { recursive: true });
  const marker = {
    model_id: release.modelId,
    revision: release.commit,
    asked: release.revision,
    files: release.files.length,
    bytes: release.files.reduce((sum, file) => sum + file.size, 0),
    pulled_at: release.pulledAt,
  };
  const texts: [string, string][] = [
    [join(books, "trees", `${release.commit}.json`), treeListing(release.all)],
    [join(books, ".gitignore"), "*"],
    [join(books, "CACHEDIR.TAG"), CACHEDIR_TAG],
    [join(tree, MARKER), `${JSON.stringify(marker, null, 2)}\n`],
  ];
  for (const [path, text] of texts) {
    await rm(path, { force: true });
    await writeFile(path, text, { flush: true });
  }
}

function unlessMissing(e: unknown): void {
  if (!isMissing(e)) throw e;
}

const bookOf = (folder: string, path: string): string => join(folder, BOOKS, "download", `${path}.metadata`);

const refused = (path: string, why: string): SvcError => new SvcError("hub_folder_refused", { path, why });
