// Sends one checkpoint file. A program on a rented machine wrote it, so it is treated as plain bytes: never rendered,
// never sniffed, never opened here.
//
// D1. The caller's text is only looked up in the record, which gives the path on disk.
// D2. The file is opened without following a symlink at its end, and no folder between it and the home may be a
//     symlink.
// D3. Only a plain file is sent.

import { constants } from "node:fs";
import { open, realpath, stat, type FileHandle } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { quotedName } from "../../domain/quoted-name.ts";
import { SvcError, systemCode } from "../../errors/index.ts";
import { jobOf, NO_JOB, route, type Call } from "../route.ts";
import { sendFile } from "../send-file.ts";

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
    206: { description: "The requested range.", contentType: "application/octet-stream" },
  },
  errors: [...NO_JOB, "file_not_found", "range_not_satisfiable"],
  async handle(call) {
    const { id } = jobOf(call);
    const name = call.params["path"] ?? "";
    const file = await openCheckpoint(call, id, name);
    try {
      const { size, mtimeMs, mtime } = await file.stat();
      const etag = `"${size.toString(36)}-${Math.trunc(mtimeMs * 1_000).toString(36)}"`;
      return await sendFile(call, file, { name, etag, contentType: "application/octet-stream", modified: mtime });
    } finally {
      await file.close();
    }
  },
});

/** A recorded checkpoint file, opened; the caller closes it. Throws `file_not_found`. */
export async function openCheckpoint({ cp }: Call, id: string, name: string): Promise<FileHandle> {
  const path = cp.reads.checkpointPath(id, name);
  const file = path === null ? null : await openPlain(cp.home, path);
  if (!file) throw new SvcError("file_not_found", { path: quotedName(name) });
  return file;
}

/** Null if there is no such plain file inside the home, reachable without a symlink. */
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
    const code = systemCode(error);
    if (code === "ENOENT" || code === "ELOOP" || code === "ENOTDIR" || code === "ENXIO" || code === "EACCES")
      return null;
    throw error;
  }
}
