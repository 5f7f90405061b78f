// Computes the fingerprints of a file in one reading, to compare sent bytes, part by part, with the stored ones.

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { SvcError } from "../errors/index.ts";

const READ_BYTES = 1024 * 1024;

export interface Fingerprint {
  /** Hexadecimal. */
  sha256: string;
  md5: Buffer;
  partMd5s: Buffer[];
}

/** For the first `size` bytes. Throws `file_not_found` if the file has fewer. */
export async function fileFingerprint(
  file: FileHandle,
  size: number,
  partBytes: number,
  signal: AbortSignal,
): Promise<Fingerprint> {
  const whole = createHash("sha256");
  const md5 = createHash("md5");
  const partMd5s: Buffer[] = [];
  const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, Math.max(1, size)));
  let part = createHash("md5");
  for (let at = 0; at < size;) {
    signal.throwIfAborted();
    const partEnd = Math.min(size, (partMd5s.length + 1) * partBytes);
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, partEnd - at), at);
    if (bytesRead === 0) throw new SvcError("file_not_found", { path: "that is as long as it was" });
    const piece = buffer.subarray(0, bytesRead);
    whole.update(piece);
    md5.update(piece);
    part.update(piece);
    at += bytesRead;
    if (at === partEnd) {
      partMd5s.push(part.digest());
      part = createHash("md5");
    }
  }
  return { sha256: whole.digest("hex"), md5: md5.digest(), partMd5s };
}

/** The same for bytes in memory. */
export function fingerprintOf(bytes: Buffer): Fingerprint {
  const md5 = createHash("md5").update(bytes).digest();
  return { sha256: createHash("sha256").update(bytes).digest("hex"), md5, partMd5s: [md5] };
}

/** Exactly `length` bytes. */
export async function readExactly(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  for (let got = 0; got < length;) {
    const { bytesRead } = await file.read(buffer, got, length - got, offset + got);
    if (bytesRead === 0) throw new SvcError("file_not_found", { path: "that is as long as it was" });
    got += bytesRead;
  }
  return buffer;
}
