// Checks names of checkpoint files, as a machine lists them and a script announces them: untrusted data.

import { firstChars } from "../../domain/terminal-text.ts";
import type { RemoteFile } from "../../providers/host.ts";

export const INCOMPLETE = "checkpoint-is-incomplete.txt";
export const DEPTH_MAX = 32;
const PATH_BYTES_MAX = 4_096;
export const NAME_BYTES_MAX = 255;

/** Why a file in an untrusted listing is refused; null if its path and numbers are valid. */
export function whyRefused(file: RemoteFile): string | null {
  const { path, size, mtimeMs, refused, leadsTo } = file;
  if (refused !== undefined) return refused;
  // The target is requested by that name, and is looked up locally by it.
  if (leadsTo !== undefined) {
    const why = whyRefused({ path: leadsTo, size, mtimeMs, inode: file.inode });
    if (why !== null) return `it is a symlink, and about its target: ${why}`;
  }
  const names = path.split("/");
  // eslint-disable-next-line no-control-regex -- control characters are exactly what is refused
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufffd]/.test(path) || !path.isWellFormed())
    return "its name holds control characters or is not UTF-8";
  if (path.includes("\\") || /^[A-Za-z]:/.test(path)) return "its name is not safe on every system";
  if (names.some((name) => name === "" || name === "." || name === "..")) return "its path is not plain and relative";
  if (names.length > DEPTH_MAX) return `it is more than ${DEPTH_MAX} folders deep`;
  if (Buffer.byteLength(path) > PATH_BYTES_MAX || names.some((n) => Buffer.byteLength(n) > NAME_BYTES_MAX))
    return "its name is too long";
  if (!Number.isSafeInteger(size) || size < 0) return "its size is not a number of bytes";
  if (!Number.isFinite(mtimeMs) || Math.abs(mtimeMs) > 8.64e15) return "its modification time is invalid";
  return null;
}

/** TensorFlow's folders of shards that it has not moved to their place: `ckpt-1_temp`, in version 1 `ckpt-1_temp_0a1b…`. */
const TF_TEMPORARY = /^(.*_temp(?:_[0-9a-f]{32})?)\/part-[0-9]{5}-of-[0-9]{5}[^/]*$/;

/** Any other folder may have such a name: `high_temp`. */
export const temporaryOfTensorFlow = (files: readonly { path: string }[]): Set<string> =>
  new Set(files.flatMap(({ path }) => TF_TEMPORARY.exec(path)?.[1] ?? []));

/** Folders whose content marks them as unfinished, and how. */
export function unfinishedFolders(listing: readonly RemoteFile[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const folder of temporaryOfTensorFlow(listing))
    found.set(folder, "its folder holds shards that TensorFlow has not moved to their place: it was not finished");
  for (const { path } of listing)
    if (path === INCOMPLETE || path.endsWith(`/${INCOMPLETE}`))
      found.set(path.slice(0, -INCOMPLETE.length - 1), `its folder holds ${INCOMPLETE}: it was not finished`);
  return found;
}

/** Includes those of Orbax (`300.orbax-checkpoint-tmp-170000`) and of TensorFlow (`ckpt-1.tempstate123`). */
export const TEMPORARY = /^tmp-|\.tmp$|\.partial$|\.orbax-checkpoint-tmp|\.tempstate[0-9]*$/;

/** Names that programs use for unfinished files. */
export function whyTemporary(path: string, unfinished: ReadonlyMap<string, string>): string | null {
  const name = path.split("/").find((n) => TEMPORARY.test(n));
  if (name !== undefined) return `${name} is a temporary name: it was not finished`;
  if (unfinished.size === 0) return null;
  const folder = foldersOf(path).find((each) => unfinished.has(each));
  return folder === undefined ? null : (unfinished.get(folder) ?? null);
}

// A machine controls the length of lists and announcements: a path is looked up by each of its folders, never compared
// with each name.

/** The folders above a path, starting with the top of all (the empty name). */
export function foldersOf(path: string): string[] {
  const folders = [""];
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) folders.push(path.slice(0, at));
  return folders;
}

/** The names by which an announcement can refer to this file. */
export const placesOf = (path: string): string[] => [...foldersOf(path), path];

/** An announced name in the spelling of `placesOf`. */
export function plainName(name: string): string {
  const plain = name.replace(/^(\.\/)+/, "");
  let end = plain.length;
  while (plain[end - 1] === "/") end--;
  return plain === "." ? "" : plain.slice(0, end);
}

export const printable = (path: string): string => JSON.stringify(firstChars(path, 256)).slice(1, -1);
