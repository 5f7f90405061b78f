import { link, stat } from "node:fs/promises";
import { systemCode } from "../errors/index.ts";
import { copyWithHoles } from "./copy-with-holes.ts";

/** A second name of a file that is replaced, never written to; a copy where the file system knows no such names. */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (e) {
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "EMLINK", "ENOSYS", "EXDEV"].includes(systemCode(e))) throw e;
    const { size, blocks } = await stat(from);
    await copyWithHoles({ from, to, size, stored: blocks * 512 });
  }
}
