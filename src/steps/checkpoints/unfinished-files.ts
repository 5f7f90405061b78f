// Finds single files that the script had not written to their end, although svc has downloaded all that the machine has of them.
//
// UF1. A file is unfinished if its format shows that it is truncated. Unless its format proves that it is complete, it is also unfinished
//      if the script announced the name on an earlier machine only (AN4), if it has changed since svc first looked after its announcement, or
//      if it is newer than that. Of the latter, a file is believed that was written within LATE_MS of its announcement and has rested for
//      REST_MS while the script ran: the clock of a file server may be ahead.
//      No file is unfinished once the script has ended by itself with exit code 0.
// UF2. An unfinished file is stored under its name, marked as in progress. The complete file with that name is kept as a set before
//      (growing-files.ts G3) until another complete file replaces it. A run resumes from that one.

import type { RemoteFile } from "../../providers/host.ts";
import { isNewer, LATE_MS, REST_MS } from "./announcements.ts";
import { same } from "./files.ts";
import { isProvenWhole, isWhole, SINGLE } from "./whole-file.ts";

/** Facts about the script and its announcement. */
export interface Evidence {
  /** When the file itself was announced last on this machine. */
  announcedAt: number | undefined;
  /** Whether it was announced on an earlier machine, and not on this one. */
  isAnnouncedEarlier: boolean;
  /** How long its listing has not changed, in milliseconds. */
  restedMs: number;
  /** Whether the script has ended, and whether it did so by itself with exit code 0. */
  hasEnded: boolean;
  hasSucceeded: boolean;
}

export class UnfinishedFiles {
  readonly #found = new Map<string, { file: RemoteFile; isTruncated: boolean }>();
  /** Of each announced file: what was listed first after its last announcement. */
  readonly #first = new Map<string, { times: number; file: RemoteFile }>();

  /** To be called with every listing. @param announced how often each name was announced before the listing was requested */
  saw(listing: readonly RemoteFile[], announced: ReadonlyMap<string, number>): void {
    if (announced.size === 0) return;
    for (const file of listing) {
      const times = announced.get(file.path);
      if (times !== undefined && this.#first.get(file.path)?.times !== times)
        this.#first.set(file.path, { times, file });
    }
  }

  /** UF1, for a download at `path`. */
  async finds(file: RemoteFile, path: string, evidence: Evidence): Promise<boolean> {
    const isTruncated = SINGLE.test(file.path) && !(await isWhole(path, file.size, file.path));
    const isProven = !isTruncated && (await isProvenWhole(path, file.size, file.path));
    const isUnfinished = !evidence.hasSucceeded && !isProven && (isTruncated || this.#isWritten(file, evidence));
    if (isUnfinished) this.#found.set(file.path, { file, isTruncated });
    else this.#found.delete(file.path);
    return isUnfinished;
  }

  /** The paths of unfinished files that are still as they were found. */
  among(listing: readonly RemoteFile[]): string[] {
    return listing.filter((file) => this.#isFound(file)).map(({ path }) => path);
  }

  #isFound(file: RemoteFile): boolean {
    const found = this.#found.get(file.path);
    return found !== undefined && same(found.file, file);
  }

  /** Whether this version of the file was found unfinished before, and nothing new says that it is complete. */
  has(file: RemoteFile, evidence: Evidence): boolean {
    if (evidence.hasSucceeded || !this.#isFound(file)) return false;
    return this.#found.get(file.path)?.isTruncated === true || this.#isWritten(file, evidence);
  }

  #isWritten(file: RemoteFile, { announcedAt, isAnnouncedEarlier, restedMs, hasEnded }: Evidence): boolean {
    if (isAnnouncedEarlier) return true;
    if (announcedAt === undefined) return false;
    const first = this.#first.get(file.path)?.file;
    if (first !== undefined && !same(first, file)) return true;
    return isNewer(file, announcedAt) && (hasEnded || restedMs < REST_MS || isNewer(file, announcedAt + LATE_MS));
  }
}
