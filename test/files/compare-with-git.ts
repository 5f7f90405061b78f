import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { listProject } from "../../src/files/listing/project-listing.ts";
import { repositoryFiles } from "../../src/files/listing/repository-files.ts";
import { asGitLists, isPlain, isThere, RepositoryMaker } from "./random-repositories.ts";

export interface Compared {
  repositories: number;
  /** In how many our own walk was compared as well. */
  byOwnWalk: number;
  paths: number;
  /** How many git refused. */
  refused: number;
}

/** Makes `count` repositories, one from each seed on, and compares what git lists with what svc lists. Throws at a difference. */
export async function compareWithGit(seed: number, count: number): Promise<Compared> {
  const compared: Compared = { repositories: 0, byOwnWalk: 0, paths: 0, refused: 0 };
  for (let i = 0; i < count; i++) {
    compared.repositories++;
    const top = realpathSync(mkdtempSync(join(tmpdir(), "svc-git-set-")));
    const home = join(top, "home");
    vi.stubEnv("HOME", home);
    vi.stubEnv("XDG_CONFIG_HOME", undefined);
    const { project, ownCannot, told } = new RepositoryMaker(seed + i, top, home).make();
    const theirs = listedByGit(home, project);
    const about = `seed ${seed + i} (${told.join(", ")}) in ${project}`;
    if (theirs === null) {
      // Git refuses the repository or one within: so do we, in words.
      await expect(taken(project, false), about).rejects.toMatchObject({ code: "project_dir_refused" });
      compared.refused++;
      rmSync(top, { recursive: true, force: true });
      continue;
    }
    expect(await taken(project, false), about).toEqual(theirs);
    compared.paths += theirs.length;
    if (!ownCannot) {
      const ours = await taken(project, true).catch((e: unknown) => {
        // The rules of a file that git knows and the directory lacks are for git alone to read: then our own walk refuses.
        if (String(e).includes("the sparse checkout leaves out")) return null;
        throw e;
      });
      if (ours === null) continue;
      expect(ours, `${about}, by our own walk`).toEqual(theirs);
      compared.byOwnWalk++;
    }
    const { files } = await listProject(project);
    expect(
      files.filter((path) => isPlain(project, path)),
      about,
    ).toEqual(theirs.filter((path) => isPlain(project, path)));
    rmSync(top, { recursive: true, force: true });
  }
  vi.unstubAllEnvs();
  return compared;
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
    each: async (files) => {
      for (const { path } of files) if (isThere(project, path)) found.push(path);
    },
  });
  return found.sort();
}
