// The request for a scan of the checkpoint directory, and its result.

import type { CheckpointFile } from "../../schemas/job.ts";
import type { NoRoom } from "./room.ts";

export interface CheckpointScan {
  /** The run has ended: no file will change any more. */
  final: boolean;
  /** It ended by itself with exit code 0: nothing is half written. */
  hasSucceeded?: boolean;
  /**
   * Files and folders that the script announced as complete, relative to the checkpoint directory. The collector takes
   * a name out when everything below it was downloaded; the caller adds it again when it is announced again.
   */
  announced: Set<string>;
  /** Without it, the scan continues until `stop`. */
  signal?: AbortSignal;
  /**
   * Called with every file that is in place, whatever the outcome of the scan; also, once per process, with existing
   * files: the process that downloaded them may have died before it could record them.
   * @param removed files that no longer exist locally.
   */
  record?: (files: CheckpointFile[], removed: readonly string[]) => Promise<void>;
}

export interface ScanResult {
  /** Downloaded by this scan. */
  saved: CheckpointFile[];
  /** Not downloaded yet and still changing: a later scan may download them. */
  pending: string[];
  /** Not downloaded, and why. `again`: the next scan may be able to read it. See `RemoteFile` for the others. */
  skipped: { path: string; why: string; again?: true; isLimit?: true | undefined; others?: number | undefined }[];
  /** Skipped files for which the local disk has no room. */
  noRoom: NoRoom[];
  /** Checkpoints that do not count as complete: folders by announcements.ts AN2, single files by unfinished-files.ts. */
  torn: string[];
}
