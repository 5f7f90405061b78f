// Names of files as bytes. A system that is not Windows allows any bytes but "/" and NUL in a name; JavaScript strings and JSON do not.
//
// A name that is not UTF-8 travels as Python's `surrogateescape` writes it: each byte that does not decode is one lone
// surrogate, U+DC80 to U+DCFF. Two names never become the same text that way. On this computer and in every list such
// bytes, and the characters that a terminal obeys (control characters, marks of text direction), are written as `%` and
// two hexadecimal digits per byte.

import { isUtf8 } from "node:buffer";
import { OBEYED } from "./terminal-text.ts";

/** With `u` a surrogate only matches where it stands alone. */
const LONE = /[\udc80-\udcff]/u;
const UNSAFE = new RegExp(String.raw`[${OBEYED}\\\ud800-\udfff]`, "gu");

/** The text of a name. */
export function textOfName(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString("utf8");
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = characterAt(bytes, at);
    text += length === 0 ? String.fromCharCode(0xdc00 + bytes.readUInt8(at)) : bytes.toString("utf8", at, at + length);
    at += length || 1;
  }
  return text;
}

/** How many bytes the UTF-8 character at `at` has; 0 where there is none. */
function characterAt(bytes: Buffer, at: number): number {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length++)
    if (isUtf8(bytes.subarray(at, at + length))) return length;
  return 0;
}

/** A path for the file system: bytes if the text holds any that are not UTF-8. */
export function systemPath(text: string): string | Buffer {
  if (!LONE.test(text)) return text;
  return Buffer.concat(
    text
      .split(/([\udc80-\udcff])/u)
      .map((part) => (LONE.test(part) ? Buffer.from([part.charCodeAt(0) - 0xdc00]) : Buffer.from(part, "utf8"))),
  );
}

/** The name under which a file is stored on this computer and shown. */
export function safeName(path: string): string {
  const drive = /^[A-Za-z]:/.test(path) ? `${path[0]}%3A${path.slice(2)}` : path;
  return drive.replace(UNSAFE, hexOf);
}

function hexOf(character: string): string {
  const code = character.charCodeAt(0);
  const bytes = code >= 0xdc80 && code <= 0xdcff ? [code - 0xdc00] : [...Buffer.from(character, "utf8")];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
}
