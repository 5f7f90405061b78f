import { link, stat } from "node:fs/promises";
import { systemCode } from "../errors/index.ts";
import { copyWithHoles } from "./copy-with-holes.ts";

/**
 * Hard-links a file; copies it where the file system does not support hard links. Only for files that are replaced,
 * never modified in place.
 */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (e) {
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "EMLINK", "ENOSYS", "EXDEV"].includes(systemCode(e))) throw e;
    const { size, blocks } = await stat(from);
    await copyWithHoles({ from, to, size, stored: blocks * 512 });
  }
}
