// Deletes contents of the code store that no run uses any more.
//
// G1. A submission writes contents first, then the manifest, and its job's row last. From its first write until that
//     row is committed it holds their names (`holdCode`), and held files are never deleted.
// G2. The submission takes a hold before it checks whether a content already exists. So a content that a collection
//     deletes is either missing at the time of that check, and is written again, or was held in time.
// G3. Both sides run in the one process that has the lock of the home. Looking at holds and deleting happen in one turn of the
//     event loop, so no lock is needed between them.
// G4. A manifest that cannot be read may name any content: the collection then deletes no content at all, and says so.

import { lstatSync, readdirSync, rmSync, statSync, unlinkSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isMissing, nullIfMissing } from "../../errors/index.ts";
import { CodeSnapshot } from "../../schemas/job.ts";
import { isKept } from "./contents.ts";

const SLICE_MS = 8;
/** A half-written file of this age belongs to a process that died. */
const STRAY_MS = 24 * 3600_000;

/** A submission's claim on contents of a code store until its job's row is committed (G1). */
export interface CodeHold {
  /** Adds the name of a content (its SHA-256), a snapshot or a list of excluded files (their ids). */
  add(name: string): void;
  release(): void;
}

interface Store {
  holds: Set<Set<string>>;
  /** Running collections: each keeps every name that was held at any time since it began. */
  collecting: Set<Set<string>>;
}
const stores = new Map<string, Store>();

function storeOf(codeDir: string): Store {
  let store = stores.get(codeDir);
  if (!store) stores.set(codeDir, (store = { holds: new Set(), collecting: new Set() }));
  return store;
}

export function holdCode(codeDir: string): CodeHold {
  const store = storeOf(codeDir);
  const names = new Set<string>();
  store.holds.add(names);
  return {
    add(name) {
      names.add(name);
      for (const seen of store.collecting) seen.add(name);
    },
    release: () => void store.holds.delete(names),
  };
}

export interface Collected {
  snapshots: number;
  blobs: number;
  /** Bytes of the contents that were deleted. */
  bytes: number;
  /** Why contents were kept although perhaps no run uses them; null if nothing prevented their deletion. */
  kept: string | null;
}

/**
 * Deletes the snapshots, contents and lists in `codeDir` that no run uses. Call it after the rows of jobs were removed,
 * in the process that has the lock of the home (the control plane, or a command that took the lock itself); a
 * submission may run at the same time. Running it twice does no harm.
 *
 * @param codeDir `<home>/code`, spelled as for `createSnapshot`.
 * @param inUse returns the ids that rows of jobs name: `EngineStore.codeInUse()`. It is called once, at the beginning.
 * @param deleteNow false reports what would be deleted and deletes nothing.
 */
export async function collectGarbage(request: {
  codeDir: string;
  inUse: () => Iterable<string>;
  deleteNow?: boolean;
}): Promise<Collected> {
  const { codeDir, deleteNow = true } = request;
  const store = storeOf(codeDir);
  const used = new Set<string>();
  const collected: Collected = { snapshots: 0, blobs: 0, bytes: 0, kept: null };
  store.collecting.add(used);
  try {
    // One turn: a submission is either held or has its row, never neither.
    for (const hold of store.holds) for (const name of hold) used.add(name);
    for (const name of request.inUse()) used.add(name);
    const remove = async (folder: string, name: string, id: string): Promise<number | null> => {
      await pauseIfLong();
      if (used.has(id)) return null;
      return unlinked(join(folder, name), deleteNow);
    };
    for (const kind of ["snapshots", "left-out"]) {
      const folder = join(codeDir, kind);
      for (const name of await namesIn(folder)) {
        const id = name.replace(/\.json$/, "");
        if (id === name) continue;
        if (used.has(id)) {
          if (kind === "snapshots") collected.kept ??= await addContents(join(folder, name), used);
        } else if ((await remove(folder, name, id)) !== null && kind === "snapshots") collected.snapshots++;
      }
    }
    if (collected.kept !== null) return collected;
    for (const part of await namesIn(join(codeDir, "blobs"))) {
      const folder = join(codeDir, "blobs", part);
      if (part.startsWith(".new-") || !/^[0-9a-f]{2}$/.test(part)) continue;
      for (const name of await namesIn(folder)) {
        if (!/^[0-9a-f]{64}$/.test(name)) continue;
        const bytes = await remove(folder, name, name);
        if (bytes === null) continue;
        collected.blobs++;
        collected.bytes += bytes;
      }
    }
    if (deleteNow) removeStrays(codeDir);
    return collected;
  } finally {
    store.collecting.delete(used);
  }
}

/** Adds the contents that a manifest names; returns the reason if it cannot be read (G4). */
async function addContents(manifest: string, used: Set<string>): Promise<string | null> {
  try {
    const { files } = CodeSnapshot.parse(JSON.parse(await readFile(manifest, "utf8")));
    for (const file of files) if (isKept(file)) used.add(file.sha256);
    return null;
  } catch (cause) {
    if (isMissing(cause)) return null;
    return `the manifest ${manifest} of a run cannot be read, so the contents that it needs are unknown`;
  }
}

/** The size of the file; null if it was already gone. */
function unlinked(path: string, deleteNow: boolean): number | null {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!stats) return null;
  try {
    if (deleteNow) unlinkSync(path);
    return stats.size;
  } catch (cause) {
    return nullIfMissing(cause);
  }
}

let sliceEnds = 0;
async function pauseIfLong(): Promise<void> {
  if (performance.now() < sliceEnds) return;
  await setImmediate();
  sliceEnds = performance.now() + SLICE_MS;
}

const namesIn = async (folder: string): Promise<string[]> => (await readdir(folder).catch(nullIfMissing)) ?? [];

/** Half-written files of processes that died. */
function removeStrays(codeDir: string): void {
  for (const part of ["snapshots", "left-out", "blobs"]) {
    const folder = join(codeDir, part);
    if (!statSync(folder, { throwIfNoEntry: false })) continue;
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      if (!name.slice(name.lastIndexOf("/") + 1).startsWith(".new-")) continue;
      const stats = lstatSync(join(folder, name), { throwIfNoEntry: false });
      if (stats && Date.now() - stats.ctimeMs > STRAY_MS) rmSync(join(folder, name), { force: true });
    }
  }
}
