// Projects in an unusual state: submodules without their repository, symlinks that multiply, rule files that say
// nothing, files that are rewritten while svc reads them. Nothing that a script needs may be missing unnoticed.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createSnapshot } from "../../src/files/code/code-snapshot.ts";
import { lackedHere } from "../../src/files/listing/lacked-here.ts";
import { IN_PLACE } from "../../src/files/listing/measured-project.ts";
import { listProject } from "../../src/files/listing/project-listing.ts";

let top: string;
let project: string;
beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "svc-odd-")));
  project = join(top, "project");
  mkdirSync(project);
  vi.stubEnv("HOME", top);
  vi.stubEnv("XDG_CONFIG_HOME", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(top, { recursive: true, force: true });
});

function put(files: Record<string, string>, root = project): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}
const who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
const gitIn = (cwd: string, ...args: string[]): string =>
  execFileSync("git", [...who, ...args], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

function repository(name: string, files: Record<string, string>): string {
  const root = join(top, name);
  put(files, root);
  gitIn(root, "init", "-q", "-b", "main");
  gitIn(root, "add", "-A");
  gitIn(root, "commit", "-qm", "one");
  return root;
}

/** A project with the submodule `lib`, in which `inner` is a submodule that is not checked out. */
function withSubmodules(): void {
  const inner = repository("inner", { "in.py": "" });
  const library = repository("library", { ".gitignore": "*.tmp\n", "lib.py": "" });
  gitIn(library, "submodule", "add", "-q", inner, "inner");
  gitIn(library, "commit", "-qam", "two");
  repository("project", { "train.py": "" });
  gitIn(project, "submodule", "add", "-q", library, "lib");
}

it.each([false, true])("The remedy for a submodule names the repository that has it (own walk: %s)", async (own) => {
  withSubmodules();
  const { leftOut } = await listProject(project, { own });
  expect(leftOut).toMatchObject([{ path: "lib/inner", missed: true }]);
  const command = /`git (.*)`/.exec(leftOut[0]?.why ?? "")?.[1]?.split(" ") ?? [];
  gitIn(project, ...command);
  expect((await listProject(project, { own })).files).toContain("lib/inner/in.py");
});

it.each([false, true])(
  "The files of a submodule that lost its .git are sent by their own rules (own walk: %s)",
  async (own) => {
    withSubmodules();
    put({ "lib/a.tmp": "", "lib/parts/b.py": "", "lib/.env": "TOKEN=1" });
    // The remedy that the refusal names.
    rmSync(join(project, ".git/modules"), { recursive: true });
    await expect(listProject(project, { own })).rejects.toThrow(/lib.*remove its \.git: then .* alone decide/);
    rmSync(join(project, "lib/.git"));
    const { files, ignored, leftOut } = await listProject(project, { own, ignored: true });
    expect(files).toEqual([
      ".gitmodules",
      "lib/.gitignore",
      "lib/.gitmodules",
      "lib/lib.py",
      "lib/parts/b.py",
      "train.py",
    ]);
    expect(ignored).toEqual(["lib/a.tmp"]);
    expect(leftOut.map(({ path }) => path)).toEqual(["lib/.env"]);
    const inside = await listProject(join(project, "lib"), { own });
    expect(inside.files).toEqual([".gitignore", ".gitmodules", "lib.py", "parts/b.py"]);
    expect((await listProject(join(project, "lib/parts"), { own })).files).toEqual(["b.py"]);
  },
);

it.each([{}, IN_PLACE])("Symlinks that lead to each other are not followed without an end: %j", async (bounds) => {
  // 12 folders, each with a link to all others: 1,302,061,344 ways.
  const names = Array.from({ length: 12 }, (_, i) => `d${i}`);
  put({ "train.py": "" });
  for (const name of names) {
    mkdirSync(join(project, name));
    for (const other of names) if (other !== name) symlinkSync(`../${other}`, join(project, name, `to-${other}`));
  }
  const listing = listProject(project, { ...bounds, filesMax: 2_000 });
  if ("beyond" in bounds) {
    const { files, leftOut } = await listing;
    expect(files).toEqual(["train.py"]);
    expect(leftOut.length).toBeLessThan(2_500);
    expect(leftOut.some(({ why }) => why.includes("symlinks to folders add more than 2000"))).toBe(true);
  } else await expect(listing).rejects.toThrow(/symlinks to folders add more than 2000/);
});

it("A .svcignore that cannot say what it leaves out is refused: a broken symlink, a folder, UTF-16", async () => {
  put({ "train.py": "", "private.txt": "" });
  const at = join(project, ".svcignore");
  symlinkSync("../elsewhere", at);
  await expect(listProject(project)).rejects.toThrow(/\.svcignore.*cannot be read/);
  put({ elsewhere: "private.txt\n" }, top);
  expect((await listProject(project)).files).toEqual(["train.py"]);
  rmSync(at);
  mkdirSync(at);
  await expect(listProject(project)).rejects.toThrow(/\.svcignore.*cannot be read/);
  rmSync(at, { recursive: true });
  for (const order of ["\ufeff", ""]) {
    writeFileSync(at, Buffer.from(`${order}private.txt\r\n`, "utf16le"));
    await expect(listProject(project)).rejects.toThrow(/\.svcignore.*cannot be read.*UTF-8/);
  }
});

it("A file that a program keeps replacing while svc reads it is sent, and one that became a folder is not", async () => {
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`many/${i}`, `${i}`]));
  put({ ...many, "z/state": "0" });
  const at = join(project, "z/state");
  const kinds = [() => writeFileSync(at, "1"), () => mkdirSync(at), () => symlinkSync("state", at)];
  for (const make of kinds.flatMap((kind) => Array.from({ length: 3 }, () => kind))) {
    const made = createSnapshot({ projectDir: project, codeDir: join(top, "home/code"), now: 0 });
    const state = { isMade: false };
    made.finally(() => (state.isMade = true)).catch(() => undefined);
    for (let odd = false; !state.isMade; odd = !odd) {
      rmSync(at, { recursive: true, force: true });
      if (odd) make();
      else writeFileSync(at, "1");
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { files, leftOut } = await made;
    expect(files.filter(({ path }) => path.startsWith("many/"))).toHaveLength(300);
    expect(leftOut?.count ?? 0).toBeLessThanOrEqual(1);
  }
});

it("A partial clone that lacks the rules of a folder says which command brings them", async () => {
  const upstream = repository("upstream", { "a/.gitignore": "*.key\n", "a/t.py": "", "train.py": "" });
  gitIn(upstream, "config", "uploadpack.allowFilter", "true");
  rmSync(project, { recursive: true });
  gitIn(top, "clone", "-q", "--filter=blob:none", "--no-checkout", `file://${upstream}`, "project");
  gitIn(project, "sparse-checkout", "set", "--no-cone", "/train.py", "/a/t.py");
  gitIn(project, "checkout", "-q", "main");
  put({ "a/x.key": "secret" });
  await expect(listProject(project)).rejects.toThrow(/`git status` in it fetches them/);
  gitIn(project, "status");
  const { files, ignored } = await listProject(project, { ignored: true });
  expect([files, ignored]).toEqual([["a/t.py", "train.py"], ["a/x.key"]]);
});

it(
  "A project on another file system than its repository has the repository's rules",
  { tags: "needs/root" },
  async (ctx) => {
    put({ ".gitignore": "*.csv\n" }, top);
    gitIn(top, "init", "-q");
    try {
      execFileSync("mount", ["-t", "tmpfs", "none", project], { stdio: "ignore" });
    } catch {
      return ctx.skip("this system mounts nothing");
    }
    try {
      put({ "train.py": "", "a.csv": "" });
      const { files, ignored } = await listProject(project, { ignored: true });
      expect([files, ignored]).toEqual([["train.py"], ["a.csv"]]);
    } finally {
      execFileSync("umount", [project]);
    }
  },
);

it("The error of a script in a part of a repository names the missing file of the rest of the repository", async () => {
  put({ "shared/__init__.py": "", "one.py": "", "exp/a/train.py": "", "data/x.csv": "" }, project);
  put({ "outside.py": "", "project/wandb/run-1/x": "" }, top);
  gitIn(project, "init", "-q");
  const paths = new Set(["train.py"]);
  const projectDir = join(project, "exp/a");
  const sent = { projectDir, machineDir: "/m/project", scriptFolder: "", paths, leftOut: null };
  const module = (name: string) => lackedHere(`ModuleNotFoundError: No module named '${name}'`, sent);
  const here = /is on this computer, outside of the project: choose a folder that holds both as `project_dir`/;
  expect(await module("shared.parts")).toMatch(/^"\.\.\/\.\.\/shared\/__init__\.py" is on/);
  expect(await module("one")).toMatch(/^"\.\.\/\.\.\/one\.py" is on/);
  expect(await lackedHere("[Errno 2] No such file or directory: '../../data/x.csv'", sent)).toMatch(here);
  expect(await lackedHere("[Errno 2] No such file or directory: '../../data/y.csv'", sent)).toBeNull();
  for (const name of ["torch", "wandb", "outside"]) expect(await module(name)).toBeNull();
});
