// Whether the disk at home has room for a file. A checkpoint that does not fit must not fill the disk that the log is written to.

import { statfs } from "node:fs/promises";
import { bytes } from "../../domain/bytes.ts";
import { SvcError } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";

/** A file for which the disk has no room. */
export interface NoRoom {
  path: string;
  /** What the file takes on a disk: holes take nothing. */
  needs: number;
  free: number;
  /** The whole disk. */
  total: number;
}

/** Downloads leave so much free for logs and the store: this share of the disk, at most this many bytes. */
const LEFT_SHARE = 0.02;
const LEFT_MAX = 64 << 20;

export async function roomIn(folder: string): Promise<{ free: number; total: number }> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const total = blocks * bsize;
  return { free: Math.max(0, bavail * bsize - Math.min(LEFT_MAX, total * LEFT_SHARE)), total };
}

/** @param more bytes that are still to come of the file. */
export async function lacksRoom(folder: string, file: RemoteFile, more = needOf(file)): Promise<NoRoom | null> {
  const room = await roomIn(folder);
  return more > room.free ? { path: file.path, needs: more, ...room } : null;
}

/** What a failed write tells: the disk, or the user's share of it, was full. */
export const hadNoRoom = async (folder: string, file: RemoteFile): Promise<NoRoom> => ({
  path: file.path,
  needs: needOf(file),
  ...(await roomIn(folder)),
});

const needOf = ({ size, stored }: RemoteFile): number => stored ?? size;

/** No amount of cleaning up makes room for it. */
export const neverFits = ({ needs, total }: NoRoom): boolean => needs > total;

export const noRoomError = (folder: string, lack: NoRoom): SvcError =>
  new SvcError("disk_full", { path: `${folder} (${lack.path}: ${whyNoRoom(lack)})` });

export const whyNoRoom = (lack: NoRoom): string =>
  neverFits(lack)
    ? `it takes ${bytes(lack.needs)}, and the whole disk of this computer has ${bytes(lack.total)}`
    : `it takes ${bytes(lack.needs)}, and the disk of this computer has room for ${bytes(lack.free)}`;

/** For a warning while the run goes on. */
export function noRoomWords(lack: NoRoom): string {
  const todo = neverFits(lack)
    ? "Copy it from the machine to another place before the run ends (`svc ssh`), or write smaller files: it is lost with the machine otherwise."
    : "Free some space: the download is tried again until the run has ended, and then for as long as the machine may be kept.";
  return `The file ${lack.path} cannot be downloaded: ${whyNoRoom(lack)}. ${todo} Other files and the log are still downloaded.`;
}
