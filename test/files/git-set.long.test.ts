// The property of git-set.whole.test.ts over 2,000 repositories: `npm run test:long -- test/files/git-set.long.test.ts`.

import { expect, it } from "vitest";
import { compareWithGit } from "./compare-with-git.ts";

const REPOSITORIES = 2_000;

it("The files of 2,000 random repositories are those that git lists", async () => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
  console.log(`git set seeds ${seed} to ${seed + REPOSITORIES - 1}`);
  const compared = await compareWithGit(seed, REPOSITORIES);
  console.log(JSON.stringify(compared));
  expect(compared.repositories).toBe(REPOSITORIES);
}, 3_600_000);
