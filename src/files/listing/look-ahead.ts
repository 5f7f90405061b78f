// Reads the folders of a project while git scans them, so that git's answer can be matched with them at once.
//
// It serves speed, and one refusal: git opens a pipe in place of a `.gitignore` and blocks until a process writes into
// it. Nothing else depends on this reading, so it may know only roughly what git ignores.

import { lstatSync } from "node:fs";
import { join } from "node:path";
import { FolderContents } from "./folder-contents.ts";
import { decideBy, readRules, type Frame } from "./own-walk.ts";
import { never } from "./protections.ts";
import { Slices } from "./slices.ts";

/** Entries that are kept in memory: as many as a project may have files. */
const ENTRIES_MAX = 200_000;

export class LookAhead {
  readonly #root: string;
  readonly #folders = new Map<string, FolderContents>();
  readonly #slices = new Slices();
  #entries = 0;
  #stopped = false;

  constructor(root: string) {
    this.#root = root;
  }

  /** The entries of the folder; null if it was not read yet. Each result is returned once. */
  take(folder: string): FolderContents | null {
    const contents = this.#folders.get(folder);
    if (!contents) return null;
    this.#folders.delete(folder);
    return contents;
  }

  stop(): void {
    this.#stopped = true;
  }

  /**
   * Resolves with the path of a pipe on which git blocks, or with null when everything was read or `stop` was called.
   */
  async run(): Promise<string | null> {
    const queue: { path: string; frames: readonly Frame[] }[] = [{ path: "", frames: [] }];
    for (const { path, frames } of queue) {
      if (this.#slices.areLong()) await this.#slices.pause();
      if (this.#stopped) return null;
      let contents: FolderContents;
      try {
        contents = new FolderContents(join(this.#root, path));
      } catch {
        // The listing decides whether that matters.
        continue;
      }
      this.#entries += contents.size;
      if (this.#entries <= ENTRIES_MAX) this.#folders.set(path, contents);
      const below = path === "" ? "" : `${path}/`;
      const rules = join(this.#root, path, ".gitignore");
      const kind = contents.find(".gitignore");
      if (kind === "odd" && lstatSync(rules, { throwIfNoEntry: false })?.isFIFO()) return `${below}.gitignore`;
      // The rules of a repository end where another repository begins.
      let here = contents.find(".git") === undefined ? frames : [];
      try {
        if (kind === "file") here = [...here, { base: path, rules: readRules(rules, false, true) }];
      } catch {
        // Git itself reports that it cannot read them.
      }
      for (const [name, what] of contents.others())
        if (what === "folder" && !never.decide(name, true) && decideBy(here, below + name, true) !== true)
          queue.push({ path: below + name, frames: here });
    }
    return null;
  }
}
