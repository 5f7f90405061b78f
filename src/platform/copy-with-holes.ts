// Copying a file so that its holes stay holes. The system's copy call writes them out as zeros on most file systems: a
// file of 100 GB with one page of data in it would fill the disk.

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { copyFile, open, rm } from "node:fs/promises";
import { promisify } from "node:util";

const BLOCK = 1 << 20;
const run = promisify(execFile);

export interface CopyWithHoles {
  from: string;
  to: string;
  size: number;
  /** Bytes that the file occupies on the disk; absent if it has no holes. */
  stored?: number | undefined;
}

/** Copies a file of which only `stored` bytes are data. `from` may be a symlink, as those in /proc are. */
export async function copyWithHoles({ from, to, size, stored }: CopyWithHoles): Promise<void> {
  if (stored === undefined || stored >= size) return copyFile(from, to, constants.COPYFILE_FICLONE);
  // GNU's cp can ask the file system where the data is; Node cannot.
  const isCopied = await run("cp", ["--sparse=always", "--reflink=auto", "--", from, to], {
    env: { ...process.env, LC_ALL: "C" },
  }).then(
    () => true,
    () => false,
  );
  if (isCopied) return;
  await rm(to, { force: true });
  await copyData(from, to);
}

/** Reads the whole file and writes only the parts that are not zero. */
async function copyData(from: string, to: string): Promise<void> {
  const source = await open(from, "r");
  try {
    const target = await open(to, "wx", 0o600);
    try {
      const block = Buffer.allocUnsafe(BLOCK);
      const zeros = Buffer.alloc(BLOCK);
      let at = 0;
      for (;;) {
        const { bytesRead } = await source.read(block, 0, BLOCK, at);
        if (bytesRead === 0) break;
        if (block.compare(zeros, 0, bytesRead, 0, bytesRead) !== 0)
          for (let done = 0; done < bytesRead;)
            done += (await target.write(block, done, bytesRead - done, at + done)).bytesWritten;
        at += bytesRead;
      }
      await target.truncate(at);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}
