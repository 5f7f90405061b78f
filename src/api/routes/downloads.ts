// One checkpoint file. It was written by whatever ran on a rented machine, so it is bytes and nothing else: never
// rendered, never sniffed, never opened here.
//
// D1. The caller's words are only looked up in the record; the path on disk comes from there.
// D2. The file is opened without following a link at its end, and no folder between it and the home may be a link.
// D3. Only a plain file is sent.

import { constants } from "node:fs";
import { open, realpath, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../../errors/index.ts";
import { jobOf, route } from "../route.ts";

export const DOWNLOAD_ROUTE = route({
  method: "GET",
  path: "/jobs/{id}/checkpoints/{path}",
  id: "downloadCheckpoint",
  summary: "Download a checkpoint file",
  headers: {
    Range: "One range of bytes, for example bytes=0-1023.",
    "If-Range": "The ETag or Last-Modified the range belongs to.",
  },
  responses: {
    200: { description: "The file.", contentType: "application/octet-stream" },
    206: { description: "The part asked for.", contentType: "application/octet-stream" },
  },
  errors: ["job_not_found", "file_not_found", "range_not_satisfiable"],
  async handle(call) {
    const { id } = jobOf(call);
    const name = call.params["path"] ?? "";
    const path = call.cp.reads.checkpointPath(id, name);
    const file = path === null ? null : await openPlain(call.cp.home, path);
    if (!file) throw new SvcError("file_not_found", { path: JSON.stringify(name.slice(0, 200)).slice(1, -1) });

    try {
      const { size, mtimeMs, mtime } = await file.stat();
      const { headers } = call.request;
      const etag = `"${size.toString(36)}-${Math.trunc(mtimeMs * 1_000).toString(36)}"`;
      const modified = mtime.toUTCString();
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
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${asciiName(name)}"; filename*=UTF-8''${encodedName(name)}`,
        "content-length": String(end - start + 1),
        "content-security-policy": "sandbox; default-src 'none'",
        "accept-ranges": "bytes",
        "last-modified": modified,
        etag,
        ...(range ? { "content-range": `bytes ${start}-${end}/${size}` } : {}),
      });
      if (call.request.raw.method === "HEAD" || end < start) {
        response.end();
        return null;
      }
      const source = file.createReadStream({ start, end, autoClose: false, highWaterMark: 256 * 1024 });
      // A caller that went away is no fault. A file that became shorter ends the connection: fewer bytes came than promised.
      await pipeline(source, response, { end: false }).catch(() => response.destroy());
      if (source.bytesRead === end - start + 1) response.end();
      else response.destroy();
      return null;
    } finally {
      await file.close();
    }
  },
});

/** Null when there is no such plain file inside the home, reached without any link. */
async function openPlain(home: string, path: string): Promise<FileHandle | null> {
  let file: FileHandle | null = null;
  try {
    // NONBLOCK: opening a FIFO would wait for a writer.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const found = await file.stat();
    const inside = relative(home, path);
    const straight =
      inside !== "" &&
      !inside.startsWith("..") &&
      (await realpath(dirname(path))) === join(await realpath(home), dirname(inside));
    const named = straight ? await stat(path) : null;
    if (found.isFile() && named?.ino === found.ino && named.dev === found.dev) return file;
    await file.close();
    return null;
  } catch (error) {
    await file?.close().catch(() => undefined);
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ELOOP" || code === "ENOTDIR" || code === "ENXIO" || code === "EACCES")
      return null;
    throw error;
  }
}

/** First and last byte; null where there is no range, or one (several parts, another unit) that may be passed over. */
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
