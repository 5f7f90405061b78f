// Pushes a tree of files to a machine: by rsync if both sides have it, else as a tar archive over the existing
// connection.
//
// T1. Only files that are listed are sent, and only files that were sent are ever removed.
// T2. A push may be cut anywhere and repeated; files that a complete push has brought are not sent twice. After a cut rsync goes on
//     where it was, and tar sends that push's files again.
// T3. Names are data: they travel between NULs or in headers, never on a command line.

import { isInside } from "../domain/relative-path.ts";
import { SvcError } from "../errors/index.ts";
import type { TreePush, TreePushed } from "../providers/host.ts";
import type { Report, TreeOptions } from "./tree-options.ts";
import { localRsync, pushByRsync, type RsyncUnfit } from "./tree-rsync.ts";
import { pushByTar } from "./tree-tar.ts";
import { parentsOf, readTree, removeFiles, writeTreeManifest, type Manifest } from "./tree-manifest.ts";

/** Throws `sync_failed`, and the connection's errors. */
export async function pushTree(options: TreeOptions): Promise<TreePushed> {
  const { connection, machine, tree, signal } = options;
  checkTree(machine, tree);
  const listed = new Map(tree.files.map((file) => [file.path, file]));
  // rsync compares files itself.
  const byRsync = options.rsync !== null && tree.files.length > 0;
  let state = await readTree(connection, tree.to, !byRsync, signal);
  const gone = [...state.pushed.keys()].filter((path) => (tree.mirror ? !listed.has(path) : inTheWay(path, listed)));
  const byTarBefore = [...state.pushed.values()].some(({ digest }) => digest !== null);
  // A file may be removed only if it is not behind a symlink, so the tree must be read; tar's files may be left to tar
  // again.
  if (byRsync && (gone.length > 0 || byTarBefore)) state = await readTree(connection, tree.to, true, signal);

  // The manifest names every file before anything is sent or removed.
  const before: Manifest = new Map(state.pushed);
  for (const { path, size, executable } of tree.files) {
    // A cut push may have left other bytes there: the next manifest would be newer than these, and they would look untouched.
    if (!before.has(path) || state.written.has(path)) before.set(path, { digest: null, size, executable });
  }
  const news = before.size > state.pushed.size;
  if (news) await writeTreeManifest(connection, tree.to, before, signal);
  await removeFiles(
    connection,
    tree.to,
    gone.filter((path) => state.present.has(path)),
    signal,
  );
  for (const path of gone) before.delete(path);

  const report = steadily(tree.progress);
  const bytes = tree.files.reduce((sum, { size }) => sum + size, 0);
  let unfit: RsyncUnfit | "no rsync here" | "over the same connection" | null =
    options.rsync === null ? "over the same connection" : null;
  if (tree.files.length > 0) {
    if (!unfit && !(await localRsync())) unfit = "no rsync here";
    if (!unfit) {
      const sent = await pushByRsync({ ...options, report });
      if (typeof sent === "number") {
        const after = known(before, listed);
        if (gone.length > 0 || byTarBefore) {
          await writeTreeManifest(connection, tree.to, after, signal);
        }
        report({ files: tree.files.length, bytes }, true);
        return { files: tree.files.length, bytes, sent_bytes: sent, how: "rsync" };
      }
      unfit = sent;
    }
  }
  const byTar = await pushByTar({ ...options, state, report });
  if (byTar === "no tar there") {
    // Small trees go by tar because that is faster.
    if (options.mayRsync === true && options.rsync === null && (await localRsync()))
      return pushTree({ ...options, rsync: "standing" });
    const why =
      options.mayRsync === true ? `it has no tar, and rsync cannot be used (${unfit})` : "it has neither rsync nor tar";
    throw new SvcError("machine_unfit", { machine, why, image: true });
  }
  const { digests, sentBytes } = byTar;
  await writeTreeManifest(connection, tree.to, known(before, listed, digests), signal);
  report({ files: tree.files.length, bytes }, true);
  const how = tree.files.length === 0 ? "nothing to send" : `tar (${unfit ?? "no rsync"})`;
  return { files: tree.files.length, bytes, sent_bytes: sentBytes, how };
}

/** The manifest after a push: the listed files, and older ones that stay. */
function known(
  before: Manifest,
  listed: ReadonlyMap<string, TreePush["files"][number]>,
  digests?: ReadonlyMap<string, string>,
): Manifest {
  const after: Manifest = new Map(before);
  for (const [path, { size, executable }] of listed) {
    after.set(path, { digest: digests?.get(path) ?? null, size, executable });
  }
  return after;
}

/** Whether an older file is in the place of a folder, or below a path that is now a file. */
function inTheWay(path: string, listed: ReadonlyMap<string, unknown>): boolean {
  if (listed.has(path)) return false;
  if (parentsOf(path).some((parent) => listed.has(parent))) return true;
  for (const other of listed.keys()) if (other.startsWith(`${path}/`)) return true;
  return false;
}

function checkTree(machine: string, tree: TreePush): void {
  const why = !/^\/[^/]/.test(tree.to)
    ? `${tree.to} is not an absolute folder on it`
    : tree.files.find(({ path }) => !isInside(path)) && "a path leads out of the project";
  if (why) throw new SvcError("sync_failed", { machine, why });
}

const REPORT_EVERY_MS = 200;

/** Limits progress reports to a readable rate, and adds the transfer rate since the beginning. */
function steadily(progress: TreePush["progress"]): Report {
  const begin = performance.now();
  let told = -Infinity;
  return (done, last = false) => {
    const now = performance.now();
    if (!progress || (!last && now - told < REPORT_EVERY_MS)) return;
    told = now;
    const seconds = Math.max(0.001, (now - begin) / 1000);
    progress({ ...done, bytes_per_second: Math.round(done.bytes / seconds) });
  };
}
