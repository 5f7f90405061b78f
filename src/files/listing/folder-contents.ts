// The names in one folder, by kind. `project-listing.ts` and `look-ahead.ts` read a project through it.

import { readdirSync } from "node:fs";
import { mayBeProtected } from "./protections.ts";

export type EntryKind = "file" | "folder" | "symlink" | "odd";

/**
 * The entries of a folder. Keeps only names: an object for each of 50,000 files would cost more than reading the
 * folders does.
 */
export class FolderContents {
  /** In byte order, as the system call's result was sorted. */
  readonly #files: string[] = [];
  readonly #others = new Map<string, EntryKind>();
  /** The index of the next file, for callers that ask in order. */
  #next = 0;
  #set: Set<string> | null = null;
  /** Whether a rule of our own may speak of one of the files. */
  readonly anyProtected: boolean;

  /** Throws the errors of `readdir`. */
  constructor(path: string) {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isFile()) this.#files.push(entry.name);
      else this.#others.set(entry.name, entry.isDirectory() ? "folder" : entry.isSymbolicLink() ? "symlink" : "odd");
    }
    this.anyProtected = this.#files.some(mayBeProtected);
  }

  get size(): number {
    return this.#files.length + this.#others.size;
  }

  /** Whether the path is that of the next file in order. @param from the index of the file's name in `path`. */
  isNextFile(path: string, from: number): boolean {
    const name = this.#files[this.#next];
    if (name === undefined || path.length !== from + name.length || !path.endsWith(name)) return false;
    this.#next++;
    return true;
  }

  kindOf(name: string): EntryKind | undefined {
    const other = this.#others.size === 0 ? undefined : this.#others.get(name);
    if (other !== undefined) return other;
    if (this.#files[this.#next] === name) {
      this.#next++;
      return "file";
    }
    this.#set ??= new Set(this.#files);
    return this.#set.has(name) ? "file" : undefined;
  }

  /** Like `kindOf`, for a name that is asked for out of order. */
  find(name: string): EntryKind | undefined {
    return this.#others.get(name) ?? (this.#files.includes(name) ? "file" : undefined);
  }

  isFolder(name: string): boolean {
    return this.#others.get(name) === "folder";
  }

  /** Everything but files. */
  others(): IterableIterator<[string, EntryKind]> {
    return this.#others.entries();
  }
}
