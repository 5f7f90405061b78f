import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { listProject } from "../../src/files/listing/project-listing.ts";
import { gitTop } from "../../src/files/listing/git-layout.ts";
import { repositoryFiles } from "../../src/files/listing/repository-files.ts";
import { asGitLists, isPlain, isThere, RepositoryMaker } from "./random-repositories.ts";

export interface Compared {
  repositories: number;
  /** The number of repositories in which our own walk was compared as well. */
  byOwnWalk: number;
  paths: number;
  /** The number of repositories that git refused. */
  refused: number;
}

/**
 * Makes `count` repositories, with the seeds from `seed` on, and compares git's list with ours. Throws an error with
 * all differences.
 */
export async function compareWithGit(seed: number, count: number): Promise<Compared> {
  const compared: Compared = { repositories: 0, byOwnWalk: 0, paths: 0, refused: 0 };
  const differences: string[] = [];
  for (let i = 0; i < count; i++) {
    const top = realpathSync(mkdtempSync(join(tmpdir(), "svc-git-set-")));
    try {
      await compareOne(seed + i, top, compared);
      compared.repositories++;
    } catch (e) {
      differences.push(String(e));
    } finally {
      rmSync(top, { recursive: true, force: true });
    }
    if ((i + 1) % 100 === 0) console.log(`${i + 1} repositories, ${differences.length} differences`);
  }
  vi.unstubAllEnvs();
  expect(differences).toEqual([]);
  return compared;
}

async function compareOne(seed: number, top: string, compared: Compared): Promise<void> {
  const home = join(top, "home");
  vi.stubEnv("HOME", home);
  vi.stubEnv("XDG_CONFIG_HOME", undefined);
  const { project, ownCannot, told } = new RepositoryMaker(seed, top, home).make();
  const theirs = listedByGit(home, project);
  const about = `seed ${seed} (${told.join(", ")})`;
  // A symlink that leads up can make the maker remove the repository itself. Then git has nothing to say.
  if (theirs === null && gitTop(project) === null) return;
  if (theirs === null) {
    // Git refuses the repository or a nested one, so svc must refuse it as well, with a message.
    await expect(taken(project, false), about).rejects.toMatchObject({ code: "project_dir_refused" });
    compared.refused++;
    return;
  }
  expect(await taken(project, false), about).toEqual(theirs);
  compared.paths += theirs.length;
  if (!ownCannot) {
    const ours = await taken(project, true).catch((e: unknown) => {
      // git knows a file whose rules the directory lacks, so only git can read these rules: our own walk then refuses.
      if (String(e).includes("the sparse checkout leaves out")) return null;
      throw e;
    });
    if (ours !== null) {
      expect(ours, `${about}, by our own walk`).toEqual(theirs);
      compared.byOwnWalk++;
    }
  }
  const { files } = await listProject(project);
  expect(
    files.filter((path) => isPlain(project, path)),
    about,
  ).toEqual(theirs.filter((path) => isPlain(project, path)));
}

function listedByGit(home: string, project: string): string[] | null {
  try {
    return asGitLists(home, project);
  } catch (e) {
    if (String(e).includes("fatal: ")) return null;
    throw e;
  }
}

async function taken(project: string, own: boolean): Promise<string[]> {
  const found: string[] = [];
  await repositoryFiles(project, {
    own,
    each: async (paths) => {
      for (const path of paths) if (isThere(project, path)) found.push(path);
    },
  });
  return found.sort();
}
