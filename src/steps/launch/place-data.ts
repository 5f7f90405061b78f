// Places the data of a run where it runs: below SVC_DATA_DIR, one folder per name.
//
// D1. On a machine: only missing files are sent, and every file is compared with its digest there before the run
//     begins.
// D2. In place: symlinks to the original files. Nothing is copied, and only size, times and inode are compared.
// D3. Idempotent: files from an interrupted attempt, or from before a restart, are not sent again. A wrong file there
//     is removed, and the next attempt sends it again.
// D4. A local change since the submission ends the run before it begins: it is not the requested data any more.

import { mkdir, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { bytes } from "../../domain/bytes.ts";
import { SvcError } from "../../errors/index.ts";
import { placeBelow } from "../../files/data/scan.ts";
import { doubts } from "../../files/data/verify.ts";
import { hashFiles } from "../../files/hash-pool.ts";
import type { MachineAccess, TreeFile, TreePush } from "../../providers/host.ts";
import type { DataManifest } from "../../schemas/data.ts";
import type { StepContext } from "../step.ts";

/** How many of the files that are wrong on the machine are read locally, to find out which side is at fault. */
const SUSPECTS_MAX = 100;
/** Disk space that is left for the run itself. */
const SPARE_BYTES = 32 * 1024 ** 2;

/** For the timeline: the data's identity, whatever happens to its name later. */
const told = (all: readonly DataManifest[]) =>
  all.length === 0
    ? {}
    : {
        data: Object.fromEntries(all.map((d) => [d.name, { files: d.files.length, bytes: d.bytes, sha256: d.sha256 }])),
      };

/** Links `dir`/<name> to the data. Throws `data_changed`. */
export async function linkData(all: readonly DataManifest[], dir: string): Promise<Record<string, unknown>> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const data of all) {
    await checkUnchanged(data);
    const at = join(dir, data.name);
    await rm(at, { recursive: true, force: true });
    const [first] = data.roots;
    if (data.roots.length === 1 && first?.folder && first.into === "") {
      await symlink(first.path, at);
      continue;
    }
    await mkdir(at, { mode: 0o700 });
    for (const { path, into } of data.roots) await symlink(path, join(at, into));
  }
  return told(all);
}

/**
 * Sends the data to the machine. Throws `data_changed`, `data_too_large`, `sync_failed` and the errors of reaching a
 * machine.
 */
export async function sendData(
  all: readonly DataManifest[],
  access: MachineAccess,
  machine: string,
  context: StepContext,
): Promise<Record<string, unknown>> {
  const sent: Record<string, number | null> = {};
  for (const data of all) {
    const root = `${access.layout().data}/${data.name}`;
    await checkUnchanged(data);
    await checkRoom(data, root, access, machine, context);
    let bytesSent: number | null = 0;
    for (const tree of treesOf(data, root)) {
      const total = {
        files_total: tree.files.length,
        bytes_total: tree.files.reduce((sum, { size }) => sum + size, 0),
      };
      const doing = `sending the data ${data.name}`;
      context.progress({ doing, files: 0, bytes: 0, ...total });
      const progress: TreePush["progress"] = (done) => context.progress({ doing, ...done, ...total });
      const { sent_bytes } = await access.push({ ...tree, progress }, context.signal);
      bytesSent = bytesSent === null || sent_bytes === null ? null : bytesSent + sent_bytes;
    }
    sent[data.name] = bytesSent;
    await verifyThere(data, root, access, machine, context);
  }
  return all.length === 0 ? {} : { ...told(all), data_sent_bytes: sent };
}

async function checkUnchanged(data: DataManifest): Promise<void> {
  const why = await doubts(data);
  if (why !== null) throw new SvcError("data_changed", { name: data.name, why });
}

/** A file may differ although size and times are as recorded: sending it again would be useless, and cost money. */
async function checkContents(data: DataManifest, paths: readonly string[], signal: AbortSignal): Promise<void> {
  const suspects = new Set(paths.slice(0, SUSPECTS_MAX));
  const records = data.files.filter(([path]) => suspects.has(path));
  const results = await hashFiles(
    records.map(([path, size]) => ({ at: placeBelow(data.roots, path) ?? "", size })),
    { signal },
  );
  const odd = records.flatMap(([path, , sha256], i) => {
    const result = results[i]!;
    return "why" in result
      ? [`${path}: ${result.why}`]
      : result.sha256 === sha256
        ? []
        : [`${path} has different content`];
  });
  if (odd.length > 0) throw new SvcError("data_changed", { name: data.name, why: odd.slice(0, 3).join(", ") });
}

const filesOf = (data: DataManifest): TreeFile[] => data.files.map(([path, size, sha256]) => ({ path, size, sha256 }));

async function checkRoom(
  data: DataManifest,
  root: string,
  access: MachineAccess,
  machine: string,
  { signal }: StepContext,
): Promise<void> {
  const { disk_free_bytes: free } = await access.greet(signal);
  if (free === null || data.bytes + SPARE_BYTES < free) return;
  // Existing files need no more space.
  const sizes = new Map(data.files.map(([path, size]) => [path, size]));
  const missing = await access.compare({ root, files: filesOf(data), digests: false, drop: false }, signal);
  const need = missing.reduce((sum, { path }) => sum + (sizes.get(path) ?? 0), 0);
  if (need > 0 && need + SPARE_BYTES >= free)
    throw new SvcError("data_too_large", { machine, need: bytes(need), free: bytes(free) });
}

/** One tree for each root; several are next to each other under their own names. */
function treesOf(data: DataManifest, to: string): Omit<TreePush, "progress">[] {
  return data.roots.map((root) => {
    const from = root.folder && root.into === "" ? root.path : dirname(root.path);
    const own = data.files.filter(
      ([path]) => root.into === "" || path === root.into || path.startsWith(`${root.into}/`),
    );
    // The name within the data is that of the root itself, so paths are equal on both sides.
    const files = own.map(([path, size, , mtimeMs]) => ({ path, size, executable: false, mtimeMs }));
    return { from, to, files, mirror: false, followLinks: true, inPieces: true };
  });
}

async function verifyThere(
  data: DataManifest,
  root: string,
  access: MachineAccess,
  machine: string,
  context: StepContext,
): Promise<void> {
  const doing = `verifying the data ${data.name}`;
  const total = { files_total: data.files.length, bytes_total: data.bytes };
  const progress = (done: { files: number; bytes: number }): void => context.progress({ doing, ...done, ...total });
  progress({ files: 0, bytes: 0 });
  const wrong = await access.compare(
    { root, files: filesOf(data), digests: true, drop: true, progress },
    context.signal,
  );
  if (wrong.length === 0) return;
  await checkUnchanged(data);
  await checkContents(
    data,
    wrong.map(({ path }) => path),
    context.signal,
  );
  const named = wrong.slice(0, 3).map(({ path, why }) => `${path} ${why}`);
  const more = wrong.length > named.length ? ` and ${wrong.length - named.length} more files` : "";
  throw new SvcError("sync_failed", { machine, why: `of the data ${data.name}, ${named.join(", ")}${more}` });
}
