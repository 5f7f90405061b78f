// A model in a folder of its own: plain files, nothing to resolve, as every library takes it.
//
// F1. The folder is made beside its place and renamed into it: it is there whole, or as it was before.
// F2. What a user put into the folder stays. Files that the release does not have stay, too.
// F3. The bookkeeping is the one of the hub's own library (`.cache/huggingface`), which then finds the files offline.
// F4. A crash between the two renames leaves a finished tree; the next look at the place finishes it.

import { existsSync, statSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, readlink, realpath, rename, rm, symlink, writeFile } from "node:fs/promises";
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

  /** `mark` keeps the half-done work of several homes apart. */
  private constructor(target: string, mark: string) {
    this.#target = target;
    this.#staging = join(dirname(target), `.${basename(target)}.svc-${mark}`);
  }

  /** Follows a link that the user made of the folder. Throws `hub_folder_refused`. */
  static async at(folder: string, mark: string): Promise<FolderPlace> {
    if (dirname(folder) === folder) throw refused(folder, "is the root of a disk");
    await mkdir(dirname(folder), { recursive: true }).catch((e: unknown) => {
      throw refused(folder, `has no usable folder above it (${systemCode(e)})`);
    });
    const target = await realpath(folder).catch(async (e: unknown) => {
      // What it leads to might be made meanwhile, by somebody else.
      if (isMissing(e) && (await lstat(folder).catch(() => null))?.isSymbolicLink())
        throw refused(folder, "is a link that leads to nothing");
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

  /** What the bookkeeping says of a file that nobody changed since. */
  async #known(path: string, mtimeMs: number): Promise<string | null> {
    const text = await readFile(join(this.#target, BOOKS, "download", `${path}.metadata`), "utf8").catch(() => "");
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

  /** Everything of the old folder by hard links, but for what is replaced. */
  async #carryOver(from: string, to: string, replaced: ReadonlySet<string>, below = ""): Promise<void> {
    for (const entry of await readdir(from, { withFileTypes: true })) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (replaced.has(path)) {
        if (entry.isDirectory()) throw refused(this.#target, `holds a folder ${path} where the model has a file`);
      } else if (entry.isDirectory()) {
        await mkdir(target);
        await this.#carryOver(source, target, replaced, path);
      } else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
      else if (entry.isFile()) await linkOrCopy(source, target);
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

  /** F4: `ready` is a tree that lacks nothing but its name. */
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

  /** What somebody put into the old folder while the new one was made. */
  async #leftovers(from: string, to: string): Promise<void> {
    for (const entry of await readdir(from, { withFileTypes: true })) {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (!existsSync(target)) await rename(source, target).catch(() => undefined);
      else if (entry.isDirectory() && statSync(target).isDirectory()) await this.#leftovers(source, target);
    }
  }
}

async function writeBooks(tree: string, release: Release): Promise<void> {
  const books = join(tree, BOOKS);
  const at = Date.now() / 1_000;
  for (const file of release.files) {
    const path = join(books, "download", `${file.path}.metadata`);
    await mkdir(dirname(path), { recursive: true });
    // Never through the hard link: the old folder's own stays as it is.
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

const refused = (path: string, why: string): SvcError => new SvcError("hub_folder_refused", { path, why });
