// A mistyped entrypoint: the error names the file that was probably meant.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkEntrypoint } from "../../src/files/entrypoint.ts";

let project: string;
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "svc-entrypoint-"));
  mkdirSync(join(project, "src", "trains.py"), { recursive: true });
  for (const name of ["train.py", "src/train.py", "readme"]) writeFileSync(join(project, name), "");
});
afterAll(() => rmSync(project, { recursive: true }));

it.each([
  ["trian.py", "Did you mean train.py? "],
  ["src/trian.py", "Did you mean src/train.py? "],
  ["other.py", ""],
  ["sub/train.py", ""],
])("%s: %s", async (entrypoint, guess) => {
  await expect(checkEntrypoint(project, entrypoint)).rejects.toMatchObject({
    code: "entrypoint_not_found",
    hint: expect.stringMatching(
      guess === "" ? /^Give a path/ : new RegExp(`^${guess.replace("?", "\\?")}Give a path`),
    ) as RegExp,
  });
});
