// Keeps the files of an earlier machine of the run that the present one would replace. A script that starts again on another machine
// begins its tables and records anew: `history.csv` of the machine that was lost is on this computer only.
//
// EF1. Before a file of the present machine takes the place of one that an earlier machine saved, that one gets a second name, which ends
//      with `~placement<N>`. It stays, whatever the rules for checkpoints: it belongs to none.
// EF2. Not so if nothing is lost: the new file begins with all bytes of the old one, svc gave the old one to the present machine, or both
//      belong to a checkpoint of many files, whose names are saved again and again.
// EF3. The same holds if the present machine has a folder under the name of an earlier file, or a file under the name of an earlier folder.

import { constants } from "node:fs";
import { lstat, mkdir, open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { hashOf } from "../../platform/hash-of.ts";
import { linkOrCopy } from "../../platform/link-or-copy.ts";
import { nullIfMissing } from "../../errors/index.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import { asRecord, homeStats, readCheckpoints } from "./files.ts";
import type { GivenFiles } from "./given-files.ts";
import { foldersOf, NAME_BYTES_MAX } from "./names.ts";
import type { CheckpointSets, SavingPlacements } from "./sets.ts";

export class EarlierFiles {
  readonly #targetDir: string;
  readonly #placements: SavingPlacements | undefined;
  readonly #given: GivenFiles;
  readonly #sets: CheckpointSets;

  constructor(
    { targetDir, placements }: { targetDir: string; placements?: SavingPlacements | undefined },
    given: GivenFiles,
    sets: CheckpointSets,
  ) {
    this.#targetDir = targetDir;
    this.#placements = placements;
    this.#given = given;
    this.#sets = sets;
  }

  /**
   * EF1, EF3. Call it before the download `beside` is moved to `path`.
   * @returns the files under their second names; empty if none needs one.
   */
  async keep(path: string, beside: string): Promise<CheckpointFile[]> {
    if ((this.#placements?.present ?? 1) === 1) return [];
    const there = await homeStats(this.#targetDir, path);
    if (there?.isDirectory()) {
      const below = await readCheckpoints(join(this.#targetDir, path));
      const kept = below.map((file) =>
        this.#keepOne(`${path}/${file.path}`, (ending) => `${secondName(path, ending)}/${file.path}`),
      );
      return (await Promise.all(kept)).flat();
    }
    for (const folder of there === null ? foldersOf(path).slice(1) : []) {
      const inTheWay = await homeStats(this.#targetDir, folder);
      if (inTheWay?.isFile()) return this.#keepOne(folder, (ending) => secondName(folder, ending));
    }
    if (!there?.isFile() || this.#earlierOf(path) === null || (await this.#sets.isMember(path))) return [];
    if (await beginsWith(beside, join(this.#targetDir, path), there.size)) return [];
    return this.#keepOne(path, (ending) => secondName(path, ending));
  }

  /** The earlier placement that saved the file; null if none did, or if svc gave the file to the present one. */
  #earlierOf(path: string): number | null {
    const by = this.#placements?.of(path) ?? null;
    if (this.#placements === undefined || by === null || by >= this.#placements.present) return null;
    return this.#given.hasPath(path) ? null : by;
  }

  async #keepOne(path: string, second: (ending: string) => string): Promise<CheckpointFile[]> {
    const by = this.#earlierOf(path);
    if (by === null) return [];
    const old = await homeStats(this.#targetDir, path);
    if (!old?.isFile() || old.size === 0) return [];
    const name = second(`~placement${by}`);
    // A process that ended before it could replace the file has made the link already.
    if ((await lstat(join(this.#targetDir, name)).catch(nullIfMissing)) === null) {
      await mkdir(dirname(join(this.#targetDir, name)), { recursive: true, mode: 0o700 });
      await linkOrCopy(join(this.#targetDir, path), join(this.#targetDir, name));
    }
    return [asRecord(name, old.size, old.mtimeMs)];
  }
}

/** Whether the first `size` bytes of `file` are those of `other`. */
async function beginsWith(file: string, other: string, size: number): Promise<boolean> {
  if ((await lstat(file)).size < size) return false;
  const digests: string[] = [];
  for (const each of [file, other]) {
    const handle = await open(each, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      digests.push(await hashOf(handle, 0, size));
    } finally {
      await handle.close();
    }
  }
  return digests[0] === digests[1];
}

/** The path with this ending; the end of a name that would be too long with it is cut off. */
function secondName(path: string, ending: string): string {
  let name = path;
  while (Buffer.byteLength(basename(name) + ending) > NAME_BYTES_MAX) name = name.slice(0, -1);
  return name.toWellFormed() + ending;
}
