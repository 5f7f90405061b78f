import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

const BLOCK = 1 << 20;

/** SHA-256, in hexadecimal, of the bytes from `start` to `end`, or to the end of the file if that comes first. */
export async function hashOf(file: FileHandle, start: number, end: number): Promise<string> {
  const hash = createHash("sha256");
  const block = Buffer.allocUnsafe(Math.min(BLOCK, Math.max(0, end - start)));
  for (let at = start; at < end;) {
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, end - at), at);
    if (bytesRead === 0) break;
    hash.update(block.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash.digest("hex");
}
