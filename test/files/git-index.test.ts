// Whether an index holds submodules, found without parsing its entries: a wrong "no" would send the submodule's folder
// as a file.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { mayHoldGitlinks } from "../../src/files/listing/git-index.ts";
import { listProject } from "../../src/files/listing/project-listing.ts";

let project: string;
beforeEach(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "svc-index-")));
  vi.stubEnv("HOME", project);
  vi.stubEnv("XDG_CONFIG_HOME", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(project, { recursive: true, force: true });
});

const COMMIT = "1".repeat(40);
const git = (args: readonly string[], input?: string): string =>
  execFileSync("git", args, { cwd: project, input, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
const index = (): string => join(project, ".git", "index");

/** An index of `count` files with names of growing length, and perhaps a submodule after them. */
function build(count: number, submodule: string | null, format = "sha1"): void {
  git(["init", "-q", `--object-format=${format}`]);
  const blob = git(["hash-object", "-w", "--stdin"], "x\n").trim();
  const names = Array.from({ length: count }, (_, i) => `f${String(i).padStart(6, "0")}${"x".repeat(i % 9)}`);
  const entries = names.map((name) => `100644 ${blob}\t${name}\n`);
  if (submodule !== null) entries.push(`160000 ${COMMIT.padEnd(blob.length, "1")}\t${submodule}\n`);
  git(["update-index", "--index-info"], entries.join(""));
}

// The offsets of entries change by eight bytes with the lengths of names: each count puts the last entry at another
// offset among the parts that are read.
it.each([0, 1, 2, 3, 8, 3_400, 3_401, 3_402, 3_403, 3_404, 3_405, 6_900])(
  "A submodule after %d files is seen, and none where there is none",
  (count) => {
    build(count, null);
    if (count > 0) expect(mayHoldGitlinks(index())).toBe(false);
    git(["update-index", "--index-info"], `160000 ${COMMIT}\tz\n`);
    expect(mayHoldGitlinks(index())).toBe(true);
    if (count > 3_000) expect(statSync(index()).size).toBeGreaterThan(256 * 1024);
  },
);

it("A submodule is found at any position between files, also at the border of two parts", () => {
  git(["init", "-q"]);
  const blob = git(["hash-object", "-w", "--stdin"], "x\n").trim();
  const names = Array.from({ length: 4_000 }, (_, i) => `f${String(i).padStart(6, "0")}`);
  // Entries of 72 bytes: the 3,641st begins in the first 256 KiB and ends after them.
  for (const link of [3_637, 3_638, 3_639, 3_640, 3_641, 3_642, 3_643, 3_644]) {
    const entries = names.map((name, i) => (i === link ? `160000 ${COMMIT}\t${name}\n` : `100644 ${blob}\t${name}\n`));
    rmSync(index(), { force: true });
    git(["update-index", "--index-info"], entries.join(""));
    expect(mayHoldGitlinks(index()), `entry ${link}`).toBe(true);
  }
});

it("An index of SHA-256 is read as well", () => {
  build(3, null, "sha256");
  expect(mayHoldGitlinks(index())).toBe(false);
  rmSync(join(project, ".git"), { recursive: true });
  build(3, "z", "sha256");
  expect(mayHoldGitlinks(index())).toBe(true);
});

it("An index that compresses its names, one that is split and one that cannot be read may hold submodules; a missing one holds none", () => {
  build(3, null);
  git(["update-index", "--index-version=4"]);
  expect(mayHoldGitlinks(index())).toBe(true);
  git(["update-index", "--index-version=2"]);
  git(["update-index", "--split-index"]);
  expect(mayHoldGitlinks(index())).toBe(true);
  rmSync(index());
  expect(mayHoldGitlinks(index())).toBe(false);
  mkdirSync(index());
  expect(mayHoldGitlinks(index())).toBe(true);
});

it.each(["--index-version=2", "--index-version=4", "--split-index"])(
  "A file in the place of a submodule is not sent, and the submodule is named (%s)",
  async (how) => {
    build(3, "z");
    for (const name of ["f000000", "f000001x", "f000002xx", "z"]) writeFileSync(join(project, name), "");
    git(["update-index", how]);
    const { files, leftOut } = await listProject(project);
    expect(files).toEqual(["f000000", "f000001x", "f000002xx"]);
    expect(leftOut).toMatchObject([{ path: "z", missed: true }]);
  },
);

it("Files that git tracks come first if not all files of a project are recorded", async () => {
  build(6, null);
  const tracked = git(["ls-files", "-z"]).split("\0").filter(Boolean);
  for (const name of [...tracked, "a1", "a2", "z1"]) writeFileSync(join(project, name), "");
  const { files, leftOut } = await listProject(project, { filesMax: 7, beyond: "leave-out" });
  expect(files).toEqual(["a1", ...tracked]);
  expect(leftOut).toMatchObject([{ path: "2 further files" }]);
  await expect(listProject(project, { filesMax: 8 })).rejects.toMatchObject({ code: "project_dir_refused" });
  expect((await listProject(project, { filesMax: 9 })).files).toHaveLength(9);
});
