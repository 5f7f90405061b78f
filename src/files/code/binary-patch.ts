// Writes the change of a binary file, as `git diff --binary` does and `git apply` reads it: both contents in full,
// deflated, in base 85.

import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
const LINE_BYTES = 52;
const NONE = "0".repeat(40);

/** The part after the names and modes of one change. Null means that the file does not exist. */
export function binaryPatch(old: Buffer | null, now: Buffer | null): string {
  return `index ${blobId(old)}..${blobId(now)}\nGIT binary patch\n${literal(now)}\n${literal(old)}\n`;
}

/** The id by which git checks that it patches the intended file. */
const blobId = (content: Buffer | null): string =>
  content === null ? NONE : createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");

function literal(content: Buffer | null): string {
  const bytes = content ?? Buffer.alloc(0);
  const packed = deflateSync(bytes);
  const lines = [`literal ${bytes.length}\n`];
  for (let at = 0; at < packed.length; at += LINE_BYTES) {
    const line = packed.subarray(at, at + LINE_BYTES);
    // A to Z for 1 to 26 bytes, a to z for more.
    lines.push(String.fromCharCode(line.length <= 26 ? 64 + line.length : 70 + line.length), base85(line), "\n");
  }
  return lines.join("");
}

/** Five digits for each four bytes, the most significant first; zeros pad the last four. */
function base85(bytes: Buffer): string {
  const words = Buffer.alloc(Math.ceil(bytes.length / 4) * 4);
  bytes.copy(words);
  let text = "";
  for (let at = 0; at < words.length; at += 4) {
    let word = words.readUInt32BE(at);
    let digits = "";
    for (let i = 0; i < 5; i++) {
      digits = DIGITS.charAt(word % 85) + digits;
      word = Math.floor(word / 85);
    }
    text += digits;
  }
  return text;
}
