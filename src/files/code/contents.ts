// Reads the contents of a snapshot's files: each is checked against its name before a byte of it is shown.

import { createHash, hash } from "node:crypto";
import { constants } from "node:fs";
import { open, readFile, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, SvcError, systemCode } from "../../errors/index.ts";
import type { CodeFile, CodeSnapshot } from "../../schemas/job.ts";
import { keepingsOf } from "./code-or-data.ts";
import { inParallel } from "../in-parallel.ts";
import { IN_PLACE, measureProject, type ProjectBounds, type ProjectFile } from "../listing/measured-project.ts";
import { checkProjectDir } from "../listing/project-files.ts";

const FILES_AT_ONCE = 8;
const NUL_LOOK_BYTES = 8_000;

export type KeptFile = CodeFile & { sha256: string };

/** Whether the content itself was kept, and not only the data that shows whether it changed. */
export const isKept = (file: CodeFile): file is KeptFile => file.kept !== false && file.sha256 !== null;

/** Returns the file if its content was kept; throws `code_file_not_kept`. */
function keptOf(id: string, file: CodeFile): KeptFile {
  if (isKept(file)) return file;
  throw new SvcError("code_file_not_kept", { path: file.path, id });
}

/** The path of the content with this digest. */
export const blobPath = (codeDir: string, sha256: string): string => join(codeDir, "blobs", sha256.slice(0, 2), sha256);

/** The file at that path in the snapshot. Throws `code_file_not_found`. */
export function fileIn(snapshot: CodeSnapshot, path: string): CodeFile {
  const wanted = path.replace(/^(\.\/)+/, "");
  const file = snapshot.files.find((f) => f.path === wanted);
  if (!file) throw new SvcError("code_file_not_found", { path, id: snapshot.id });
  return file;
}

/** The whole content. Throws `code_snapshot_damaged` when it is missing or altered. */
export async function readContent(codeDir: string, id: string, file: CodeFile): Promise<Buffer> {
  const { sha256 } = keptOf(id, file);
  const bytes = await told(id, file, () => readFile(blobPath(codeDir, sha256)));
  if (hash("sha256", bytes, "hex") !== file.sha256) throw damaged(id, file, "has changed");
  return bytes;
}

/** The content, opened after it was checked; the caller closes it. Throws as `readContent` does. */
export async function openContent(codeDir: string, id: string, file: CodeFile): Promise<FileHandle> {
  const path = blobPath(codeDir, keptOf(id, file).sha256);
  if ((await told(id, file, () => hashFile(path))) !== file.sha256) throw damaged(id, file, "has changed");
  return told(id, file, () => open(path, constants.O_RDONLY | constants.O_NOFOLLOW));
}

/** SHA-256 of a file, in hexadecimal. A pipe that has replaced the file counts as empty instead of blocking. */
export async function hashFile(path: string): Promise<string> {
  const sha256 = createHash("sha256");
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  for await (const chunk of file.createReadStream({ highWaterMark: 1024 * 1024 })) sha256.update(chunk as Buffer);
  return sha256.digest("hex");
}

/**
 * The text of a file; null for a binary one: a NUL byte near its beginning, or not UTF-8. The last character of a
 * `beginning` may be cut.
 */
export function decodedText(bytes: Buffer, beginning = false): string | null {
  if (bytes.subarray(0, NUL_LOOK_BYTES).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: beginning });
  } catch {
    return null;
  }
}

/**
 * A project directory as a snapshot would take it, without keeping anything. `read` returns a file as it was described,
 * and an empty one if it has vanished since. Throws `project_dir_refused`, also above the bounds.
 * @param options.like the files to compare with: files recorded there without content are recorded without content
 * here.
 */
export async function describeDirectory(
  directory: string,
  svcHome: string,
  { bounds, like }: { bounds?: ProjectBounds; like?: readonly CodeFile[] } = {},
): Promise<{ root: string; files: CodeFile[]; read: (file: CodeFile) => Promise<Buffer> }> {
  const root = await checkProjectDir(directory, svcHome);
  const inPlace = like?.some((file) => file.kept === false) ?? false;
  const listed = (await measureProject(root, { ...(inPlace ? IN_PLACE : {}), ...bounds })).files;
  const recorded = new Map(like?.map((file) => [file.path, file]));
  const keepings = inPlace ? keepingsOf(listed) : null;
  const items = listed.map((file, i) => {
    const before = recorded.get(file.path);
    // Record it in the same way: a digest can only be compared with another digest.
    const byTime = before ? before.sha256 === null : keepings?.[i] === "time";
    return { file, byTime, kept: (before?.kept ?? keepings?.[i] === "copy") || !inPlace };
  });
  const described = await inParallel(items, FILES_AT_ONCE, ({ file, ...how }) => describe(root, file, how));
  const read = (file: CodeFile) => readBeginning(join(root, file.path), file.size);
  return { root, files: described.filter((file) => file !== null), read };
}

/** Null if it vanished since it was listed: it is not in the directory any more. */
async function describe(
  root: string,
  { path, executable, ...file }: ProjectFile,
  { byTime, kept }: { byTime: boolean; kept: boolean },
): Promise<CodeFile | null> {
  const at = join(root, path);
  const recorded = kept ? {} : ({ kept: false, modified_at: new Date(file.mtimeMs).toISOString() } as const);
  const as = executable ? ("executable" as const) : ("file" as const);
  try {
    if (byTime) return { path, size: file.size, sha256: null, mode: as, ...recorded };
    const sha256 = await hashFile(at);
    const { size } = await stat(at);
    return { path, size, sha256, mode: as, ...recorded };
  } catch (cause) {
    // A submission excludes files that it may not read.
    if (isMissing(cause) || ["EACCES", "EPERM"].includes(systemCode(cause))) return null;
    const why = `holds ${path}, which cannot be read (${systemCode(cause)})`;
    throw new SvcError("project_dir_refused", { project_dir: root, why }, { cause });
  }
}

/** The first bytes of a plain file: it may have grown, vanished or become a pipe since it was listed. */
async function readBeginning(path: string, bytesMax: number): Promise<Buffer> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return Buffer.alloc(0);
    throw cause;
  }
  try {
    if (!(await file.stat()).isFile()) return Buffer.alloc(0);
    const bytes = Buffer.alloc(bytesMax);
    let filled = 0;
    while (filled < bytesMax) {
      const { bytesRead } = await file.read(bytes, filled, bytesMax - filled, filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return bytes.subarray(0, filled);
  } finally {
    await file.close();
  }
}

export const damaged = (id: string, { path }: CodeFile, why: string, cause?: unknown): SvcError =>
  new SvcError("code_snapshot_damaged", { id, why: `${path} ${why}` }, { cause });

async function told<T>(id: string, file: CodeFile, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw isMissing(cause) ? damaged(id, file, "is missing", cause) : cause;
  }
}
