// Sends a file of the home: all of it, or one requested range. It is sent as plain bytes: never rendered, never
// sniffed.

import type { FileHandle } from "node:fs/promises";
import { basename } from "node:path";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../errors/index.ts";
import type { Call } from "./route.ts";

export interface SentFile {
  /** Its last part is the name under which a browser saves it. */
  name: string;
  etag: string;
  contentType: string;
  modified?: Date;
}

/** Answers the call with the file, which stays open. Throws `range_not_satisfiable`. */
export async function sendFile(call: Call, file: FileHandle, about: SentFile): Promise<null> {
  const { size } = await file.stat();
  const { headers } = call.request;
  const { etag } = about;
  const modified = about.modified?.toUTCString();
  const condition = headers["if-range"];
  const current = condition === undefined || condition === etag || condition === modified;
  const range = current ? parseRange(headers.range, size) : null;
  if (range === "unsatisfiable") {
    void call.reply.header("content-range", `bytes */${size}`);
    throw new SvcError("range_not_satisfiable", { size });
  }
  const [start, end] = range ?? [0, size - 1];

  call.reply.hijack();
  const response = call.reply.raw;
  response.writeHead(range ? 206 : 200, {
    "content-type": about.contentType,
    "content-disposition": `attachment; filename="${asciiName(about.name)}"; filename*=UTF-8''${encodedName(about.name)}`,
    "content-length": String(end - start + 1),
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "accept-ranges": "bytes",
    ...(modified === undefined ? {} : { "last-modified": modified }),
    etag,
    ...(range ? { "content-range": `bytes ${start}-${end}/${size}` } : {}),
  });
  if (call.request.raw.method === "HEAD" || end < start) {
    response.end();
    return null;
  }
  const source = file.createReadStream({ start, end, autoClose: false, highWaterMark: 256 * 1024 });
  // A caller that left is normal. A file that became shorter ends the connection: fewer bytes were sent than announced.
  await pipeline(source, response, { end: false }).catch(() => response.destroy());
  if (source.bytesRead === end - start + 1) response.end();
  else response.destroy();
  return null;
}

/**
 * Returns the first and the last byte; null for no range, and for a range that may be ignored (several parts, another
 * unit).
 */
export function parseRange(header: string | undefined, size: number): [number, number] | "unsatisfiable" | null {
  const match = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/.exec(header ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return null;
  if (match[1] === "") {
    const last = Number(match[2]);
    return last === 0 || size === 0 ? "unsatisfiable" : [Math.max(0, size - last), size - 1];
  }
  const start = Number(match[1]);
  const end = match[2] === "" ? size - 1 : Math.min(Number(match[2]), size - 1);
  if (match[2] !== "" && Number(match[2]) < start) return null;
  return start >= size ? "unsatisfiable" : [start, end];
}

const asciiName = (path: string): string =>
  basename(path)
    .replace(/[^\w.+ -]/g, "_")
    .slice(0, 150) || "checkpoint";
/** RFC 5987. Half a surrogate pair has no UTF-8 form. */
const encodedName = (path: string): string =>
  encodeURIComponent(basename(path).toWellFormed()).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
