// Checks whether a checkpoint file is complete, as far as its format tells.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { z } from "zod";
import { boundedJson } from "../../domain/bounded-json.ts";
import { LAST_WRITTEN } from "./folders-in-listing.ts";

const ZIP_TAIL = 65_558;
/** A ZIP's last record: its first bytes, and its length without the comment, whose length is in its last two bytes. */
const [ZIP_END, ZIP_END_BYTES] = ["PK\x05\x06", 22];
const HEADER_MAX = 100_000_000;
/** Files that are a checkpoint by themselves. */
export const SINGLE = /\.(?:ckpt|pt|pth|keras|safetensors|npz|h5|hdf5)$/;

/** False for a truncated file, if its format shows that: by the end of a ZIP or the lengths of its header. */
export async function isWhole(path: string, size: number, name = path): Promise<boolean> {
  if (LAST_WRITTEN.includes(name.slice(name.lastIndexOf("/") + 1))) return size > 0;
  if (!SINGLE.test(name)) return true;
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null);
  if (file === null) return false;
  const read = async (at: number, length: number): Promise<Buffer> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
    return buffer.subarray(0, bytesRead);
  };
  try {
    const start = await read(0, 8);
    if (start.subarray(0, 2).toString("latin1") === "PK") {
      const tail = Math.min(size, ZIP_TAIL);
      return hasEndOfZip(await read(size - tail, tail));
    }
    if (name.endsWith(".safetensors")) {
      if (start.length < 8) return false;
      const length = Number(start.readBigUInt64LE());
      if (length > Math.min(size - 8, HEADER_MAX)) return false;
      const tensors = Tensors.safeParse(boundedJson((await read(8, length)).toString("utf8")));
      if (!tensors.success) return false;
      const ends = Object.entries(tensors.data).map(([name, t]) => (name === "__metadata__" ? 0 : t.data_offsets![1]));
      return size === 8 + length + Math.max(0, ...ends);
    }
    if (/\.(?:h5|hdf5)$/.test(name)) return size >= endOfHdf5(await read(0, 48));
    // These are ZIPs; the old formats of torch.save cannot show it.
    return size > 0 && !/\.(?:keras|npz)$/.test(name);
  } catch {
    return false;
  } finally {
    await file.close();
  }
}

/**
 * Whether the format proves that the file is complete: a ZIP with its list of contents, or tensors that fill it
 * exactly.
 * @param name its ending determines the format.
 */
export async function isProvenWhole(path: string, size: number, name: string): Promise<boolean> {
  if (!SINGLE.test(name)) return false;
  if (name.endsWith(".safetensors")) return isWhole(path, size, name);
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null);
  if (file === null) return false;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer.toString("latin1") === "PK" && (await isWhole(path, size, name));
  } finally {
    await file.close();
  }
}

/** Whether the bytes hold the last record of a ZIP, with all of its own bytes and its comment. */
function hasEndOfZip(tail: Buffer): boolean {
  for (let at = tail.lastIndexOf(ZIP_END); at >= 0; at = at === 0 ? -1 : tail.lastIndexOf(ZIP_END, at - 1)) {
    const end = at + ZIP_END_BYTES;
    if (end <= tail.length && end + tail.readUInt16LE(end - 2) <= tail.length) return true;
  }
  return false;
}

const HDF5 = Buffer.from("\x89HDF\r\n\x1a\n", "latin1");

/** The end of an HDF5 file by its superblock; infinity if it has none. */
function endOfHdf5(start: Buffer): number {
  if (!start.subarray(0, 8).equals(HDF5) || start.length < 48) return Infinity;
  const version = start[8] ?? 0;
  const offsetBytes = version < 2 ? start[13] : start[9];
  if (offsetBytes !== 8) return 0;
  return Number(start.readBigUInt64LE(version === 0 ? 40 : version === 1 ? 44 : 28));
}

const Tensors = z.record(z.string(), z.object({ data_offsets: z.tuple([z.number(), z.number()]).optional() }));
