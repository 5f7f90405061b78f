// The code that a job ran: its files, one file, and what leads to another job's.
//
// K1. A path is only looked up among the names of the snapshot; the place on disk comes from the content's digest.
// K2. Text is sent as plain text, all else as bytes; nothing of it is ever rendered (send-file.ts).

import { join } from "node:path";
import { z } from "zod";
import { SvcError } from "../../errors/index.ts";
import { fileIn, openContent, readContent, textOf } from "../../files/code-contents.ts";
import { diffCode, type CodeSide } from "../../files/code-diff.ts";
import { CodeDiff, CodeFiles } from "../../schemas/code.ts";
import { CodeSnapshot, type JobRecord } from "../../schemas/job.ts";
import { jobOf, ok, route, type Call } from "../route.ts";
import { sendFile } from "../send-file.ts";

/** Of a file's beginning: enough to tell text from bytes. */
const LOOK_BYTES = 64 * 1024;
const codeDir = (call: Call): string => join(call.cp.home, "code");

function snapshotOf(call: Call, { id }: JobRecord): CodeSnapshot {
  const snapshot = call.cp.reads.code(id);
  if (!snapshot) throw new SvcError("code_snapshot_missing", { job: id });
  return snapshot;
}

export const CODE_ROUTES = [
  route({
    method: "GET",
    path: "/jobs/{id}/code",
    id: "getCode",
    summary: "The code snapshot that a job ran",
    responses: { 200: { description: "Its files and where they came from.", schema: CodeSnapshot } },
    errors: ["job_not_found", "code_snapshot_missing"],
    handle: (call) => ok(snapshotOf(call, jobOf(call))),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/files",
    id: "listCodeFiles",
    summary: "The files of the code that a job ran, in order of path",
    responses: { 200: { description: "Size, digest and mode of each.", schema: CodeFiles } },
    errors: ["job_not_found", "code_snapshot_missing"],
    handle(call) {
      const { id, files, bytes } = snapshotOf(call, jobOf(call));
      return ok({ id, files, bytes });
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/files/{path}",
    id: "getCodeFile",
    summary: "One file of the code that a job ran",
    description:
      "Text (UTF-8) comes as text/plain, all else as application/octet-stream. The content is checked against its digest before " +
      "the first byte is sent. The ETag is the digest.",
    headers: { Range: "One range of bytes, for example bytes=0-1023.", "If-Range": "The ETag the range belongs to." },
    responses: {
      200: { description: "The file.", contentType: "application/octet-stream" },
      206: { description: "The part asked for.", contentType: "application/octet-stream" },
    },
    errors: [
      "job_not_found",
      "code_snapshot_missing",
      "code_file_not_found",
      "code_snapshot_damaged",
      "range_not_satisfiable",
    ],
    async handle(call) {
      const snapshot = snapshotOf(call, jobOf(call));
      const path = call.params["path"] ?? "";
      const found = snapshot.files.some((f) => f.path === path);
      if (!found) throw new SvcError("code_file_not_found", { path: shown(path), id: snapshot.id });
      const entry = fileIn(snapshot, path);
      const file = await openContent(codeDir(call), snapshot.id, entry);
      try {
        const head = await file.read(Buffer.alloc(LOOK_BYTES), 0, LOOK_BYTES, 0);
        const contentType =
          textOf(head.buffer.subarray(0, head.bytesRead), true) !== null
            ? "text/plain; charset=utf-8"
            : "application/octet-stream";
        return await sendFile(call, file, { name: path, etag: `"${entry.sha256}"`, contentType });
      } finally {
        await file.close();
      }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/diff",
    id: "diffCode",
    summary: "What leads from the code of this job to that of another",
    description:
      "`with` is the other job. Renames are found by content. Text is compared line by line, within bounds; `note` says where it was not.",
    query: z.strictObject({ with: z.string().max(64) }),
    responses: { 200: { description: "The changes, in order of path.", schema: CodeDiff } },
    errors: ["job_not_found", "code_snapshot_missing", "code_snapshot_damaged", "invalid_request"],
    async handle(call) {
      const from = jobOf(call);
      const to = jobOf({ ...call, params: { id: call.query.with } });
      const side = (job: JobRecord): CodeSide & { id: string } => {
        const { id, files } = snapshotOf(call, job);
        return { id, files, read: (file) => readContent(codeDir(call), id, file) };
      };
      const [before, after] = [side(from), side(to)];
      const changes = await diffCode(before, after);
      return ok({
        from: { job_id: from.id, code_snapshot: before.id },
        to: { job_id: to.id, code_snapshot: after.id },
        changes,
        added_lines: changes.reduce((sum, c) => sum + c.added_lines, 0),
        removed_lines: changes.reduce((sum, c) => sum + c.removed_lines, 0),
      } satisfies CodeDiff);
    },
  }),
];

const shown = (path: string): string => JSON.stringify(path.slice(0, 200)).slice(1, -1);
