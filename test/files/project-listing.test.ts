// The project files that belong to a run, case by case. test/files/git-set.whole.test.ts compares random repositories with
// git.

import { execFileSync, spawnSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { describeDirectory } from "../../src/files/code/contents.ts";
import { diffCode } from "../../src/files/code/diff.ts";
import { createSnapshot } from "../../src/files/code/code-snapshot.ts";
import { gitEnvironment } from "../../src/files/listing/ask-git.ts";
import { lackedWords, leftOutLines, leftOutOf, leftOutPath, readLeftOut } from "../../src/files/listing/left-out.ts";
import { lackedHere } from "../../src/files/listing/lacked-here.ts";
import { listProject } from "../../src/files/listing/project-listing.ts";
import { whyNotListed } from "../../src/files/listing/why-not-listed.ts";
import { restoreInto } from "../../src/files/code/restore-code.ts";

let top: string;
let project: string;
beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "svc-listing-")));
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
const git = (...args: string[]): string =>
  execFileSync("git", [...who, ...args], { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const listed = async (): Promise<string[]> => (await listProject(project)).files;
const whys = async (): Promise<Record<string, string>> =>
  Object.fromEntries((await listProject(project)).leftOut.map(({ path, why }) => [path, why]));
const refusal = async (): Promise<string> => {
  const started = performance.now();
  const error = await listProject(project).then(
    () => new Error("it was listed"),
    (e: Error) => e,
  );
  expect(error).toMatchObject({ code: "project_dir_refused" });
  expect(performance.now() - started).toBeLessThan(90_000);
  return error.message;
};

it("Files that git tracks belong to the run although a rule ignores them", async () => {
  git("init", "-q");
  put({
    ".gitignore": "*.csv\nlib/\nvenv/\n",
    "lib/core.py": "",
    "labels.csv": "",
    "venv/kept.py": "",
    "train.py": "",
  });
  git("add", "-f", "-A");
  put({ "lib/not-added.py": "", "other.csv": "", "venv/not-added.py": "" });
  const files = [".gitignore", "labels.csv", "lib/core.py", "train.py", "venv/kept.py"];
  expect(await listed()).toEqual(files);
  expect((await listProject(project, { own: true })).files).toEqual(files);
});

it("A folder that svc made is not code, under any name and as older versions left it, unless git tracks it", async () => {
  put({ "train.py": "", "checkpoints-local/model.pt": "", "renamed/.svc-made": "", "renamed/model.pt": "" });
  put({ "old/.svc-checkpoints.jsonl": "", "old/a.pt": "", ".svc-restore-12": "" });
  expect(await listed()).toEqual(["train.py"]);
  expect(Object.keys(await whys())).toEqual([".svc-restore-12", "checkpoints-local/", "old/", "renamed/"]);
  git("init", "-q");
  git("add", "-f", "renamed/model.pt");
  expect(await listed()).toEqual(["renamed/model.pt", "train.py"]);
});

it("The records of an experiment tracker and an environment of any name are not code, unless git or a .svcignore says so", async () => {
  put({ "train.py": "", "conf/wandb/default.yaml": "", "mlruns.py": "", "envs/bin/run.sh": "" });
  put({ "wandb/run-20261126_142201-abc/files/output.log": "", "wandb/debug.log": "", "deep/mlruns/0/meta.yaml": "" });
  put({ "py312/pyvenv.cfg": "", "py312/bin/python": "", "py312/lib/site.py": "" });
  const code = ["conf/wandb/default.yaml", "envs/bin/run.sh", "mlruns.py", "train.py"];
  expect(await listed()).toEqual(code);
  const { leftOut } = await listProject(project);
  expect(leftOut.map(({ path, missed }) => [path, missed])).toEqual([
    ["deep/mlruns/", true],
    ["py312/", false],
    ["wandb/", true],
  ]);
  const told = leftOutOf({ leftOut, ignored: [] });
  const lines = leftOutLines("4k2m", { names: told?.names ?? [], missed: 2 });
  expect(lines[1]).toContain('"wandb/" is left out of the code: an experiment tracker wrote it');
  put({ ".svcignore": "!wandb\n" });
  expect(await listed()).toEqual(
    [".svcignore", ...code, "wandb/debug.log", "wandb/run-20261126_142201-abc/files/output.log"].sort(),
  );
  rmSync(join(project, ".svcignore"));
  git("init", "-q");
  git("add", "-f", "py312/lib/site.py", "wandb/debug.log");
  expect(await listed()).toEqual([...code, "py312/lib/site.py", "wandb/debug.log"].sort());
});

it("svc marks the folder that it makes for a script that runs by hand", async () => {
  put({ "train.py": "import svc\nopen(svc.checkpoint_dir() + '/model.pt', 'w').write('x')\n" });
  const env = { ...process.env, PYTHONPATH: join(import.meta.dirname, "../../python"), SVC_CHECKPOINT_DIR: "" };
  expect(spawnSync("python3", ["train.py"], { cwd: project, env }).status).toBe(0);
  expect(existsSync(join(project, "checkpoints-local/.svc-made"))).toBe(true);
  expect(await listed()).toEqual(["train.py"]);
});

it("A symlink out of the project is left out with its target and what to do, first in the record and in the log", async () => {
  put({ "common/__init__.py": "" }, top);
  put({ "train.py": "", "node_modules/x.js": "", ".env": "TOKEN=1" });
  symlinkSync("../common", join(project, "common"));
  const listing = await listProject(project, { ignored: true });
  expect(listing.files).toEqual(["train.py"]);
  const told = leftOutOf(listing);
  expect(told).toMatchObject({ count: 3, ignored: 0 });
  expect(told?.names.map(({ path }) => path)).toEqual([".env", "common", "node_modules/"]);
  expect(told?.names[1]?.why).toContain(`to ${join(top, "common")}; put a copy in its place`);
  const lines = leftOutLines("4k2m", { names: told?.names ?? [], missed: 2 });
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/^svc: "common" is left out of the code: the symlink leads out of the project/);
});

it("A symlink does not include files that git ignores", async () => {
  git("init", "-q");
  put({ ".gitignore": "secret/\n", "secret/key.txt": "s", "train.py": "" });
  symlinkSync("secret", join(project, "data"));
  symlinkSync("secret/key.txt", join(project, "innocent.txt"));
  expect(await listed()).toEqual([".gitignore", "train.py"]);
  expect(Object.keys(await whys())).toEqual(["data", "innocent.txt"]);
});

it("Deep in a folder that git ignores every file is ignored, and a .svcignore includes one again", async () => {
  execFileSync("git", ["init", "-q"], { cwd: top });
  put({ ".gitignore": "project/\n" }, top);
  const deep = join(project, "a", "b");
  put({ "train.py": "", "data.csv": "" }, deep);
  const { files, ignored } = await listProject(deep, { ignored: true });
  expect([files, ignored.toSorted()]).toEqual([[], ["data.csv", "train.py"]]);
  put({ ".svcignore": "!train.py\n" }, deep);
  expect((await listProject(deep)).files).toEqual(["train.py"]);
});

it("The rule by which git ignores the whole project directory is named", async () => {
  execFileSync("git", ["init", "-q"], { cwd: top });
  put({ ".gitignore": "# mine\nproject/\n" }, top);
  put({ "train.py": "" });
  expect(await whyNotListed(project, "train.py", await listProject(project, { ignored: true }))).toContain(
    "git ignores the whole project directory (.gitignore, line 2: project/)",
  );
});

it("A pipe is named as left out, unless git ignores it", async () => {
  git("init", "-q");
  put({ ".gitignore": "*.fifo\n", "a.py": "" });
  execFileSync("mkfifo", [join(project, "events"), join(project, "events.fifo")]);
  expect(Object.keys(await whys())).toEqual(["events"]);
});

it("Secrets are excluded even if git tracks them, and a .svcignore includes ignored files again", async () => {
  git("init", "-q");
  put({ ".env": "s", "ca.pem": "s", "data/a.bin": "", "data/b.log": "", "out.txt": "", "train.py": "" });
  git("add", "-f", ".env", "ca.pem", "train.py");
  put({ ".gitignore": "data/\n*.log\nout.txt\n" });
  expect(await listed()).toEqual([".gitignore", "train.py"]);
  expect((await whys())[".env"]).toContain("it may hold a secret");
  put({ ".svcignore": "!data/\n!out.txt\n!ca.pem\n" });
  expect(await listed()).toEqual([".gitignore", ".svcignore", "ca.pem", "data/a.bin", "out.txt", "train.py"]);
});

it("A submodule adds its files by its own rules if it is checked out, and is named otherwise", async () => {
  const library = join(top, "library");
  mkdirSync(library);
  put({ ".gitignore": "*.tmp\n", "lib.py": "" }, library);
  const inLibrary = (...args: string[]) => execFileSync("git", [...who, ...args], { cwd: library });
  inLibrary("init", "-q");
  inLibrary("add", "-A");
  inLibrary("commit", "-qm", "one");
  git("init", "-q");
  put({ "train.py": "", ".gitignore": "*.py\n" });
  git("add", "-f", "train.py");
  git("submodule", "add", "-q", library, "lib");
  put({ "lib/a.tmp": "", "lib/b.py": "" });
  const files = [".gitignore", ".gitmodules", "lib/.gitignore", "lib/b.py", "lib/lib.py", "train.py"];
  expect(await listed()).toEqual(files);
  expect((await listProject(project, { own: true })).files).toEqual(files);
  git("submodule", "deinit", "-q", "-f", "lib");
  expect(await listed()).toEqual([".gitignore", ".gitmodules", "train.py"]);
  expect((await whys())["lib"]).toContain("git submodule update --init lib");
});

it("Variables of git and commands that the repository names change nothing and are not run", async () => {
  git("init", "-q");
  put({ "train.py": "" });
  git("add", "-A");
  const ran = join(top, "ran");
  git("config", "core.fsmonitor", `touch ${ran}; true`);
  git("config", "core.pager", `touch ${ran}`);
  vi.stubEnv("GIT_DIR", "/nowhere");
  vi.stubEnv("GIT_INDEX_FILE", "/nowhere/index");
  expect(await listed()).toEqual(["train.py"]);
  expect(existsSync(ran)).toBe(false);
});

it("Git is started without keys and without variables of git", () => {
  for (const [name, value] of Object.entries({ PODHOST_API_KEY: "key-that-rents", GIT_DIR: "/nowhere", TERM: "dumb" }))
    vi.stubEnv(name, value);
  const given = gitEnvironment();
  expect(given).toMatchObject({ TERM: "dumb", GIT_ALLOW_PROTOCOL: "none" });
  expect(Object.keys(given)).not.toContain("GIT_DIR");
  expect(JSON.stringify(given)).not.toContain("key-that-rents");
});

it("A repository that belongs to another user is listed", { tags: "needs/root" }, async () => {
  git("init", "-q");
  put({ ".gitignore": "a\n", a: "", b: "" });
  for (const path of ["", ".git", ".git/config", ".git/HEAD"]) chownSync(join(project, path), 12_345, 12_345);
  expect(
    spawnSync("git", ["ls-files"], { cwd: project, env: { PATH: process.env["PATH"], HOME: top } }).status,
  ).not.toBe(0);
  expect(await listed()).toEqual([".gitignore", "b"]);
});

it("Without a git binary our own walk lists the repository, and refuses an index that it cannot read", async () => {
  git("init", "-q");
  put({ ".gitignore": "*.csv\n", "a.csv": "", "b.csv": "", "train.py": "" });
  git("add", "-f", "a.csv");
  const path = process.env["PATH"];
  vi.stubEnv("PATH", top);
  expect(await listed()).toEqual([".gitignore", "a.csv", "train.py"]);
  vi.stubEnv("PATH", path);
  git("update-index", "--split-index");
  vi.stubEnv("PATH", top);
  expect(await refusal()).toContain("git is not installed");
});

it("A repository in the middle of a rebase is listed, each file in conflict once", async () => {
  git("init", "-q", "-b", "main");
  for (const [branch, text] of [
    ["main", "0"],
    ["side", "1"],
  ] as const) {
    if (branch === "side") git("checkout", "-q", "-b", "side");
    put({ "a.py": text });
    git("add", "-A");
    git("commit", "-qm", text);
  }
  git("checkout", "-q", "main");
  put({ "a.py": "2" });
  git("commit", "-qam", "2");
  expect(() => git("rebase", "side")).toThrow();
  expect(git("ls-files", "-u")).not.toBe("");
  expect(await listed()).toEqual(["a.py"]);
  expect((await listProject(project, { own: true })).files).toEqual(["a.py"]);
});

it("A broken index, a .git that leads nowhere and a repository without its HEAD are refused with an explanation", async () => {
  git("init", "-q");
  put({ "a.py": "", ".gitignore": "secret\n", secret: "" });
  git("add", "a.py");
  writeFileSync(join(project, ".git/index"), "DIRC and then nothing that an index has, at some length");
  expect(await refusal()).toMatch(/is in a git repository, so svc cannot know which files belong to it: .*index/);
  await expect(listProject(project, { own: true })).rejects.toMatchObject({ code: "project_dir_refused" });
  rmSync(join(project, ".git/HEAD"));
  expect(await refusal()).toContain("not a git repository");
  rmSync(join(project, ".git"), { recursive: true });
  writeFileSync(join(project, ".git"), "gitdir: /nowhere/at/all\n");
  expect(await refusal()).toContain("/nowhere/at/all");
  writeFileSync(join(project, ".git"), "no words of git\n");
  expect(await refusal()).toContain("remove its .git");
});

it("A file of rules that git cannot read refuses the project: ignored files might be sent", async () => {
  git("init", "-q");
  git("config", "core.excludesFile", join(project, "x".repeat(300)));
  put({ "train.py": "" });
  expect(await refusal()).toContain("unable to access");
});

it("Git and our own walk obey a .gitignore with 100,000 rules", async () => {
  const rules = Array.from({ length: 100_000 }, (_, i) => (i % 2 === 0 ? `ignored-${i}` : `some/where-${i}/*.tmp`));
  put({ ".gitignore": `${rules.join("\n")}\n`, "ignored-99998": "", "a.py": "", "some/where-99999/x.tmp": "" });
  expect(await listed()).toEqual([".gitignore", "a.py"]);
  git("init", "-q");
  expect(await listed()).toEqual([".gitignore", "a.py"]);
});

it("A run in place records data and copies code, compares both, and restores only the code", async () => {
  const codeDir = join(top, "home", "code");
  put({ "train.py": "print(1)\n", "data/labels.csv": "1,2\n", "data/small.npy": "x".repeat(100_000) });
  put({ "data/images.bin": "" });
  await truncate(join(project, "data/images.bin"), 11 * 1024 ** 3);
  const snapshot = await createSnapshot({ projectDir: project, codeDir, now: 0, inPlace: true });
  expect(snapshot.files.map(({ path, kept, sha256 }) => [path, kept, typeof sha256])).toEqual([
    ["data/images.bin", false, "object"],
    ["data/labels.csv", undefined, "string"],
    ["data/small.npy", false, "string"],
    ["train.py", undefined, "string"],
  ]);
  await expect(createSnapshot({ projectDir: project, codeDir, now: 0 })).rejects.toMatchObject({
    code: "project_dir_refused",
  });
  const side = () => describeDirectory(project, join(top, "home"), { like: snapshot.files });
  const before = { files: snapshot.files, read: () => Promise.reject(new Error("nothing is read")) };
  expect(await diffCode(before, await side())).toEqual([]);
  await truncate(join(project, "data/images.bin"), 12 * 1024 ** 3);
  expect(await diffCode(before, await side())).toMatchObject([
    { path: "data/images.bin", status: "changed", patch: null },
  ]);
  const done = await restoreInto({ codeDir, snapshot, directory: join(top, "back"), force: false });
  expect(done).toMatchObject({
    written: ["data/labels.csv", "train.py"],
    not_kept: ["data/images.bin", "data/small.npy"],
  });
});

it("A pipe in place of a file that git reads is refused at once, by its name", async () => {
  put({ "a.py": "", "sub/deep/b.py": "" });
  git("init", "-q");
  const places = ["sub/deep/.gitignore", ".gitignore", ".git/info/exclude", "mine", ".git/index", ".git/HEAD"];
  put({ ".gitconfig": `[core]\n\texcludesFile = ${join(project, "mine")}\n` }, top);
  for (const path of places) {
    const at = join(project, path);
    const before = existsSync(at) ? readFileSync(at) : null;
    rmSync(at, { force: true });
    execFileSync("mkfifo", [at]);
    const started = performance.now();
    expect(await refusal(), path).toContain(`${path} is a pipe`);
    // git itself would be allowed one minute.
    expect(performance.now() - started).toBeLessThan(30_000);
    rmSync(at);
    if (before) writeFileSync(at, before);
  }
  expect(await listed()).toEqual(["a.py", "sub/deep/b.py"]);
  execFileSync("mkfifo", [join(project, "sub", ".git")]);
  expect((await listProject(project, { own: true })).files).toEqual(["a.py", "sub/deep/b.py"]);
});

it("Without git, svc does not guess rules that a sparse checkout excludes, even with a symlink in their place", async () => {
  put({ ".gitignore": "*.log\n", "a.py": "" });
  git("init", "-q");
  git("add", "-A");
  git("update-index", "--skip-worktree", ".gitignore");
  rmSync(join(project, ".gitignore"));
  symlinkSync("..", join(project, ".gitignore"));
  await expect(listProject(project, { own: true })).rejects.toThrow(/sparse checkout leaves out \.gitignore/);
});

it("The error of a script names the excluded file that it lacks", () => {
  const entry = { path: "common", why: "the symlink leads out of the project, to /else/common" };
  const told = { names: [{ path: ".env", why: "it may hold a secret" }, entry], missed: 2 };
  const common = `"common" was left out of the code: ${entry.why}.`;
  expect(lackedWords(told, "ModuleNotFoundError: No module named 'common'")).toBe(common);
  expect(lackedWords(told, "ModuleNotFoundError: No module named 'common.parts'")).toBe(common);
  expect(lackedWords(told, "FileNotFoundError: [Errno 2] No such file or directory: 'common/x.csv'")).toBe(common);
  expect(lackedWords(told, "ModuleNotFoundError: No module named 'torch'")).toMatch(
    /^That may be why: "\.env" was left out .* So were 1 more/,
  );
  expect(lackedWords(told, "ValueError: common")).toBeNull();
  expect(lackedWords({ ...told, missed: 0 }, "ModuleNotFoundError: No module named 'common'")).toBeNull();
  expect(lackedWords(null, "ModuleNotFoundError: No module named 'common'")).toBeNull();
});

it("The error of a script names what it lacks of the project on this computer", async () => {
  put({ ".gitignore": "*.csv\nout/\ngen.py\n", "a.py": "", "data/a.csv": "", "out/x": "", "gen.py": "", "b/c.py": "" });
  mkdirSync(join(project, "empty/inner"), { recursive: true });
  const { files, leftOut, ignored } = await listProject(project, { ignored: true });
  const list = { names: leftOut, ignored_names: ignored };
  const sent = {
    projectDir: project,
    machineDir: "/m/project",
    scriptFolder: "b",
    paths: new Set(files),
    leftOut: list,
  };
  const words = (path: string): Promise<string | null> =>
    lackedHere(`FileNotFoundError: [Errno 2] No such file or directory: '${path}'`, sent);
  expect(await words("data/a.csv")).toMatch(/^"data\/a\.csv" is left out of the run's code: git ignores it; `!data/);
  expect(await words("/m/project/data/a.csv")).toMatch(/^"data\/a\.csv" is left out/);
  expect(await words("out/new.txt")).toMatch(/^"out" is a folder of which no file .* let the script make it/);
  expect(await words("./empty/inner/new.txt")).toMatch(/^"empty" is a folder of which no file/);
  rmSync(join(project, "empty/inner"), { recursive: true });
  expect(await words("empty")).toMatch(/^"empty" is an empty folder, and svc sends only files/);
  expect(await lackedHere("./run.sh: line 2: empty/y: No such file or directory", sent)).toMatch(
    /^"empty" is an empty/,
  );
  expect(await words(join(project, "a.py"))).toMatch(/exists on this computer and not on the machine/);
  expect(await lackedHere("ModuleNotFoundError: No module named 'gen'", sent)).toMatch(/^"gen\.py" is left out/);
  put({ "later.txt": "" });
  expect(await words("later.txt")).toMatch(
    /^"later\.txt" is in the project on this computer, and not in the run's code/,
  );
  for (const path of ["a.py", "b/nothing", "nowhere/x", "../a.py", "/nowhere/x"]) expect(await words(path)).toBeNull();
  expect(await lackedHere("ModuleNotFoundError: No module named 'torch'", sent)).toBeNull();
});

it("A list of what was left out that is torn or cannot be read counts as missing: the end of a run does not wait for it", async () => {
  const [torn, folder] = ["a".repeat(16), "b".repeat(16)];
  mkdirSync(leftOutPath(top, folder), { recursive: true });
  writeFileSync(leftOutPath(top, torn), '{"names": [');
  for (const id of [torn, folder, "c".repeat(16)]) expect(await readLeftOut(top, id)).toBeNull();
});

it.each([false, true])(
  "Names that are not UTF-8 and paths that are too long are left out by name (git: %s)",
  async (isGit) => {
    put({ "a.py": "", "\ufffd.py": "" });
    const bytes = (name: string): Buffer => Buffer.concat([Buffer.from(`${project}/`), Buffer.from(name, "latin1")]);
    writeFileSync(bytes("caf\xe9.txt"), "");
    mkdirSync(bytes("d\xe9"));
    writeFileSync(bytes("d\xe9/x.txt"), "");
    // No call takes the whole path.
    const deep = 'import os\nfor i in range(90):\n    os.mkdir("d" * 50)\n    os.chdir("d" * 50)\nopen("x", "w")';
    execFileSync("python3", ["-c", deep], { cwd: project });
    if (isGit) git("init", "-q");
    const { files, leftOut } = await listProject(project, {});
    expect(files).toEqual(["a.py", "\ufffd.py"]);
    const told = leftOut.map(
      ({ path, why }) => `${path.replaceAll("d".repeat(50), "D").replace(/^(D\/?)+$/, "D/")}: ${why}`,
    );
    expect(told.filter((line) => !line.startsWith("D"))).toEqual([
      expect.stringMatching(/^caf\ufffd\.txt: its name is not UTF-8$/),
      expect.stringMatching(/^d\ufffd\/?: .*its name is not UTF-8$/),
    ]);
    // Git cuts its own warning of the long path.
    expect(told).toHaveLength(isGit ? 2 : 3);
  },
);

it("A pointer of Git LFS is sent, and named as a file whose content is not here", async () => {
  put({
    "a.py": "",
    "w.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "about.md": "A file begins with `version https://git-lfs.github.com/spec/v1`.\n",
  });
  const snapshot = await createSnapshot({ projectDir: project, codeDir: join(top, "home", "code"), now: 0 });
  expect(snapshot.files.map((file) => file.path)).toEqual(["a.py", "about.md", "w.bin"]);
  const why = "only its pointer of Git LFS is here, and that is sent; `git lfs pull` fetches the content";
  expect(snapshot.leftOut).toMatchObject({ count: 1, missed: 1, names: [{ path: "w.bin", why }] });
});
