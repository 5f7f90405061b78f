// Reads the folders of a project while git looks through them itself, so that git's answer can be matched with them at once.
//
// It serves speed, and one refusal: git opens a pipe in the place of a `.gitignore` and waits for somebody to write into it. What is
// read here decides nothing else, so its notion of what git ignores may be a rough one.

import { lstatSync } from "node:fs";
import { join } from "node:path";
import { FolderContents } from "./folder-contents.ts";
import { decideBy, readRules, type Frame } from "./own-walk.ts";
import { never } from "./protections.ts";
import { Slices } from "./slices.ts";

/** Entries that are kept in memory: as many files as a project may have. */
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

  /** What lies in the folder; null where that was not read yet. Each answer is given once. */
  take(folder: string): FolderContents | null {
    const contents = this.#folders.get(folder);
    if (!contents) return null;
    this.#folders.delete(folder);
    return contents;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Resolves with the path of a pipe that git waits for, or with null when everything was read or `stop` was called. */
  async run(): Promise<string | null> {
    const queue: { path: string; frames: readonly Frame[] }[] = [{ path: "", frames: [] }];
    for (const { path, frames } of queue) {
      if (this.#slices.areLong()) await this.#slices.pause();
      if (this.#stopped) return null;
      let contents: FolderContents;
      try {
        contents = new FolderContents(join(this.#root, path));
      } catch {
        // Whether that matters, the listing decides.
        continue;
      }
      this.#entries += contents.size;
      if (this.#entries <= ENTRIES_MAX) this.#folders.set(path, contents);
      const below = path === "" ? "" : `${path}/`;
      const rules = join(this.#root, path, ".gitignore");
      const kind = contents.find(".gitignore");
      if (kind === "odd" && lstatSync(rules, { throwIfNoEntry: false })?.isFIFO()) return `${below}.gitignore`;
      // The rules of a repository end where another one begins.
      let here = contents.find(".git") === undefined ? frames : [];
      try {
        if (kind === "file") here = [...here, { base: path, rules: readRules(rules, false, true) }];
      } catch {
        // Git tells that it cannot read them.
      }
      for (const [name, what] of contents.others())
        if (what === "folder" && !never.decide(name, true) && decideBy(here, below + name, true) !== true)
          queue.push({ path: below + name, frames: here });
    }
    return null;
  }
}
