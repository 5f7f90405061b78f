// A model in the cache that the hub's own library reads: `<cache>/models--owner--name/{blobs,refs,snapshots,trees}`.
//
// C1. A blob is named by its content and never changes; a snapshot holds relative links to blobs.
// C2. A snapshot is made under a temporary name and renamed into `snapshots/`; an existing one (with other files of the
//     same commit) gains links.
// C3. `refs/<revision>` is written last: it always leads to a complete snapshot.
// C4. Unfinished blobs have names of svc's own: the library and other homes never resume them, nor does svc resume
//     theirs.

import { copyFile, mkdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { replaceFile } from "../platform/replace-file.ts";
import { nullIfMissing, SvcError } from "../errors/index.ts";
import { blobName, type HubFile } from "./client.ts";
import { hasBlob } from "./fetch-blob.ts";
import { CACHEDIR_TAG, treeListing, type BlobPlaces, type Place, type Release } from "./place.ts";

/** `owner/name` as the name of its folder in a cache. */
export const repoFolder = (modelId: string): string => `models--${modelId.replaceAll("/", "--")}`;

/** Windows may have a copy instead of a symlink. */
const nullIfNoLink = (thrown: NodeJS.ErrnoException): null => (thrown.code === "EINVAL" ? null : nullIfMissing(thrown));

export class CachePlace implements Place {
  readonly #cache: string;
  readonly #repo: string;
  readonly #mark: string;

  /** `cache` is the folder that holds `models--…`. */
  constructor(cache: string, modelId: string, mark: string) {
    this.#cache = cache;
    this.#repo = join(cache, repoFolder(modelId));
    this.#mark = mark;
  }

  get key(): string {
    return this.#repo;
  }
  get disk(): string {
    return this.#repo;
  }

  async prepare(): Promise<void> {
    await mkdir(join(this.#repo, "blobs"), { recursive: true }).catch((e: NodeJS.ErrnoException) => {
      throw new SvcError("hub_folder_refused", { path: this.#repo, why: `cannot be made (${e.code ?? e.message})` });
    });
    await writeFile(join(this.#cache, "CACHEDIR.TAG"), CACHEDIR_TAG, { flag: "wx" }).catch(() => undefined);
  }

  blob(file: HubFile): BlobPlaces {
    const whole = join(this.#repo, "blobs", blobName(file));
    return { whole, partial: `${whole}.svc-${this.#mark}.incomplete` };
  }

  async kept(files: readonly HubFile[]): Promise<Set<string>> {
    const kept = new Set<string>();
    for (const file of files) if (await hasBlob(file, this.blob(file))) kept.add(file.path);
    return kept;
  }

  async publish(release: Release): Promise<string> {
    const snapshot = join(this.#repo, "snapshots", release.commit);
    const aside = join(this.#repo, `.svc-${this.#mark}`, release.commit);
    await rm(dirname(aside), { recursive: true, force: true });
    await mkdir(aside, { recursive: true });
    await mkdir(dirname(snapshot), { recursive: true });
    await this.#fill(aside, release, snapshot);
    // A rename succeeds if the target is missing or an empty folder; otherwise the existing snapshot only gains files.
    await rename(aside, snapshot).catch((e: NodeJS.ErrnoException) => {
      if (!["ENOTEMPTY", "EEXIST", "EPERM", "ENOTDIR"].includes(e.code ?? "")) throw e;
      return this.#fill(snapshot, release, snapshot);
    });
    await rm(dirname(aside), { recursive: true, force: true });
    await this.#put(join("trees", `${release.commit}.json`), treeListing(release.all));
    if (release.revision !== release.commit) await this.#put(join("refs", release.revision), release.commit);
    return snapshot;
  }

  async #fill(folder: string, release: Release, snapshot: string): Promise<void> {
    for (const file of release.files) {
      const { whole } = this.blob(file);
      const path = join(folder, file.path);
      const target = relative(dirname(join(snapshot, file.path)), whole);
      if ((await readlink(path).catch(nullIfNoLink)) === target) continue;
      await mkdir(dirname(path), { recursive: true });
      const temporary = `${path}.svc-${this.#mark}`;
      await rm(temporary, { force: true });
      // Windows lets only some users make symlinks.
      await symlink(target, temporary).catch(() => copyFile(whole, temporary));
      await rename(temporary, path);
    }
  }

  async #put(name: string, text: string): Promise<void> {
    const path = join(this.#repo, name);
    await mkdir(dirname(path), { recursive: true });
    replaceFile(path, text);
  }
}
