// The words about a checkpoint directory with more files than svc lists.

import { CHECKPOINT_FILES_MAX } from "../../domain/checkpoint-bounds.ts";

const MANY = `The checkpoint directory has more than svc lists (${CHECKPOINT_FILES_MAX.toLocaleString("en")} files)`;
const ORDER =
  "Names given to svc.checkpoint come first, then the files of each folder before its subfolders, in order of name.";

/** @param path of the first file that is left out. @param isOver the run has ended. */
export function limitWords(path: string, { isOver, inPlace }: { isOver: boolean; inPlace: boolean }): string {
  const [what, todo] = isOver
    ? ["were not downloaded", "In the next run, announce what you need, or pack small files into one file."]
    : ["are not downloaded", "Announce what you need, or pack small files into one file, before the run ends."];
  const lost = inPlace ? "are not kept with the run" : "are lost with the machine";
  return `${MANY}: ${path} and what follows it ${what}, and ${lost}. ${ORDER} ${todo}`;
}
