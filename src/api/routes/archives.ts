// Sends several files as one: every checkpoint of a run, or its code, as a tar archive that is built while it is sent.
// Also gives the digest of one checkpoint, for comparing a copy.
//
// A1. Checkpoints are looked up in the record and opened like a single download (downloads.ts); code is found by its
//     digests.
// A2. A file that cannot be sent completely ends the connection instead of the archive: half an archive must not pass
//     for a whole one.

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { z } from "zod";
import { isKept, openContent } from "../../files/code/contents.ts";
import { tarOfOpened, type TarFile } from "../../files/tar-writer.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";
import { codeDir, snapshotOf } from "./code.ts";
import { openCheckpoint } from "./downloads.ts";

const ARCHIVE = { 200: { description: "The archive.", contentType: "application/x-tar" } };
const CHUNK_BYTES = 1 << 20;

const Digest = z
  .object({ path: z.string(), size: z.int(), sha256: z.string() })
  .meta({ id: "CheckpointDigest", description: "Digest of the local copy of the file." });

export const ARCHIVE_ROUTES = [
  route({
    method: "GET",
    path: "/jobs/{id}/checkpoints.tar",
    id: "downloadCheckpoints",
    summary: "All downloaded checkpoint files, as one tar archive",
    responses: ARCHIVE,
    errors: [...NO_JOB, "file_not_found"],
    async handle(call) {
      const { id } = jobOf(call);
      return sendTar(call, `${id}-checkpoints.tar`, checkpointFiles(call, id));
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code.tar",
    id: "downloadCode",
    summary: "The code of a job, as one tar archive",
    description:
      "A local run records its data files without keeping them: the archive lacks them, and the header svc-recorded-only says how many. GET /jobs/{id}/code names them.",
    responses: ARCHIVE,
    errors: [...NO_JOB, "code_snapshot_missing", "code_snapshot_damaged"],
    async handle(call) {
      const job = jobOf(call);
      const snapshot = snapshotOf(call, job);
      const files = snapshot.files.filter(isKept).map((file) => ({
        about: async () => ({ path: file.path, size: file.size, executable: file.mode === "executable" }),
        open: () => openContent(codeDir(call), snapshot.id, file),
      }));
      const recordedOnly = snapshot.files.length - files.length;
      return sendTar(call, `${job.id}-code.tar`, files, recordedOnly > 0 ? { "svc-recorded-only": recordedOnly } : {});
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/checkpoint-digest",
    id: "getCheckpointDigest",
    summary: "The SHA-256 of a checkpoint file",
    description: "The server reads the whole file, so large files take a while.",
    query: z.strictObject({ path: z.string().max(4_096) }),
    responses: { 200: { description: "The digest.", schema: Digest } },
    errors: [...NO_JOB, "file_not_found", "invalid_request"],
    async handle(call) {
      const file = await openCheckpoint(call, jobOf(call).id, call.query.path);
      try {
        const sha256 = createHash("sha256");
        const { size } = await file.stat();
        for await (const part of file.createReadStream({ autoClose: false, highWaterMark: CHUNK_BYTES })) {
          // The caller has left.
          if (call.reply.raw.destroyed) break;
          sha256.update(part as Buffer);
        }
        return ok({ path: call.query.path, size, sha256: sha256.digest("hex") } satisfies z.infer<typeof Digest>);
      } finally {
        await file.close();
      }
    },
  }),
];

interface Member {
  about(opened: FileHandle): Promise<TarFile>;
  open(): Promise<FileHandle>;
}

function checkpointFiles(call: Call, id: string): Member[] {
  return call.cp.reads.checkpoints(id).map(({ path }) => ({
    about: async (opened) => {
      const { size, mtimeMs } = await opened.stat();
      return { path, size, executable: false, mtimeMs };
    },
    open: () => openCheckpoint(call, id, path),
  }));
}

async function sendTar(
  call: Call,
  name: string,
  members: Member[],
  headers: Record<string, number> = {},
): Promise<null> {
  // If even the first file cannot be opened, the caller gets an error answer instead of a cut connection.
  await (await members[0]?.open())?.close();
  call.reply.hijack();
  const response = call.reply.raw;
  response.writeHead(200, {
    "content-type": "application/x-tar",
    "content-disposition": `attachment; filename="${name}"`,
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    ...headers,
  });
  if (call.request.raw.method === "HEAD") {
    response.end();
    return null;
  }
  try {
    await pipeline(Readable.from(tarOfOpened(members), { objectMode: false }), response);
  } catch {
    response.destroy();
  }
  return null;
}
