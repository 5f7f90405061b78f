// Code snapshots: keeps each run's code by content. A second run of the same code costs a manifest at most.
//
// C1. `<code>/blobs/ab/<sha256>` holds contents, `<code>/snapshots/<id>.json` says which contents a project had. Both
//     are written under a temporary name and renamed: a file under its final name is complete, unless this computer
//     lost power.
// C2. The id is the beginning of the SHA-256 of the files and the git state, so the same code gives the same id.
// C3. Nothing here is fsynced: every submission would wait for it, and the project directory is still the original.
//     Damage by a power failure is detected: the next snapshot rewrites a blob of the wrong size, and a restore checks
//     every content against its name.
// C4. A tree for sending consists of hard links to the contents, which are read and then removed: it costs no copy and
//     no disk space. Contents are never modified once they have their name.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { hash, randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  futimesSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  utimesSync,
} from "node:fs";
import { chmod, copyFile, mkdir, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { withoutSecrets } from "../../domain/secret-names.ts";
import { started } from "../../platform/started.ts";
import { isMissing, orDiskFull, SvcError, systemCode } from "../../errors/index.ts";
import { CodeSnapshot, type CodeFile, type StoredLeftOut } from "../../schemas/job.ts";
import { blobPath, damaged, hashFile, isKept as isKeptFile, type KeptFile } from "./contents.ts";
import { holdCode, type CodeHold } from "./collect-garbage.ts";
import { inParallel } from "../in-parallel.ts";
import { QUIET_GIT } from "../listing/ask-git.ts";
import { keepingsOf, type Keeping } from "./code-or-data.ts";
import { gitTop } from "../listing/git-layout.ts";
import { leftOutId, leftOutList, leftOutOf, leftOutPath } from "../listing/left-out.ts";
import { IN_PLACE, measureProject, type MeasuredProject, type ProjectFile } from "../listing/measured-project.ts";
import { checkProjectDir } from "../listing/project-files.ts";
import { WHY } from "../listing/protections.ts";
import { whyNotListed } from "../listing/why-not-listed.ts";
import { snapshotFile } from "../../platform/home-layout.ts";

/** Files up to this size are read once; larger ones are hashed and copied as streams. */
const WHOLE_BYTES_MAX = 8 * 1024 * 1024;
const FILES_AT_ONCE = 8;
/** How often a file is read that vanishes and comes back meanwhile. */
const READS_MAX = 5;
const REPLACED_WITHIN_MS = 10;
/** The beginning of the small file that Git LFS leaves in place of a content that was not fetched. */
const LFS_POINTER = Buffer.from("version https://git-lfs.github.com/spec/v1\n");
const LFS_POINTER_BYTES_MAX = 1_024;
const GIT_TIMEOUT_MS = 3_000;
const ID_CHARS = 16;
/** Files up to this size are restored synchronously; SLICE_MS is how long that may block the event loop. */
const SYNC_BYTES_MAX = 1024 * 1024;
const SLICE_MS = 8;
const SENT_AT = new Date("2020-01-01T00:00:00Z");
/** Errors of a hard link across file systems, or on one without hard links. */
const NO_SECOND_NAME = new Set(["EXDEV", "EPERM", "EMLINK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

type GitState = CodeSnapshot["git"];

/** Keeps names that hold a secret out of manifests; without it they are written in clear. */
export interface ManifestSeal {
  seal: <T extends object>(manifest: T) => T;
  unseal: <T extends object>(manifest: T) => T;
}

export interface SnapshotRequest {
  projectDir: string;
  codeDir: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** The home of svc, which is never sent; by default the folder that holds `codeDir`. */
  svcHome?: string;
  /**
   * Protects the contents from garbage collection until it is released; without one, they may be deleted once this call
   * is done.
   */
  hold?: CodeHold;
  /** The run works in place: its data is recorded and not copied (code-or-data.ts), and its amount is not limited. */
  inPlace?: boolean;
  /** A file that must be included; otherwise `entrypoint_not_runnable` reports that an ignore file excludes it. */
  entrypoint?: string;
  manifests?: ManifestSeal;
}

export interface SnapshotPlace {
  codeDir: string;
  id: string;
  manifests?: ManifestSeal;
}

export interface MadeSnapshot extends CodeSnapshot {
  /** Excluded files of the project; null if there are none. */
  leftOut: StoredLeftOut | null;
}

/** Keeps the project's code. Throws `project_dir_refused`, `disk_full`. Idempotent for unchanged code. */
export async function createSnapshot(request: SnapshotRequest): Promise<MadeSnapshot> {
  const { codeDir, inPlace = false } = request;
  const root = await checkProjectDir(request.projectDir, request.svcHome ?? dirname(codeDir));
  const gitState = gitStateOf(root);
  const listing = await measureProject(root, {
    ignored: true,
    ...(inPlace ? IN_PLACE : {}),
  });
  const entrypoint = request.entrypoint?.replace(/^\.\//, "");
  if (entrypoint !== undefined && !listing.files.some((file) => file.path === entrypoint))
    throw new SvcError("entrypoint_not_runnable", { entrypoint, why: await whyNotListed(root, entrypoint, listing) });
  const hold = request.hold ?? holdCode(codeDir);
  const into: Into = { codeDir, hold };
  try {
    const keepings = inPlace ? keepingsOf(listing.files) : null;
    const items = listing.files.map((file, i) => ({ file, keeping: keepings?.[i] ?? "copy" }));
    const kept = await inParallel(items, FILES_AT_ONCE, ({ file, keeping }) =>
      keep(root, file, keeping, into, listing),
    );
    const files = kept.filter((file) => file !== null);
    const snapshot = await keepManifest(into, request, files, await gitState);
    return { ...snapshot, leftOut: await keepLeftOut(into, listing, request.manifests) };
  } catch (cause) {
    throw orDiskFull(cause, codeDir);
  } finally {
    if (request.hold === undefined) hold.release();
  }
}

async function keepLeftOut(
  into: Into,
  listing: MeasuredProject,
  manifests: ManifestSeal | undefined,
): Promise<StoredLeftOut | null> {
  const shown = <T extends object>(record: T): T => (manifests ? manifests.seal(record) : record);
  const leftOut = leftOutOf(listing);
  if (leftOut === null) return null;
  const list = shown(leftOutList(listing));
  const id = leftOutId(list);
  into.hold.add(id);
  const path = leftOutPath(into.codeDir, id);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await renamedInto(path, (beside) => writeFile(beside, JSON.stringify(list), { mode: 0o600, flag: "wx" }));
  const missed = listing.leftOut.filter((entry) => entry.missed).length;
  return { ...shown(leftOut), list: id, missed };
}

/** The snapshot with that id, or null if it was never made or its manifest cannot be read. */
export async function readSnapshot({ codeDir, id, manifests }: SnapshotPlace): Promise<CodeSnapshot | null> {
  if (!/^[0-9a-f]{1,64}$/.test(id)) return null;
  try {
    const read = JSON.parse(await readFile(snapshotFile(codeDir, id), "utf8")) as object;
    const parsed = CodeSnapshot.safeParse(manifests ? manifests.unseal(read) : read);
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/**
 * Writes the files of a snapshot into `target`, which is created if missing, for reading only (C4); existing files are
 * replaced. All get the same time, so that a tree looks the same when it is sent twice. Throws `code_snapshot_damaged`
 * when content is missing or altered.
 */
export async function restoreSnapshot(request: SnapshotPlace & { target: string }): Promise<CodeSnapshot> {
  const { codeDir, id, target } = request;
  const snapshot = await readSnapshot(request);
  if (snapshot === null)
    throw new SvcError("code_snapshot_damaged", { id, why: "its manifest is missing or unreadable" });
  const folders = new Set(snapshot.files.map((file) => dirname(join(target, file.path))));
  for (const folder of [target, ...folders]) await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    let sliceEnds = performance.now() + SLICE_MS;
    for (const file of snapshot.files) {
      if (!isKeptFile(file)) throw damaged(id, file, "was only recorded: it belongs to a run that worked in place");
      // Synchronous for each: for small files the way to another thread and back costs many times the work.
      if (file.size <= SYNC_BYTES_MAX) putBack(id, file, blobPath(codeDir, file.sha256), join(target, file.path));
      else await putBackLarge(id, file, blobPath(codeDir, file.sha256), join(target, file.path));
      if (performance.now() < sliceEnds) continue;
      await new Promise((resolve) => setImmediate(resolve));
      sliceEnds = performance.now() + SLICE_MS;
    }
  } catch (cause) {
    throw orDiskFull(cause, target);
  }
  return snapshot;
}

/** The store that a submission writes to, and the hold that protects its contents there. */
interface Into {
  codeDir: string;
  hold: CodeHold;
}

/**
 * Null when the file vanished while the snapshot was made, or cannot be read; the latter is added to the excluded
 * files.
 */
async function keep(
  root: string,
  file: ProjectFile,
  keeping: Keeping,
  into: Into,
  listing: Pick<MeasuredProject, "leftOut">,
  attempt = 1,
): Promise<CodeFile | null> {
  const { leftOut } = listing;
  const source = join(root, file.path);
  const mode = file.executable ? "executable" : "file";
  const recorded = { kept: false, modified_at: new Date(file.mtimeMs).toISOString() } as const;
  try {
    if (keeping === "time") return { path: file.path, size: file.size, sha256: null, mode, ...recorded };
    if (keeping === "digest") {
      const sha256 = await hashFile(source);
      return { path: file.path, size: file.size, sha256, mode, ...recorded };
    }
    if (file.size <= WHOLE_BYTES_MAX) {
      // NONBLOCK: opening a file that has become a pipe since it was listed would otherwise block for ever.
      const bytes = await readFile(source, { flag: constants.O_RDONLY | constants.O_NONBLOCK });
      const sha256 = hash("sha256", bytes, "hex");
      if (bytes.length < LFS_POINTER_BYTES_MAX && bytes.subarray(0, LFS_POINTER.length).equals(LFS_POINTER))
        leftOut.push({ path: file.path, why: WHY.pointer, missed: true });
      await unlessKept(into, sha256, bytes.length, (beside) => writeFile(beside, bytes, { mode: 0o600, flag: "wx" }));
      return { path: file.path, size: bytes.length, sha256, mode };
    }
    // Hashed first: most large files are unchanged since the last run, and then nothing is written.
    const sha256 = await hashFile(source);
    const { size } = await stat(source);
    if (await isKept(into, sha256, size)) return { path: file.path, size, sha256, mode };
    return { path: file.path, mode, ...(await keepCopy(into, source)) };
  } catch (cause) {
    const code = systemCode(cause);
    if (isMissing(cause) || code === "EISDIR" || code === "ELOOP") {
      const isFile = await stat(source).then(
        (stats) => stats.isFile(),
        () => false,
      );
      if (!isFile) return null;
      const { path } = cause as NodeJS.ErrnoException;
      if (path?.startsWith(into.codeDir)) throw cause;
      if (attempt < READS_MAX) {
        await setTimeout(REPLACED_WITHIN_MS);
        return keep(root, file, keeping, into, listing, attempt + 1);
      }
      leftOut.push({ path: file.path, why: WHY.replaced, missed: true });
      return null;
    }
    if (code !== "EACCES" && code !== "EPERM") throw cause;
    leftOut.push({ path: file.path, why: WHY.unreadable, missed: true });
    return null;
  }
}

/** Copies first and names the copy by its own digest: the file may be changing. */
async function keepCopy(into: Into, source: string): Promise<{ sha256: string; size: number }> {
  const { codeDir } = into;
  await mkdir(join(codeDir, "blobs"), { recursive: true, mode: 0o700 });
  const beside = join(codeDir, "blobs", `.new-${randomBytes(8).toString("hex")}`);
  try {
    await copyOf(source, beside);
    await chmod(beside, 0o600);
    const sha256 = await hashFile(beside);
    const { size } = await stat(beside);
    await unlessKept(into, sha256, size, (to) => rename(beside, to));
    return { sha256, size };
  } finally {
    await rm(beside, { force: true });
  }
}

/** Reads through the open file, as elsewhere: a copy by name would block if a pipe has replaced the file. */
async function copyOf(source: string, beside: string): Promise<void> {
  const opened = await open(source, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!(await opened.stat()).isFile()) return await writeFile(beside, "", { mode: 0o600, flag: "wx" });
    const same = process.platform === "linux" ? `/proc/self/fd/${opened.fd}` : source;
    return await copyFile(same, beside, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  } finally {
    await opened.close();
  }
}

async function unlessKept(
  into: Into,
  sha256: string,
  size: number,
  write: (beside: string) => Promise<void>,
): Promise<void> {
  if (await isKept(into, sha256, size)) return;
  const path = blobPath(into.codeDir, sha256);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await renamedInto(path, write);
}

/** Takes the hold before it looks: a content that is found then stays (collect-garbage.ts, G2). */
async function isKept({ codeDir, hold }: Into, sha256: string, size: number): Promise<boolean> {
  hold.add(sha256);
  const kept = await stat(blobPath(codeDir, sha256)).catch(() => null);
  return kept !== null && kept.isFile() && kept.size === size;
}

async function keepManifest(
  { codeDir, hold }: Into,
  { now, manifests }: SnapshotRequest,
  files: CodeFile[],
  git: GitState,
): Promise<CodeSnapshot> {
  const canonical = JSON.stringify({
    version: 1,
    files: files.map(({ path, size, sha256, mode, kept, modified_at }) =>
      kept === false ? [path, size, sha256, mode, modified_at] : [path, size, sha256, mode],
    ),
    git: git && [git.commit, git.branch, git.dirty],
  });
  const id = hash("sha256", canonical, "hex").slice(0, ID_CHARS);
  hold.add(id);
  const before = await readSnapshot({ codeDir, id, ...(manifests ? { manifests } : {}) });
  if (before !== null) return before;
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const snapshot: CodeSnapshot = { id, files, bytes, git, created_at: new Date(now).toISOString() };
  const path = snapshotFile(codeDir, id);
  const text = JSON.stringify(manifests ? manifests.seal(snapshot) : snapshot);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await renamedInto(path, (beside) => writeFile(beside, text, { mode: 0o600, flag: "wx" }));
  return snapshot;
}

function putBack(id: string, file: KeptFile, blob: string, path: string): void {
  const bytes = whole(id, file, () => {
    const fd = openSync(blob, "r");
    try {
      if (fstatSync(fd).mtimeMs !== SENT_AT.getTime()) futimesSync(fd, SENT_AT, SENT_AT);
      return readFileSync(fd);
    } finally {
      closeSync(fd);
    }
  });
  if (hash("sha256", bytes, "hex") !== file.sha256) throw damaged(id, file, "has changed");
  secondName(file, blob, path);
}

async function putBackLarge(id: string, file: KeptFile, blob: string, path: string): Promise<void> {
  whole(id, file, () => utimesSync(blob, SENT_AT, SENT_AT));
  if ((await hashFile(blob)) !== file.sha256) throw damaged(id, file, "has changed");
  secondName(file, blob, path);
}

/** Hard-links a content; copies it if the mode must differ or the file system has no hard links. */
function secondName(file: CodeFile, blob: string, path: string): void {
  rmSync(path, { force: true });
  if (file.mode === "file") {
    try {
      return linkSync(blob, path);
    } catch (cause) {
      if (!NO_SECOND_NAME.has(systemCode(cause))) throw cause;
    }
  }
  copyFileSync(blob, path, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  chmodSync(path, file.mode === "executable" ? 0o700 : 0o600);
  utimesSync(path, SENT_AT, SENT_AT);
}

function whole<T>(id: string, file: CodeFile, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw isMissing(cause) ? damaged(id, file, "is missing", cause) : cause;
  }
}

/** `write` makes a temporary file next to `path`, which then replaces it. A failure leaves nothing behind. */
async function renamedInto(path: string, write: (beside: string) => Promise<void>): Promise<void> {
  const beside = join(dirname(path), `.new-${randomBytes(8).toString("hex")}`);
  try {
    await write(beside);
    await rename(beside, path);
  } catch (cause) {
    await rm(beside, { force: true });
    throw cause;
  }
}

/** Commit, branch and whether there are changes; null without a repository, a commit or git, or when git is too slow. */
async function gitStateOf(root: string): Promise<GitState> {
  if (gitTop(root) === null) return null;
  const [out, described] = await Promise.all([
    gitSays(root, ["status", "--porcelain=v2", "--branch", "--", "."]).catch(() => null),
    gitSays(root, ["describe", "--tags", "--long", "--always"]).catch(() => null),
  ]);
  const commit = out?.match(/^# branch\.oid ([0-9a-f]{40,64})$/m)?.[1];
  if (!out || commit === undefined) return null;
  const branch = out.match(/^# branch\.head (.+)$/m)?.[1] ?? null;
  const dirty = /^[^#\n]/m.test(out);
  const describe = described === null ? null : `${described.trim()}${dirty ? "-dirty" : ""}`;
  return { commit, branch: branch === "(detached)" ? null : branch, dirty, describe };
}

/**
 * The beginning of git's answer. The options keep git from running hooks or file watchers of the repository, from
 * fetching and from taking a lock. Filters that the repository's configuration names do run; neither they nor git see
 * our keys.
 */
async function gitSays(root: string, args: readonly string[]): Promise<string | null> {
  const seen = Object.entries(withoutSecrets(process.env)).filter(([name]) => !name.startsWith("GIT_"));
  const child = await started(
    spawn("git", [...QUIET_GIT, ...args], {
      cwd: root,
      env: {
        ...Object.fromEntries(seen),
        GIT_OPTIONAL_LOCKS: "0",
        GIT_NO_LAZY_FETCH: "1",
        GIT_TERMINAL_PROMPT: "0",
        GIT_DISCOVERY_ACROSS_FILESYSTEM: "1",
        LC_ALL: "C",
      },
      stdio: ["ignore", "pipe", "ignore"],
      timeout: GIT_TIMEOUT_MS,
      killSignal: "SIGKILL",
    }),
  );
  const head: Buffer[] = [];
  let size = 0;
  // The header comes first and one change is enough to know: the rest of the output is read and dropped.
  child.stdout.on("data", (chunk: Buffer) => {
    if (size < 65_536) head.push(chunk);
    size += chunk.length;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return code === 0 ? Buffer.concat(head).toString() : null;
}
