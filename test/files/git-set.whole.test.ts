// A run's files are exactly those that git lists. test/files/git-set.long.test.ts tries many more repositories.

import { expect, it } from "vitest";
import { compareWithGit } from "./compare-with-git.ts";

it("The files of random repositories are those that git lists, by the git binary and by our own walk", async () => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
  console.log(`git set seed ${seed}`);
  const count = Number(process.env["COUNT"] ?? 10);
  const compared = await compareWithGit(seed, count);
  console.log(JSON.stringify(compared));
  expect(compared.repositories).toBe(count);
});
