// Finds out whether a failed push met a limit on the size of files. Neither tar nor rsync reliably says so.

import { inAnyShell } from "../domain/shell-words.ts";
import { SvcError } from "../errors/index.ts";
import type { TreeOptions } from "./tree-options.ts";
import { FILE_LIMIT } from "./words.ts";

const ASK_MS = 20_000;
/** `sh` counts in blocks of this size, as POSIX says. */
const BLOCK_BYTES = 512;

/** The error if a file of the tree is larger than the machine's user may write; null otherwise, or if the machine does not answer. */
export async function fileLimitMet({ connection, machine, tree, signal }: TreeOptions): Promise<SvcError | null> {
  const done = await connection.exec(inAnyShell("ulimit -f"), { signal, timeoutMs: ASK_MS }).catch(() => null);
  // A greeting may come first.
  const blocks = /(?:^|\s)(\d{1,15})\s*$/.exec(done?.stdout.toString("latin1") ?? "")?.[1];
  if (blocks === undefined || !tree.files.some(({ size }) => size > Number(blocks) * BLOCK_BYTES)) return null;
  return new SvcError("machine_unfit", { machine, why: FILE_LIMIT });
}
