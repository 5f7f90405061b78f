import { constants } from "node:fs";
import { copyFile, link } from "node:fs/promises";
import { systemCode } from "../errors/index.ts";

/** A second name of a file that is replaced, never written to; a copy where the file system knows no such names. */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (e) {
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "EMLINK", "ENOSYS", "EXDEV"].includes(systemCode(e))) throw e;
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  }
}
