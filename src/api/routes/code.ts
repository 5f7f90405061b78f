// Routes for the code of a job: its files, one file, and the diff to another job's code or to the current project
// directory.
//
// K1. A path is only looked up among the names of the snapshot; the path on disk is derived from the content's digest.
// K2. Text is sent as plain text, everything else as bytes; neither is ever rendered (send-file.ts).
// K3. Only the directory that the job's own record names is read, and in it only the files that a submission would take
//     (src/files/listing/project-files.ts). Nothing is kept. One comparison per job runs at a time; concurrent callers
//     share it.

import { z } from "zod";
import { quotedName } from "../../domain/quoted-name.ts";
import { SvcError } from "../../errors/index.ts";
import { describeDirectory, fileIn, openContent, readContent, decodedText } from "../../files/code/contents.ts";
import { diffCode, type CodeSide } from "../../files/code/diff.ts";
import type { ProjectBounds } from "../../files/listing/measured-project.ts";
import { CodeDiff, CodeFiles } from "../../schemas/code.ts";
import { CodeSnapshot, type JobRecord } from "../../schemas/job.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";
import { sendFile } from "../send-file.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** Length of a file's beginning that is enough to distinguish text from bytes. */
const LOOK_BYTES = 64 * 1024;
/** Comparing reads every file of a directory; larger directories are left to `svc code diff`. */
const COMPARED_MAX: ProjectBounds = { filesMax: 20_000, bytesMax: 1024 ** 3 };
export const codeDir = (call: Call): string => homeLayout.code(call.cp.home);

export function snapshotOf(call: Call, { id }: JobRecord): CodeSnapshot {
  const snapshot = call.cp.reads.code(id);
  if (!snapshot) throw new SvcError("code_snapshot_missing", { job: id });
  return snapshot;
}

interface Side extends CodeSide {
  said: CodeDiff["from"];
}

function jobSide(call: Call, job: JobRecord): Side {
  const { id, files } = snapshotOf(call, job);
  const said = { job_id: job.id, code_snapshot: id, directory: null };
  return { said, files, read: (file) => readContent(codeDir(call), id, file) };
}

async function directorySide(call: Call, job: JobRecord): Promise<Side> {
  const directory = job.spec["project_dir"];
  if (typeof directory !== "string") throw new SvcError("code_snapshot_missing", { job: job.id });
  const { files: like } = snapshotOf(call, job);
  const { root, files, read } = await describeDirectory(directory, call.cp.home, { bounds: COMPARED_MAX, like });
  return { said: { job_id: null, code_snapshot: null, directory: root }, files, read };
}

async function compared(before: Side, after: Side): Promise<CodeDiff> {
  const changes = await diffCode(before, after);
  return {
    from: before.said,
    to: after.said,
    changes,
    added_lines: changes.reduce((sum, c) => sum + c.added_lines, 0),
    removed_lines: changes.reduce((sum, c) => sum + c.removed_lines, 0),
  };
}

/** Running comparisons with a directory, by job (K3). */
const underWay = new WeakMap<Call["cp"], Map<string, Promise<CodeDiff>>>();

function sharedWithDirectory(call: Call, job: JobRecord): Promise<CodeDiff> {
  const jobs = underWay.get(call.cp) ?? new Map<string, Promise<CodeDiff>>();
  underWay.set(call.cp, jobs);
  const begun = jobs.get(job.id);
  if (begun) return begun;
  const before = jobSide(call, job);
  const diff = directorySide(call, job)
    .then((after) => compared(before, after))
    .finally(() => jobs.delete(job.id));
  jobs.set(job.id, diff);
  return diff;
}

export const CODE_ROUTES = [
  route({
    method: "GET",
    path: "/jobs/{id}/code",
    id: "getCode",
    summary: "The code snapshot of a job",
    responses: { 200: { description: "The files and where they came from.", schema: CodeSnapshot } },
    errors: [...NO_JOB, "code_snapshot_missing"],
    handle: (call) => ok(snapshotOf(call, jobOf(call))),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/files",
    id: "listCodeFiles",
    summary: "The files of a job's code, sorted by path",
    responses: { 200: { description: "Size, digest and mode of each.", schema: CodeFiles } },
    errors: [...NO_JOB, "code_snapshot_missing"],
    handle(call) {
      const { id, files, bytes } = snapshotOf(call, jobOf(call));
      return ok({ id, files, bytes });
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/files/{path}",
    id: "getCodeFile",
    summary: "One file of a job's code",
    description:
      "Text (UTF-8) is sent as text/plain, everything else as application/octet-stream. The server checks the content against its digest before " +
      "it sends the first byte. The ETag is the digest.",
    headers: { Range: "One range of bytes, for example bytes=0-1023.", "If-Range": "The ETag the range belongs to." },
    responses: {
      200: { description: "The file.", contentType: "application/octet-stream" },
      206: { description: "The requested range.", contentType: "application/octet-stream" },
    },
    errors: [
      ...NO_JOB,
      "code_snapshot_missing",
      "code_file_not_found",
      "code_file_not_kept",
      "code_snapshot_damaged",
      "range_not_satisfiable",
    ],
    async handle(call) {
      const snapshot = snapshotOf(call, jobOf(call));
      const path = call.params["path"] ?? "";
      const found = snapshot.files.some((f) => f.path === path);
      if (!found) throw new SvcError("code_file_not_found", { path: quotedName(path), id: snapshot.id });
      const entry = fileIn(snapshot, path);
      const file = await openContent(codeDir(call), snapshot.id, entry);
      try {
        const head = await file.read(Buffer.alloc(LOOK_BYTES), 0, LOOK_BYTES, 0);
        const contentType =
          decodedText(head.buffer.subarray(0, head.bytesRead), true) !== null
            ? "text/plain; charset=utf-8"
            : "application/octet-stream";
        return await sendFile(call, file, { name: path, etag: `"${entry.sha256 ?? ""}"`, contentType });
      } finally {
        await file.close();
      }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/diff",
    id: "diffCode",
    summary: "Diff of the code of this job and another job",
    description:
      "`with` is the other job. Renames are found by content. Text is compared line by line, up to a size limit; `note` says where it was not.",
    query: z.strictObject({ with: z.string().max(64) }),
    responses: { 200: { description: "The changes, sorted by path.", schema: CodeDiff } },
    errors: [...NO_JOB, "code_snapshot_missing", "code_snapshot_damaged", "invalid_request"],
    async handle(call) {
      const from = jobOf(call);
      const to = jobOf({ ...call, params: { id: call.query.with } });
      return ok(await compared(jobSide(call, from), jobSide(call, to)));
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/code/changes",
    id: "codeChanges",
    summary: "Diff of the job's code snapshot against its project directory",
    description:
      "The directory is the one the job was submitted from, on the computer of the control plane, with the files that a submission would " +
      "send. At most 20,000 files and 1 GiB; `svc code diff` has no such limit. Nothing is stored.",
    responses: { 200: { description: "The changes, sorted by path.", schema: CodeDiff } },
    errors: [...NO_JOB, "code_snapshot_missing", "code_snapshot_damaged", "project_dir_refused"],
    handle: async (call) => ok(await sharedWithDirectory(call, jobOf(call))),
  }),
];
