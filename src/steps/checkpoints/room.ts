// Checks whether the local disk has room for a file. An oversized checkpoint must not fill the disk of the log.

import { statfs } from "node:fs/promises";
import { bytes } from "../../domain/bytes.ts";
import { SvcError } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";

/** A file that does not fit on the disk. */
export interface NoRoom {
  path: string;
  /** The bytes that the file needs on a disk: holes need none. */
  needs: number;
  free: number;
  /** The whole disk. */
  total: number;
}

/** Downloads leave this much free for logs and the store: this share of the disk, at most this many bytes. */
const LEFT_SHARE = 0.02;
const LEFT_MAX = 64 << 20;

export async function roomIn(folder: string): Promise<{ free: number; total: number }> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const total = blocks * bsize;
  return { free: Math.max(0, bavail * bsize - Math.min(LEFT_MAX, total * LEFT_SHARE)), total };
}

/** @param more remaining bytes of the file. */
export async function lacksRoom(folder: string, file: RemoteFile, more = needOf(file)): Promise<NoRoom | null> {
  const room = await roomIn(folder);
  return more > room.free ? { path: file.path, needs: more, ...room } : null;
}

/** The result of a failed write: the disk, or the user's quota, was full. */
export const hadNoRoom = async (folder: string, file: RemoteFile): Promise<NoRoom> => ({
  path: file.path,
  needs: needOf(file),
  ...(await roomIn(folder)),
});

const needOf = ({ size, stored }: RemoteFile): number => stored ?? size;

/** No clean-up can make room for it. */
const neverFits = ({ needs, total }: NoRoom): boolean => needs > total;

/** The error for the first of these files that some freed space would let in; undefined if none would ever fit. */
export function noRoomYet(folder: string, lacking: readonly NoRoom[]): SvcError | undefined {
  const fits = lacking.find((lack) => !neverFits(lack));
  return fits && noRoomError(folder, fits);
}

const noRoomError = (folder: string, lack: NoRoom): SvcError =>
  new SvcError("disk_full", { path: `${folder} (${lack.path}: ${whyNoRoom(lack)})` });

export const whyNoRoom = (lack: NoRoom): string =>
  neverFits(lack)
    ? `it takes ${bytes(lack.needs)}, and the whole disk of this computer has ${bytes(lack.total)}`
    : `it takes ${bytes(lack.needs)}, and the disk of this computer has room for ${bytes(lack.free)}`;

/** For a warning during the run. */
export function noRoomWords(lack: NoRoom): string {
  const todo = neverFits(lack)
    ? "Copy it from the machine to another place before the run ends (`svc ssh`), or write smaller files: it is lost with the machine otherwise."
    : "Free some space: the download is tried again until the run has ended, and then for as long as the machine may be kept.";
  return `The file ${lack.path} cannot be downloaded: ${whyNoRoom(lack)}. ${todo} Other files and the log are still downloaded.`;
}
