// Which complete checkpoints stay at home (`keep_checkpoints` of a run).
//
// KC1. The newest complete checkpoint always stays, and so does one that cannot be judged: without a step, or a value of the metric.
// KC2. Only complete checkpoints are removed: what is still coming, and files that belong to none, stay.
// KC3. What is removed is written down first, so that it is not downloaded again while the machine still has it. A version that is saved
//      under the same name later counts as a new one.
// KC4. Another run that resumes from a checkpoint has hard links of its own to it.

import { lstat, readFile, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { bestOf, parseBest } from "../../schemas/best.ts";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { nullIfMissing } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import type { KeepCheckpoints } from "../../schemas/spec.ts";
import { isCopyOf, readCheckpoints } from "./files.ts";
import { foldersOf } from "./names.ts";
import type { CheckpointSets } from "./sets.ts";
import { completeOnes, type Announced, type Resume } from "./resume.ts";

export interface KeepRules {
  keep: KeepCheckpoints;
  announced: () => Promise<Announced>;
  /** Of a metric, in the order in which they were logged. */
  points: (metric: string) => readonly { step: number; value: number }[];
}

/** Beside the checkpoints of a node at home. */
const DROPPED = ".svc-dropped.json";
const Dropped = z.array(z.object({ name: z.string(), path: z.string(), size: z.number(), mtime_ms: z.number() }));
type Dropped = z.infer<typeof Dropped>;

export class Retention {
  readonly #targetDir: string;
  readonly #rules: KeepRules;
  readonly #sets: CheckpointSets;
  #dropped = new Map<string, Dropped[number]>();

  constructor(targetDir: string, rules: KeepRules, sets: CheckpointSets) {
    this.#targetDir = targetDir;
    this.#rules = rules;
    this.#sets = sets;
  }

  async prepare(): Promise<void> {
    const text = await readFile(join(this.#targetDir, DROPPED), "utf8").catch(nullIfMissing);
    const known = text === null ? null : Dropped.safeParse(jsonOf(text));
    this.#dropped = new Map((known?.success ? known.data : []).map((file) => [file.path, file]));
  }

  /** KC3. One file that is new, or another one, makes the checkpoint a new one, also with files that are the same. */
  saw(listing: readonly RemoteFile[]): void {
    const names = new Set([...this.#dropped.values()].map(({ name }) => name));
    if (names.size === 0) return;
    const saved = new Set<string>();
    for (const file of listing)
      for (const place of [...foldersOf(file.path), file.path])
        if (names.has(place) && !this.isDropped(file)) saved.add(place);
    for (const [path, { name }] of this.#dropped) if (saved.has(name)) this.#dropped.delete(path);
  }

  isDropped(file: RemoteFile): boolean {
    const dropped = this.#dropped.get(file.path);
    return dropped?.size === file.size && Math.abs(dropped.mtime_ms - file.mtimeMs) < 0.5;
  }

  /** Removes what need not stay. @returns the paths that are not at home any more */
  async apply(listing: readonly RemoteFile[]): Promise<string[]> {
    const removed = await this.#finish(listing);
    const announced = await this.#rules.announced();
    const leavings = { job: "", checkpoints: this.#targetDir, announced: new Set(announced.times.keys()), nodes: 1 };
    const all: Resume[] = [];
    for await (const one of completeOnes(leavings)) all.push(one);
    const stays = this.#chosen(all, announced, listing);
    const goes = all.filter((one) => !stays.has(one));
    if (goes.length === 0) return removed;
    const used = new Set([...stays].flatMap(({ name, files }) => [name, ...files.map(({ path }) => path)]));
    // A name within one that stays, or around it, is part of it.
    const isPart = ({ name }: Resume): boolean =>
      [...foldersOf(name), name].some((place) => place !== "" && used.has(place)) ||
      [...used].some((path) => path.startsWith(`${name}/`));
    const names = goes.filter((one) => !isPart(one)).map(({ name }) => name);
    return [...removed, ...(await this.#drop(names, listing))];
  }

  #chosen(all: readonly Resume[], announced: Announced, listing: readonly RemoteFile[]): Set<Resume> {
    const { last, best: text, rotation } = this.#rules.keep;
    let stays = new Set(last === undefined && text === undefined ? all : all.slice(0, last ?? 0));
    const best = text === undefined ? null : parseBest(text);
    if (best) {
      const points = this.#rules.points(best.metric);
      const values = new Map(all.map((one) => [one, valueAt(points, stepOf(one.name, announced))]));
      for (const one of bestOf(all, best, (each) => values.get(each) ?? null)) stays.add(one);
      // KC1
      for (const one of all) if (values.get(one) === null && last === undefined) stays.add(one);
    }
    if (rotation === "follow" && isWhole(listing)) {
      const there = new Set(listing.flatMap(({ path }) => [...foldersOf(path), path]));
      stays = new Set([...stays].filter(({ name }) => there.has(name)));
    }
    const [newest] = all;
    if (newest) stays.add(newest);
    return stays;
  }

  async #drop(names: readonly string[], listing: readonly RemoteFile[]): Promise<string[]> {
    const gone = new Set(names);
    const nameOf = (path: string): string | undefined => [...foldersOf(path), path].find((place) => gone.has(place));
    const there = new Set(listing.map(({ path }) => path));
    for (const path of this.#dropped.keys()) if (!there.has(path)) this.#dropped.delete(path);
    for (const { path, size, mtimeMs } of listing) {
      const name = nameOf(path);
      if (name !== undefined) this.#dropped.set(path, { name, path, size, mtime_ms: mtimeMs });
    }
    replaceFile(join(this.#targetDir, DROPPED), JSON.stringify([...this.#dropped.values()]));
    const removed: string[] = [];
    for (const name of names) {
      const below = (await readCheckpoints(join(this.#targetDir, name)).catch(() => [])).map(
        ({ path }) => `${name}/${path}`,
      );
      for (const path of [...below, name]) if (await this.#unlink(path)) removed.push(path);
      await this.#sets.dropFile(name);
    }
    return removed;
  }

  /** What a crash has left of files that were to go. */
  async #finish(listing: readonly RemoteFile[]): Promise<string[]> {
    const removed: string[] = [];
    for (const file of listing) {
      if (!this.isDropped(file)) continue;
      const stats = await lstat(join(this.#targetDir, file.path)).catch(() => null);
      if (stats && isCopyOf(file, stats) && (await this.#unlink(file.path))) removed.push(file.path);
    }
    return removed;
  }

  /** Removes a file, and the folders above it that are empty then. False where there was no file. */
  async #unlink(path: string): Promise<boolean> {
    const full = join(this.#targetDir, path);
    const stats = await lstat(full).catch(() => null);
    if (!stats?.isFile()) return false;
    await rm(full, { force: true });
    for (const folder of foldersOf(path).toReversed()) {
      if (
        folder === "" ||
        !(await rmdir(join(this.#targetDir, folder)).then(
          () => true,
          () => false,
        ))
      )
        break;
    }
    return true;
  }
}

/** Whether the machine listed all that it has: a symlink that is refused hides nothing. */
const isWhole = (listing: readonly RemoteFile[]): boolean =>
  listing.every(({ refused, isLink }) => refused === undefined || isLink === true);

/** The step that was announced, or the last number of the name: `checkpoint-500`, `epoch=3-step=600.ckpt`. */
function stepOf(name: string, { steps }: Announced): number | null {
  const said = steps.get(name);
  if (said !== undefined) return said;
  const number = /([0-9]{1,15})[^0-9]*$/.exec(name.slice(name.lastIndexOf("/") + 1))?.[1];
  return number === undefined ? null : Number(number);
}

/** The last value that was logged up to the step. */
function valueAt(
  points: KeepRules["points"] extends (m: string) => infer P ? P : never,
  step: number | null,
): number | null {
  if (step === null) return null;
  let found: { step: number; value: number } | null = null;
  for (const point of points) if (point.step <= step && (found === null || point.step >= found.step)) found = point;
  return found?.value ?? null;
}
