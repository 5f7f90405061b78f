// Files next to checkpoints that name the last complete one: DeepSpeed's `latest`, Megatron's
// `latest_checkpointed_iteration.txt`. Both are written after every process has saved.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";

/** For each tracker's name, a function that returns the folder named in its text; null if it names none. */
export const TRACKERS: ReadonlyMap<string, (text: string) => string | null> = new Map([
  ["latest", (text) => (/^[\w.=-]{1,128}$/.test(text) && !/^\.+$/.test(text) ? text : null)],
  [
    "latest_checkpointed_iteration.txt",
    (text) => (/^[0-9]{1,9}$/.test(text) ? `iter_${text.padStart(7, "0")}` : text === "release" ? text : null),
  ],
]);
const TRACKER_BYTES = 256;

/** The folders that local tracker files name. */
export async function trackedFolders(targetDir: string, files: readonly { path: string }[]): Promise<Set<string>> {
  const found = new Set<string>();
  for (const { path } of files) {
    const at = path.lastIndexOf("/") + 1;
    const meaning = TRACKERS.get(path.slice(at));
    if (meaning === undefined) continue;
    const folder = meaning((await beginningOf(join(targetDir, path))).trim());
    if (folder !== null) found.add(path.slice(0, at) + folder);
  }
  return found;
}

async function beginningOf(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null);
  if (file === null) return "";
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TRACKER_BYTES), 0, TRACKER_BYTES, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await file.close();
  }
}
