// Finds the checkpoint of another job from which a run resumes. Searches the downloaded files, by the rules of the
// package `svc` on the machine (python/svc/_checkpoints.py); docs/reference/training.md describes them.
//
// F1. Only complete checkpoints count: announced by the script, saved by a framework that writes a last file, or a
//     single file that is complete as far as its format can tell. Temporary names never count. A checkpoint of many
//     files counts in its state when it was complete, from its kept set (sets.ts): the files under its name may be
//     partly downloaded, of two versions, or half written when the run ended.
//     On several nodes it counts only with the share of each (shares.ts).
// F2. The choice is made once, before anything is sent, and recorded: the source may be running and keep saving.
// F3. A resumed job without a checkpoint of its own counts as the job that it was resumed from.
// F4. A checkpoint of a later placement is newer than any of an earlier one, whatever the clocks of their machines said (newest-first.ts).

import { lstat, mkdir, readFile, rm, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { copyWithHoles } from "../../platform/copy-with-holes.ts";
import { boundedJson } from "../../domain/bounded-json.ts";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import { newestFirst, newestOf, type SavedWhen } from "../../domain/newest-first.ts";
import { isMissing, orDiskFull, SvcError } from "../../errors/index.ts";
import type { MachineAccess } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import { readCheckpoints } from "./files.ts";
import { markedFolders, marksIn, TF_STATE } from "./folders-in-listing.ts";
import { foldersOf, INCOMPLETE, plainName, TEMPORARY, temporaryOfTensorFlow } from "./names.ts";
import { allKept, keptSet, knowsSets, rootOf, versionsOf, WhenSaved, type Version } from "./sets.ts";
import { Shares } from "./shares.ts";
import { readInProgress } from "./growing-files.ts";
import { trackedFolders } from "./trackers.ts";
import { isWhole, SINGLE } from "./whole-file.ts";

export const Resume = z.object({
  /** The job whose checkpoint it is. */
  job: z.string(),
  /** Path of the file or folder, relative to the checkpoint directory. */
  name: z.string(),
  /** Absent in a choice of an older program. */
  saved: WhenSaved.optional(),
  /** `root`: the local folder, absolute. */
  files: z.array(
    z.object({
      root: z.string(),
      path: z.string(),
      size: z.number(),
      mtime_ms: z.number(),
      /** The node that saved it. */
      node: z.int().optional(),
    }),
  ),
});
export type Resume = z.infer<typeof Resume>;

/** The downloaded files of a job. */
export interface Leavings {
  job: string;
  checkpoints: string;
  /** Paths that the script announced as complete. */
  announced: ReadonlySet<string>;
  /** Names that do not count: they are being removed. */
  removed?: ReadonlySet<string>;
  /** The placement whose machine saved each file, by path; 1 where it is missing. */
  savedBy?: ReadonlyMap<string, number>;
  nodes: number;
}

const CHAIN_MAX = 32;
const SHARD_INDEX_MAX = 64 << 20;
const TF_STATE_MAX = 1 << 20;
/** A folder with one of these files is a checkpoint of many files ... */
const UNIT =
  /^(?:training_args\.bin|trainer_state\.json|optimizer\.(?:pt|bin)|scheduler\.(?:pt|bin)|scaler\.pt)$|(?:\.distcp|\.index\.json|_states\.pt)$|^(?:optimizer|scheduler|scaler|rng_state|random_states|sampler|custom_checkpoint_).*\.pkl$/;
const UNIT_CONFIG = /^(?:adapter_)?config\.json$/;
const UNIT_FOLDER = /^(?:checkpoint[-_]|global_step|mp_rank_)/;
/** ... whose members have these names, and are not checkpoints on their own. */
const MEMBER =
  /^(?:model[.-]|model_optim_rng|distrib_optim|pytorch_model|adapter_model|optimizer|scheduler|scaler|rng_state|random_states|sampler|training_args|mp_rank_|(?:bf16_)?zero_pp_rank_|custom_checkpoint_)/;

/** The job whose checkpoint is wanted, and the checkpoint's path if it is not the last complete one. */
export interface ResumeSource {
  job: string;
  checkpoint?: string | undefined;
}

/**
 * The last complete checkpoint of the job, or of the one that it was resumed from; the named one, if a name is given. Null
 * when there is none.
 */
export async function chooseResume(
  from: ResumeSource,
  leavingsOf: (job: string) => Promise<(Leavings & { resumedFrom?: ResumeSource | undefined }) | null>,
): Promise<Resume | null> {
  let next: ResumeSource | undefined = from;
  for (let n = 0; next !== undefined && n < CHAIN_MAX; n++) {
    const left = await leavingsOf(next.job);
    if (left === null) return null;
    if (next.checkpoint !== undefined) return namedComplete(left, plainName(next.checkpoint));
    const found = await lastComplete(left);
    if (found) return found;
    next = left.resumedFrom;
  }
  return null;
}

async function namedComplete(leavings: Leavings, name: string): Promise<Resume | null> {
  for await (const found of completeOnes(leavings)) if (found.name === name) return found;
  return null;
}

export async function lastComplete(leavings: Leavings): Promise<Resume | null> {
  for await (const found of completeOnes(leavings)) return found;
  return null;
}

/** Every complete checkpoint, the newest first. */
export async function* completeOnes(leavings: Leavings): AsyncGenerator<Resume> {
  const { job, checkpoints, announced, nodes, removed = new Set(), savedBy } = leavings;
  const atHome = await readCheckpoints(checkpoints);
  const unfinished = temporaryOfTensorFlow(atHome);
  const all = atHome.filter(
    ({ path }) =>
      !path.split("/").some((n) => n.startsWith(".svc-") || TEMPORARY.test(n)) &&
      !(unfinished.size > 0 && foldersOf(path).some((folder) => unfinished.has(folder))),
  );
  // Checkpoints of node 0 are at the top, those of the others below node1, node2, ...
  const ofOthers = (path: string): boolean => {
    const node = /^node([1-9][0-9]*)\//.exec(path)?.[1];
    return node !== undefined && Number(node) < nodes;
  };
  const files = all.filter((f) => !ofOthers(f.path));
  const byName = new Map<string, Member[]>();
  const marked = await trackedFolders(checkpoints, files);
  // A tracker names only the newest one, which may not be downloaded: the kept sets are those that it named before.
  const sets = await allKept(checkpoints);
  for (const [name, kept] of sets) if (kept.announced === 0 && !isSingle(name, kept.files)) marked.add(name);
  for (const [name, members] of membersByName(files, candidates(files, announced, marked)))
    byName.set(name, members.map(withRoot(checkpoints, 0)));
  if (await knowsSets(checkpoints)) await onlyKept(checkpoints, byName, announced);
  for (const name of removed.size === 0 ? [] : byName.keys())
    if ([...parentsOf(name), name].some((place) => removed.has(place))) byName.delete(name);
  // A file that was still being written counts in its last complete version, if that was kept.
  for (const path of await readInProgress(checkpoints)) {
    if (!byName.has(path)) continue;
    const whole = await keptMembers(checkpoints, path, 0);
    if (whole) byName.set(path, whole);
    else byName.delete(path);
  }
  const whenOf = (members: readonly Member[], version?: Version): SavedWhen =>
    version?.saved ?? newestOf(members.map(({ path, mtime_ms: at }) => ({ placement: savedBy?.get(path) ?? 1, at })));
  const shares = nodes > 1 ? await Shares.read(checkpoints, nodes, all) : null;
  const choices: { name: string; members: Member[]; saved: SavedWhen; version?: Version }[] = [];
  for (const [name, members] of byName) {
    const kept = sets.get(name);
    const isKept = kept !== undefined && members[0]?.root === rootOf(checkpoints, kept);
    // A set that was kept before nodes kept shares is judged by node 0 alone.
    if (shares === null || isSingle(name, members) || kept?.placement === undefined) {
      choices.push({ name, members, saved: whenOf(members, isKept ? kept : undefined) });
      continue;
    }
    for (const version of versionsOf(kept)) {
      const own = membersOf(checkpoints, version, 0);
      choices.push({ name, members: own, saved: whenOf(own, version), version });
    }
  }
  choices.sort((a, b) => newestFirst(a.saved, b.saved) || (a.name < b.name ? 1 : -1));
  const found = new Set<string>();
  for (const { name, members, saved, version } of choices) {
    if (found.has(name)) continue;
    const direct = members.filter((f) => isDirect(f.path, name));
    if (!(await areWhole(direct)) || !(await haveShards(direct)) || isUnwrittenOrbax(name, members)) continue;
    if (!(await hasTensorFlowFiles(direct))) continue;
    const chosen = [...members];
    const taken = new Set(members.map((f) => f.path));
    if (shares !== null && version !== undefined) {
      const others = await shares.of(name, version);
      if (others === null) continue;
      for (const file of others) {
        if (taken.has(file.path)) continue;
        taken.add(file.path);
        chosen.push(file);
      }
      found.add(name);
      yield { job, name, saved, files: chosen };
      continue;
    }
    // Shards of other nodes belong to the same checkpoint; every node receives all of it.
    for (let node = 1; node < nodes; node++) {
      const top = `node${node}/`;
      const below = join(checkpoints, `node${node}`);
      const torn = await readInProgress(below);
      const theirs = all
        .filter((f) => f.path.startsWith(top))
        .map((f) => ({ ...f, path: f.path.slice(top.length) }))
        .filter((f) => !torn.has(f.path));
      const kept = await keptMembers(below, name, node);
      for (const file of kept ?? (membersByName(theirs, [name]).get(name) ?? []).map(withRoot(below, node))) {
        if (taken.has(file.path)) continue;
        taken.add(file.path);
        chosen.push(file);
      }
    }
    yield { job, name, saved, files: chosen };
  }
}

const gone = (resume: Resume, cause?: unknown): SvcError =>
  new SvcError("resume_unavailable", { job: resume.job, why: `its checkpoint ${resume.name} is gone` }, { cause });

type Member = Resume["files"][number];

const withRoot =
  (root: string, node: number) =>
  ({ path, size, modified_at }: CheckpointFile): Member => ({
    root,
    path,
    size,
    mtime_ms: Date.parse(modified_at),
    node,
  });

async function keptMembers(folder: string, name: string, node: number): Promise<Member[] | null> {
  const kept = await keptSet(folder, name);
  return kept === null ? null : membersOf(folder, kept, node);
}

const membersOf = (folder: string, version: Version, node: number): Member[] =>
  version.files.map((file) => ({ root: rootOf(folder, version), ...file, node }));

const isSingle = (name: string, members: readonly { path: string }[]): boolean =>
  members.every(({ path }) => path === name);

/**
 * Replaces checkpoints of many files by their kept sets; drops those without a set, and single files that belong to
 * one.
 */
async function onlyKept(
  checkpoints: string,
  byName: Map<string, Member[]>,
  announced: ReadonlySet<string>,
): Promise<void> {
  const isFolder = (name: string): boolean => byName.get(name)?.some(({ path }) => path !== name) === true;
  const folders = new Set([...byName.keys()].filter(isFolder));
  const known = new Map<string, Member[] | null>();
  const keptOf = async (name: string): Promise<Member[] | null> => {
    if (!known.has(name)) known.set(name, await keptMembers(checkpoints, name, 0));
    return known.get(name) ?? null;
  };
  for (const [name, members] of byName) {
    if (folders.has(name)) {
      const whole = await keptOf(name);
      if (whole) byName.set(name, whole);
      else byName.delete(name);
      continue;
    }
    // A file that was announced by itself is complete.
    if (announced.has(name)) continue;
    for (const folder of parentsOf(name))
      if ((announced.has(folder) || folders.has(folder)) && !isAsKept(await keptOf(folder), members[0]))
        byName.delete(name);
  }
}

/** Whether a single file is unchanged in its checkpoint, or does not belong to one. */
function isAsKept(kept: readonly Member[] | null, file: Member | undefined): boolean {
  if (kept === null || file === undefined) return false;
  const then = kept.find(({ path }) => path === file.path);
  return then === undefined || (then.size === file.size && Math.abs(then.mtime_ms - file.mtime_ms) < 1);
}

/**
 * Hard-links the chosen files into a folder of the run: the source may be running, and keep overwriting them. Throws
 * `resume_unavailable` if it already has.
 */
export async function pinResume(resume: Resume, folder: string): Promise<Resume> {
  const roots = [...new Set(resume.files.map(({ root }) => root))];
  const files = resume.files.map((file) => ({ ...file, root: join(folder, String(roots.indexOf(file.root))) }));
  await rm(folder, { recursive: true, force: true });
  for (const [i, { root, path, size }] of files.entries()) {
    const [from, name] = [join(resume.files[i]!.root, path), join(root, path)];
    await mkdir(dirname(name), { recursive: true, mode: 0o700 });
    await linkOrCopy(from, name).catch((cause: unknown) => {
      throw isMissing(cause) ? gone(resume, cause) : orDiskFull(cause, folder);
    });
    if ((await lstat(name)).size !== size) throw gone(resume);
  }
  return { ...resume, files };
}

/** Puts the checkpoint into the run's checkpoint directory under the same name. Repeatable before the launch. */
export async function placeResume(
  resume: Resume,
  access: MachineAccess,
  dir: string,
  signal: AbortSignal,
): Promise<void> {
  if (!access.inPlace) {
    for (const root of new Set(resume.files.map((f) => f.root))) {
      const files = resume.files
        .filter((f) => f.root === root)
        .map(({ path, size, mtime_ms }) => ({ path, size, executable: false, mtimeMs: mtime_ms }));
      await access.push({ from: root, to: dir, files, mirror: false }, signal);
    }
    return;
  }
  for (const { root, path, mtime_ms } of resume.files) {
    const target = join(dir, path);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    const { size, blocks } = await lstat(join(root, path)).catch((cause: unknown) => {
      throw isMissing(cause) ? gone(resume, cause) : cause;
    });
    await copyWithHoles({ from: join(root, path), to: target, size, stored: blocks * 512 }).catch((cause: unknown) => {
      throw isMissing(cause) ? gone(resume, cause) : cause;
    });
    await utimes(target, mtime_ms / 1_000, mtime_ms / 1_000);
  }
}

/**
 * The files for each name: the file itself, or all below it. Each path is looked up by its folders: there may be very
 * many of both.
 */
function membersByName(files: CheckpointFile[], names: readonly string[]): Map<string, CheckpointFile[]> {
  const members = new Map<string, CheckpointFile[]>(names.map((name) => [name, []]));
  for (const file of files)
    for (const place of [...parentsOf(file.path).slice(1), file.path]) members.get(place)?.push(file);
  return members;
}

function candidates(files: CheckpointFile[], announced: ReadonlySet<string>, tracked: ReadonlySet<string>): string[] {
  const folders = new Map<string, Set<string>>();
  for (const { path } of files) {
    const names = path.split("/");
    for (let i = 0; i < names.length; i++) {
      const folder = names.slice(0, i).join("/");
      const inside = folders.get(folder) ?? new Set<string>();
      folders.set(folder, inside.add(names[i]!));
    }
  }
  const has = (folder: string, name: string): boolean => folders.get(folder)?.has(name) === true;
  const marked = markedFolders(folders);
  const savedAsOne = (folder: string): boolean => folder !== "" && (tracked.has(folder) || marked.has(folder));
  const isUnit = (folder: string): boolean => {
    const inside = [...(folders.get(folder) ?? [])];
    if (inside.some((name) => UNIT.test(name))) return true;
    return folder !== "" && (UNIT_FOLDER.test(lastName(folder)) || inside.some((name) => UNIT_CONFIG.test(name)));
  };
  const found = new Set<string>();
  const paths = new Set(files.map((f) => f.path));
  for (const name of announced) {
    if (name === "" || (!folders.has(name) && !paths.has(name))) continue;
    if (!has(name, INCOMPLETE)) found.add(name);
  }
  for (const folder of folders.keys()) {
    const above = parentsOf(folder);
    if (above.some((f) => savedAsOne(f) || has(f, INCOMPLETE))) continue;
    if (savedAsOne(folder) && !has(folder, INCOMPLETE)) found.add(folder);
  }
  for (const { path } of files) {
    const folder = parentsOf(path).at(-1) ?? "";
    if (!SINGLE.test(path) || parentsOf(path).some((f) => savedAsOne(f) || has(f, INCOMPLETE))) continue;
    if (!(isUnit(folder) && MEMBER.test(lastName(path)))) found.add(path);
  }
  return [...found];
}

/** The folders above the path, the top (`""`) first, which has none. */
const parentsOf = (path: string): string[] => (path === "" ? [] : foldersOf(path));

const lastName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
const isDirect = (path: string, name: string): boolean => path === name || !path.slice(name.length + 1).includes("/");

/** Orbax renames each item of a checkpoint into its place: before the first item there is only the mark. */
const isUnwrittenOrbax = (name: string, members: readonly Member[]): boolean =>
  members.some(({ path }) => path === `${name}/_CHECKPOINT_METADATA`) && members.length === 1;

const ShardIndex = z.object({ weight_map: z.record(z.string(), z.string()) });

/** Whether every shard that an index of weights names exists. */
async function haveShards(files: readonly Member[]): Promise<boolean> {
  const names = new Set(files.map(({ path }) => lastName(path)));
  for (const { root, path, size } of files) {
    if (!path.endsWith(".index.json") || size > SHARD_INDEX_MAX) continue;
    const index = ShardIndex.safeParse(boundedJson(await readFile(join(root, path), "utf8").catch(() => "")));
    if (index.success && Object.values(index.data.weight_map).some((shard) => !names.has(shard))) return false;
  }
  return true;
}

/** Whether the prefix in TensorFlow's state file exists, with its index and every shard. */
async function hasTensorFlowFiles(files: readonly Member[]): Promise<boolean> {
  const names = new Set(files.map(({ path }) => lastName(path)));
  const state = marksIn(names).includes(TF_STATE) ? files.find(({ path }) => lastName(path) === TF_STATE) : undefined;
  if (state === undefined) return true;
  const text = state.size > TF_STATE_MAX ? "" : await readFile(join(state.root, state.path), "utf8").catch(() => "");
  const prefix = /^model_checkpoint_path: "([^"]+)"/m.exec(text)?.[1];
  if (prefix === undefined) return false;
  const last = lastName(prefix);
  const shards = [...names].filter((name) => name.startsWith(`${last}.data-`));
  const count = Number(/-of-([0-9]{5})$/.exec(shards[0] ?? "")?.[1] ?? NaN);
  return names.has(`${last}.index`) && shards.length === count;
}

/** One after the other: each is opened, and there may be more than a process may have open. */
async function areWhole(files: readonly Member[]): Promise<boolean> {
  for (const { root, path, size } of files) if (!(await isWhole(join(root, path), size))) return false;
  return true;
}
