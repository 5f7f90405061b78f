// Reads the file of a stored log.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { textOfLost } from "../domain/lost-log.ts";
import { isMissing } from "../errors/index.ts";

/** `length` bytes at `offset` of a log of which `stored` bytes count. Where the file lacks them, the answer says so. */
export function readStoredLog(file: string, offset: number, length: number, stored: number): Buffer {
  let fd: number | null = null;
  try {
    fd = openSync(file, "r");
  } catch (e) {
    if (!isMissing(e)) throw e;
  }
  if (fd === null) return textOfLost({ from: 0, to: stored }, offset, length);
  try {
    const buffer = Buffer.allocUnsafe(length);
    let got = 0;
    while (got < length) {
      const n = readSync(fd, buffer, got, length - got, offset + got);
      if (n === 0) break;
      got += n;
    }
    if (got === length) return buffer;
    const lost = { from: Math.min(offset + got, fstatSync(fd).size), to: stored };
    return Buffer.concat([buffer.subarray(0, got), textOfLost(lost, offset + got, length - got)]);
  } finally {
    closeSync(fd);
  }
}
