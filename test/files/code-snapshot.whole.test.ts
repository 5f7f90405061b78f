import { execFileSync } from "node:child_process";
import {
  chmod,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { blobPath, hashFile } from "../../src/files/code/contents.ts";
import { createSnapshot, readSnapshot, restoreSnapshot } from "../../src/files/code/code-snapshot.ts";
import { checkEntrypoint } from "../../src/files/entrypoint.ts";
import { measureProject } from "../../src/files/listing/measured-project.ts";
import { checkProjectDir } from "../../src/files/listing/project-files.ts";
import { listProject } from "../../src/files/listing/project-listing.ts";

let top: string;
let project: string;
let codeDir: string;
beforeEach(async () => {
  top = await realpath(await mkdtemp(join(tmpdir(), "svc-code-")));
  project = join(top, "project");
  codeDir = join(top, "home", "code");
  await mkdir(project);
  await mkdir(codeDir, { recursive: true });
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(top, { recursive: true, force: true });
});

async function put(files: Record<string, string>, root = project): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

function git(...args: string[]): string {
  const env = {
    PATH: process.env["PATH"],
    HOME: top,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "a",
    GIT_AUTHOR_EMAIL: "a@b",
    GIT_COMMITTER_NAME: "a",
    GIT_COMMITTER_EMAIL: "a@b",
  };
  return execFileSync("git", args, { cwd: project, env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

const listed = async (root = project) => (await listProject(root)).files;
const asGitLists = () =>
  git("ls-files", "-z", "--others", "--cached", "--exclude-standard")
    .split("\0")
    .filter((p) => p !== "")
    .sort();
const snap = () => createSnapshot({ projectDir: project, codeDir, now: 1_764_000_000_000 });

describe("listProject", () => {
  it("chooses git's files: nested files, folders that are included again, anchors, sets, blanks and comments", async () => {
    git("init", "-q");
    await put({
      ".gitignore":
        "# words\nlib/\n*.log\n!keep.log\n/top.txt\ndocs/**/*.html\n**/cache\nout/**\n!out/\n[abc].bin\n[!a-y]z.bin\n\\#odd\n\\!odd\nspaced\\ \nplain   \nq?.txt\nsub/one\n\ufeffx\n",
      "lib/a.py": "",
      "web/.gitignore": "!lib/\nlocal\n",
      "web/lib/b.py": "",
      "web/local": "",
      "web/lib/local": "",
      local: "",
      "a.log": "",
      "keep.log": "",
      "top.txt": "",
      "deep/top.txt": "",
      "docs/x.html": "",
      "docs/a/b/y.html": "",
      "x.html": "",
      "cache/1": "",
      "m/cache/2": "",
      "out/3": "",
      "a.bin": "",
      "d.bin": "",
      "zz.bin": "",
      "bz.bin": "",
      "#odd": "",
      "!odd": "",
      "spaced ": "",
      plain: "",
      "q1.txt": "",
      "q12.txt": "",
      "sub/one": "",
      "deep/sub/one": "",
    });
    const files = await listed();
    expect(files).toEqual(asGitLists());
    expect(files).toContain("web/lib/b.py");
  });

  it("chooses git's files for random trees and rules", async () => {
    git("init", "-q");
    const name = fc.constantFrom("a", "b", "ab", "c.x", "d");
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join("/"));
    const glob = fc
      .array(fc.constantFrom("a", "b", "ab", "c.x", "d", "*", "**", "?", "[ab]", "[!a]", "/", "/", "*.x"), {
        minLength: 1,
        maxLength: 4,
      })
      .map((parts) => parts.join("").replace(/\/+/g, "/"));
    const rules = fc.array(
      fc.tuple(fc.constantFrom("", "", "!"), glob).map((parts) => parts.join("")),
      { maxLength: 5 },
    );
    const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
    console.log(`gitignore seed ${seed}`);
    await fc.assert(
      fc.asyncProperty(fc.array(path, { maxLength: 10 }), rules, rules, async (paths, above, below) => {
        for (const entry of await readdir(project))
          if (entry !== ".git") await rm(join(project, entry), { recursive: true });
        await put({ ".gitignore": `${above.join("\n")}\n`, "a/.gitignore": `${below.join("\n")}\n` });
        for (const p of paths) await put({ [p]: "" }).catch(() => undefined);
        expect(await listed()).toEqual(asGitLists());
      }),
      { seed, numRuns: 120 },
    );
  });

  it("obeys the ignore files above a project inside of a repository", async () => {
    git("init", "-q");
    await put({ ".gitignore": "*.csv\n/train/secret\n", "train/x.csv": "", "train/secret": "", "train/y.py": "" });
    expect(await listed(join(project, "train"))).toEqual(["y.py"]);
    await put({ "train/.config/gcloud/adc.json": "" });
    expect(await listed(join(project, "train"))).toEqual(["y.py"]);
  });

  it("excludes keys, logins and caches; a .svcignore can include some again, never the repository or .ssh", async () => {
    await put({
      ".git/config": "",
      ".env": "",
      ".env.prod": "",
      ".env.example": "",
      id_rsa: "",
      "k/server.pem": "",
      ".ssh/id": "",
      "node_modules/m/i.js": "",
      "p/__pycache__/a.pyc": "",
      ".venv/x": "",
      ".config/gcloud/credentials.db": "",
      "home/.config/gcloud/legacy/adc.json": "",
      "kaggle.json": "",
      "conf/.streamlit/secrets.toml": "",
      "keys/service-account-prod.json": "",
      "keys/client_secret_12.json": "",
      ".huggingface/token": "",
      ".hf_token": "",
      ".wandb_api_key": "",
      "prod.env": "",
      "conf/secrets.env": "",
      "credentials.json": "",
      "conf/credentials.yml": "",
      "conf/secrets.yaml": "",
      "secrets.toml": "",
      "server.key": "",
      "tls/private.key": "",
      // Ordinary files with similar names.
      "secrets.py": "",
      "train.env": "",
      "slides.key": "",
      "a.py": "",
      ".gitignore": "!.env\nbig.bin\n",
      "big.bin": "",
    });
    const similar = ["secrets.py", "slides.key", "train.env"];
    expect(await listed()).toEqual([".env.example", ".gitignore", "a.py", ...similar]);
    await put({ ".svcignore": "!.env\n!big.bin\n!.ssh\n!.git\n!credentials.json\na.py\n" });
    const again = [".svcignore", "big.bin", "credentials.json"];
    expect(await listed()).toEqual([".env", ".env.example", ".gitignore", ...again, ...similar]);
  });

  it("follows symlinks that stay inside, and names those that leave, form cycles or point to excluded files", async () => {
    await put({ "src/a.py": "x", ".env": "s", ".config/gcloud/adc.json": "s" });
    await put({ outside: "o" }, top);
    await symlink(".config/gcloud/adc.json", join(project, "adc.json"));
    await symlink(".config/gcloud", join(project, "cloud"));
    await symlink(".config", join(project, "config"));
    await symlink("src", join(project, "alias"));
    await symlink("src/a.py", join(project, "b.py"));
    await symlink("..", join(project, "src", "circle"));
    await symlink("../outside", join(project, "out"));
    await symlink(".env", join(project, "innocent.txt"));
    await symlink("nowhere", join(project, "broken"));
    execFileSync("mkfifo", [join(project, "pipe")]);
    const { files, leftOut } = await listProject(project);
    expect(files).toEqual(["alias/a.py", "b.py", "src/a.py"]);
    expect(leftOut.map((entry) => entry.path)).toEqual([
      ".config/gcloud/",
      ".env",
      "adc.json",
      "alias/circle",
      "broken",
      "cloud",
      "config",
      "innocent.txt",
      "out",
      "pipe",
      "src/circle",
    ]);
    expect(leftOut.find((entry) => entry.path === "out")?.why).toContain(`to ${top}/outside`);
    expect(leftOut.every((entry) => entry.missed)).toBe(true);
  });

  it("refuses more files or bytes than its bounds", async () => {
    await put({ a: "12345", b: "12345", c: "12345" });
    await expect(measureProject(project, { filesMax: 2, bytesMax: 100 })).rejects.toMatchObject({
      code: "project_dir_refused",
    });
    await expect(measureProject(project, { filesMax: 9, bytesMax: 12 })).rejects.toMatchObject({
      code: "project_dir_refused",
    });
    expect((await measureProject(project, { filesMax: 3, bytesMax: 15 })).bytes).toBe(15);
  });
});

describe("checkProjectDir", () => {
  it("refuses the root, the homes and the folders above them, missing paths, and files; also behind a symlink", async () => {
    await put({ file: "", ".aws/credentials": "key", ".git/hooks/a": "" });
    await symlink(homedir(), join(top, "link-home"));
    await symlink(join(project, ".aws"), join(top, "link-keys"));
    const home = dirname(codeDir);
    for (const dir of [
      "/",
      homedir(),
      dirname(homedir()),
      home,
      top,
      join(top, "link-home"),
      join(top, "none"),
      join(project, "file"),
      join(project, ".aws"),
      join(project, ".git/hooks"),
      join(top, "link-keys"),
    ]) {
      await expect(checkProjectDir(dir, home), dir).rejects.toMatchObject({ code: "project_dir_refused" });
    }
    expect(await checkProjectDir(project, home)).toBe(project);
  });
});

describe("checkEntrypoint", () => {
  it("says how an entrypoint is run", async () => {
    await put({ "a.py": "", "s/b.sh": "", tool: "", "-x.py": "" });
    await chmod(join(project, "tool"), 0o755);
    expect(await checkEntrypoint(project, "./a.py")).toEqual({ kind: "python", path: "a.py" });
    expect(await checkEntrypoint(project, join(project, "s/b.sh"))).toEqual({ kind: "sh", path: "s/b.sh" });
    expect(await checkEntrypoint(project, "tool")).toEqual({ kind: "sh", path: "tool" });
    expect(await checkEntrypoint(project, "-x.py")).toEqual({ kind: "python", path: "./-x.py" });
    expect(await checkEntrypoint(project, "-m pkg.train_1")).toEqual({ kind: "module", path: "pkg.train_1" });
  });

  it.each([
    ["none.py", "entrypoint_not_found"],
    ["a.py/x", "entrypoint_not_found"],
    ["../outside.py", "entrypoint_outside_project"],
    ["/etc/hostname", "entrypoint_outside_project"],
    ["escape.py", "entrypoint_outside_project"],
    ["s", "entrypoint_not_runnable"],
    [".", "entrypoint_not_runnable"],
    ["data.txt", "entrypoint_not_runnable"],
    ["-m", "entrypoint_not_runnable"],
    ["-m a b", "entrypoint_not_runnable"],
    ["-m ..a", "entrypoint_not_runnable"],
    ["-m a;b", "entrypoint_not_runnable"],
  ])("refuses %s with %s", async (entrypoint, code) => {
    await put({ "a.py": "", "s/b.sh": "", "data.txt": "" });
    await put({ "outside.py": "" }, top);
    await symlink("../outside.py", join(project, "escape.py"));
    await expect(checkEntrypoint(project, entrypoint)).rejects.toMatchObject({ code });
  });
});

describe("snapshots", () => {
  it("keeps contents once, gives the same id for the same code, and builds a tree for sending apart from the project", async () => {
    await put({ "a.py": "print(1)", "b/copy.py": "print(1)", run: "#!/bin/sh\n" });
    await chmod(join(project, "run"), 0o755);
    await put({ "big.bin": "x".repeat(9 * 1024 * 1024) });
    const first = await snap();
    expect(first).toMatchObject({
      git: null,
      created_at: "2025-11-24T16:00:00.000Z",
      bytes: 2 * 8 + 10 + 9 * 1024 * 1024,
    });
    expect(first.files.map((f) => [f.path, f.mode])).toEqual([
      ["a.py", "file"],
      ["b/copy.py", "file"],
      ["big.bin", "file"],
      ["run", "executable"],
    ]);
    const { leftOut, ...manifest } = first;
    expect(leftOut).toBeNull();
    expect(await readSnapshot({ codeDir, id: first.id })).toEqual(manifest);

    const blob = blobPath(codeDir, first.files[0]!.sha256 ?? "");
    expect((await stat(blob)).mode & 0o777).toBe(0o600);
    await utimes(blob, 1, 1);
    expect((await createSnapshot({ projectDir: project, codeDir, now: 0 })).id).toBe(first.id);
    expect((await stat(blob)).mtimeMs).toBe(1_000);
    expect((await readdir(join(codeDir, "blobs"), { recursive: true })).filter((n) => n.includes(".new-"))).toEqual([]);

    const target = join(top, "restored");
    await put({ "a.py": "old" }, target);
    await restoreSnapshot({ codeDir, id: first.id, target });
    await put({ "a.py": "print(2)" });
    expect(await readFile(join(target, "a.py"), "utf8")).toBe("print(1)");
    expect((await stat(join(target, "run"))).mode & 0o111).not.toBe(0);
    // These are hard links to the stored contents: nothing was copied, the times are equal, and the contents stay when
    // the links are removed.
    expect((await stat(join(target, "a.py"))).ino).toBe((await stat(blob)).ino);
    for (const { path } of first.files) expect((await stat(join(target, path))).mtime.getUTCFullYear()).toBe(2020);
    expect((await stat(join(target, "run"))).nlink).toBe(1);
    await rm(target, { recursive: true });
    await restoreSnapshot({ codeDir, id: first.id, target });
    expect((await readFile(join(target, "big.bin"))).length).toBe(9 * 1024 * 1024);
    expect((await stat(blob)).mode & 0o777).toBe(0o600);
    expect((await snap()).id).not.toBe(first.id);
  });

  it("rewrites torn content, and finds changed or missing content at restore", async () => {
    await put({ "a.py": "print(1)" });
    const { id, files } = await snap();
    const blob = blobPath(codeDir, files[0]!.sha256 ?? "");
    const restore = () => restoreSnapshot({ codeDir, id, target: join(top, "t") });
    await writeFile(blob, "");
    await snap();
    expect(await readFile(blob, "utf8")).toBe("print(1)");
    await writeFile(blob, "print(X)");
    await expect(restore()).rejects.toMatchObject({ code: "code_snapshot_damaged" });
    await rm(blob);
    await expect(restore()).rejects.toMatchObject({ code: "code_snapshot_damaged" });
    await expect(restoreSnapshot({ codeDir, id: "../x", target: top })).rejects.toMatchObject({
      code: "code_snapshot_damaged",
    });
  });

  it("records commit, branch and changes of a repository", async () => {
    git("init", "-q", "-b", "main");
    await put({ "a.py": "1" });
    expect((await snap()).git).toBeNull();
    git("add", ".");
    git("commit", "-qm", "one");
    const commit = git("rev-parse", "HEAD").trim();
    expect((await snap()).git).toMatchObject({ commit, branch: "main", dirty: false });
    await put({ "b.py": "1" });
    git("checkout", "-q", "--detach");
    expect((await snap()).git).toMatchObject({ commit, branch: null, dirty: true });
  });

  it("shows none of our keys to git, nor to its child processes, and lets it fetch nothing", async () => {
    git("init", "-q");
    await put({ "a.py": "1", ".gitattributes": "a.py filter=spy\n" });
    git("add", ".");
    git("commit", "-qm", "one");
    const spied = join(top, "spied");
    git("config", "filter.spy.clean", `sh -c 'env >${spied}; cat'`);
    await put({ "a.py": "2" });
    vi.stubEnv("PODHOST_API_KEY", "key-that-rents");
    await snap();
    const seen = await readFile(spied, "utf8");
    expect(seen).not.toContain("key-that-rents");
    expect(seen).toContain("GIT_NO_LAZY_FETCH=1");
  });

  it("refuses an entrypoint that an ignore file leaves out", async () => {
    await put({ "a.py": "", "b.py": "", ".gitignore": "b.py\n" });
    const request = { projectDir: project, codeDir, now: 0 };
    await expect(createSnapshot({ ...request, entrypoint: "b.py" })).rejects.toMatchObject({
      code: "entrypoint_not_runnable",
    });
    await expect(createSnapshot({ ...request, entrypoint: "./a.py" })).resolves.toMatchObject({ bytes: 5 });
  });

  it("does not wait for a pipe that replaced a file since it was listed", async () => {
    const pipe = join(top, "pipe");
    execFileSync("mkfifo", [pipe]);
    const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    expect(await hashFile(pipe)).toBe(empty);
    await put({ "a.py": "1" });
    execFileSync("mkfifo", [join(project, ".gitignore")]);
    expect((await snap()).files.map((f) => f.path)).toEqual(["a.py"]);
  });

  it("includes a file with several hard links like any other", async () => {
    await put({ a: "1" });
    await link(join(project, "a"), join(project, "b"));
    expect((await snap()).files.map((f) => f.path)).toEqual(["a", "b"]);
  });
});
