// Finds the folders of a listing that are checkpoints of many files: those that were announced, and those that a framework has marked.

import type { RemoteFile } from "../../providers/host.ts";
import { isOurs } from "./files.ts";
import { foldersOf, unfinishedFolders, whyTemporary } from "./names.ts";

/**
 * Frameworks mark a complete folder with these files: torch DCP and Megatron, the Trainer of Hugging Face, Orbax,
 * TensorFlow's SavedModel.
 */
export const LAST_WRITTEN = [".metadata", "trainer_state.json", "_CHECKPOINT_METADATA", "saved_model.pb"];
/** TensorFlow's CheckpointManager replaces this file after each save: it names the last prefix of those in its folder. */
export const TF_STATE = "checkpoint";
const TF_INDEX = /\.index$/;
/** The Trainer also writes this file at the end, into the folder of all of its checkpoints. */
const TRAINER_STATE = "trainer_state.json";
/** The marks among these file names. */
export const marksIn = (names: ReadonlySet<string>): string[] => [
  ...LAST_WRITTEN.filter((mark) => names.has(mark)),
  ...(names.has(TF_STATE) && [...names].some((name) => TF_INDEX.test(name)) ? [TF_STATE] : []),
];

/** The folders that a framework has marked as checkpoints. @param folders the names in each folder */
export function markedFolders(folders: ReadonlyMap<string, ReadonlySet<string>>): Set<string> {
  const hold = new Set<string>();
  for (const [folder, names] of folders)
    if (names.has(TRAINER_STATE)) for (const above of foldersOf(folder)) hold.add(above);
  const marked = new Set<string>();
  for (const [folder, names] of folders)
    if (marksIn(names).some((mark) => mark !== TRAINER_STATE || !hold.has(folder))) marked.add(folder);
  return marked;
}

/** The files of a folder that mark it. */
export const marksOf = (name: string, files: readonly RemoteFile[]): RemoteFile[] =>
  [...LAST_WRITTEN, TF_STATE].flatMap((last) => files.find(({ path }) => path === `${name}/${last}`) ?? []);

/** The folders of a listing that are sets, with all their files. */
export function setsIn(
  listing: readonly RemoteFile[],
  announced: ReadonlyMap<string, number>,
  tracked: ReadonlySet<string>,
  onlyTracked: boolean,
): Map<string, RemoteFile[]> {
  const unfinished = unfinishedFolders(listing);
  const names = new Map<string, Set<string>>();
  for (const { path, refused } of listing) {
    const folder = foldersOf(path).at(-1) ?? "";
    if (refused !== undefined) continue;
    const inside = names.get(folder) ?? new Set<string>();
    names.set(folder, inside.add(path.slice(path.lastIndexOf("/") + 1)));
  }
  const marked = new Set(tracked);
  for (const folder of onlyTracked ? [] : markedFolders(names)) marked.add(folder);
  const sets = new Map<string, RemoteFile[]>();
  for (const file of listing) {
    if (file.path.split("/").some(isOurs) || whyTemporary(file.path, unfinished) !== null) continue;
    for (const folder of foldersOf(file.path)) {
      if (folder === "" || !(announced.has(folder) || marked.has(folder))) continue;
      const files = sets.get(folder);
      if (files) files.push(file);
      else sets.set(folder, [file]);
    }
  }
  return sets;
}
