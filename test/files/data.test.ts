import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { addData, type AddRequest } from "../../src/files/data/add.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { listData, namesOf, readManifest, removeManifest } from "../../src/files/data/store.ts";
import { doubts, verifyData } from "../../src/files/data/verify.ts";
import { hashFiles } from "../../src/files/hash-pool.ts";

let top: string;
let home: string;
let folder: string;
beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "svc-data-")));
  home = join(top, "home");
  folder = join(top, "set");
  mkdirSync(folder);
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

const never = new AbortController().signal;
function put(files: Record<string, string | Buffer>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}
const add = (more: Partial<AddRequest> = {}) =>
  addData({ name: "set", paths: [folder], followLinks: false, ...more }, { home, now: Date.now(), signal: never });
const verify = (full = false) => verifyData("set", full, { home, now: Date.now(), signal: never });
const failing = (code: string, words = /./) =>
  expect.objectContaining({ code, message: expect.stringMatching(words) as string }) as Error;
/**
 * Sets all times into the past: a file that was written just before it was read is read once more, which would hide the
 * other reads.
 */
function settled(): void {
  const file = homeLayout.dataManifest(home, "set");
  const manifest = JSON.parse(readFileSync(file, "utf8")) as {
    files: [string, number, string, number, number, number][];
  };
  for (const record of manifest.files) record[5] = statSync(join(folder, record[0])).ino;
  writeFileSync(file, JSON.stringify(manifest));
}

describe("adding data", () => {
  it("records every file with size and SHA-256, and the whole by its contents alone", async () => {
    put({ "a.txt": "one", "b/c d.bin": Buffer.from([0, 1]), "b/empty": "" });
    const { data, unchanged } = await add();
    expect([data.files, data.bytes, unchanged]).toEqual([3, 5, null]);
    const files = readManifest(home, "set").files.map(([path, size, sha256]) => [path, size, sha256]);
    const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
    expect(files).toEqual([
      ["a.txt", 3, sha("one")],
      ["b/c d.bin", 2, sha("\u0000\u0001")],
      ["b/empty", 0, sha("")],
    ]);
    const elsewhere = join(top, "elsewhere");
    renameSync(folder, elsewhere);
    expect((await add({ name: "again", paths: [elsewhere] })).data.sha256).toBe(data.sha256);
    expect(listData(home).data.map((d) => d.name)).toEqual(["again", "set"]);
  });

  it("gives the digests of sha256sum, for many files on all processors", async () => {
    put(Object.fromEntries(Array.from({ length: 700 }, (_, i) => [`d${i % 7}/f${i}`, `${i}`.repeat(i)])));
    put({ big: Buffer.alloc(5_000_003, "x"), exact: Buffer.alloc(1024 * 1024, "y") });
    await add();
    const names = readManifest(home, "set").files.map(([path]) => path);
    const said = execFileSync("sha256sum", ["--", ...names], { cwd: folder, encoding: "utf8" })
      .trimEnd()
      .split("\n");
    expect(readManifest(home, "set").files.map(([path, , sha256]) => `${sha256}  ${path}`)).toEqual(said);
  });

  it("places several paths under their own names", async () => {
    put({ "train/a": "1", "test/a": "2", "labels.csv": "3" });
    const { data } = await add({ paths: ["train", "test", "labels.csv"].map((name) => join(folder, name)) });
    expect(readManifest(home, "set").files.map(([path]) => path)).toEqual(["labels.csv", "test/a", "train/a"]);
    expect(data.roots).toHaveLength(3);
    expect((await verify()).ok).toBe(true);
    mkdirSync(join(folder, "more/train"), { recursive: true });
    await expect(add({ paths: [join(folder, "train"), join(folder, "more/train")] })).rejects.toThrowError(
      failing("data_path_refused", /two paths called train/),
    );
  });

  it("follows symlinks within the folder, and excludes those that leave it, lead nowhere or form cycles", async () => {
    put({ "real/a": "1" });
    writeFileSync(join(top, "private"), "key");
    symlinkSync("real/a", join(folder, "in"));
    symlinkSync("real", join(folder, "folder"));
    symlinkSync("../private", join(folder, "out"));
    symlinkSync("nothing", join(folder, "broken"));
    symlinkSync(".", join(folder, "real/back"));
    symlinkSync(".", join(folder, "here"));
    execFileSync("mkfifo", [join(folder, "pipe")]);
    mkdirSync(join(folder, ".ssh"));
    const { data } = await add();
    expect(readManifest(home, "set").files.map(([path]) => path)).toEqual(["folder/a", "in", "real/a"]);
    expect(Object.fromEntries(data.left_out.map(({ path, why }) => [path, why]))).toMatchObject({
      out: expect.stringContaining("leaves the folder"),
      broken: expect.stringContaining("broken"),
      "real/back": expect.stringContaining("contains it"),
      here: expect.stringContaining("contains it"),
      pipe: expect.stringContaining("neither"),
      ".ssh": expect.stringContaining("never sends"),
    });
    await add({ followLinks: true });
    expect(readManifest(home, "set").files.map(([path]) => path)).toContain("out");
  });

  it("refuses folders whose symlinks lead to each other, which could be followed in millions of ways", async () => {
    const names = Array.from({ length: 11 }, (_, i) => `f${i}`);
    for (const name of names) mkdirSync(join(folder, name), { recursive: true });
    for (const name of names) for (const other of names) symlinkSync(`../${other}`, join(folder, name, other));
    await expect(add()).rejects.toThrowError(
      failing("data_path_refused", /more than 500 symlinks lead to this folder/),
    );
  });

  it("takes nothing out of folders of keys, version control and homes, through any symlink and option", async () => {
    put({ a: "1", "sub/.ssh/work": "key", ".git/config": "token", ".git/annex/objects/x/y": "2" });
    mkdirSync(join(top, ".aws"));
    writeFileSync(join(top, ".aws", "credentials"), "key");
    mkdirSync(home);
    writeFileSync(join(home, "credentials.json"), "key");
    for (const [name, to] of [
      ["keys", "sub/.ssh"],
      ["key", "sub/.ssh/work"],
      ["config", ".git/config"],
      ["cloud", "../.aws"],
      ["cloud-key", "../.aws/credentials"],
      ["svc", home],
      ["svc-key", join(home, "credentials.json")],
      ["above", top],
      ["all", "/"],
      ["annexed", ".git/annex/objects/x/y"],
    ] as const)
      symlinkSync(to, join(folder, name));
    for (const followLinks of [false, true]) {
      await add({ followLinks });
      expect(readManifest(home, "set").files.map(([path]) => path)).toEqual(["a", "annexed"]);
      expect(readManifest(home, "set").left_out).toContainEqual({
        path: "cloud-key",
        why: expect.stringContaining("folder called .aws") as string,
      });
    }
    for (const path of [join(top, ".aws"), join(folder, "sub/.ssh/work"), join(folder, "keys")])
      await expect(add({ name: "more", paths: [path] })).rejects.toThrowError(failing("data_path_refused", /called/));
  });

  it("refuses an invalid name, a missing path, or a folder above the data; and then keeps nothing", async () => {
    put({ a: "1" });
    for (const name of ["", ".x", "a/b", "..", "a b", "con", "x.", "é", "-x"])
      await expect(add({ name })).rejects.toThrowError(failing("data_name_refused"));
    for (const [path, words] of [
      ["/", /home directory/],
      [home, /home of svc/],
      [top, /home of svc/],
      [join(top, "none"), /nothing of that name/],
      ["/dev/null", /neither/],
    ] as const) {
      mkdirSync(home, { recursive: true });
      await expect(add({ paths: [path] })).rejects.toThrowError(failing("data_path_refused", words));
    }
    mkdirSync(join(folder, "bare"));
    await expect(add({ paths: [join(folder, "bare")] })).rejects.toThrowError(failing("data_path_refused", /no file/));
    symlinkSync("x".repeat(300), join(folder, "unreadable"));
    await expect(add()).rejects.toThrowError(failing("data_path_refused", /unreadable/));
    rmSync(join(folder, "unreadable"));
    expect(namesOf(home)).toEqual([]);
    await add({ name: "Set" });
    await expect(add({ name: "set" })).rejects.toThrowError(failing("data_name_refused", /case alone/));
  });

  it("reads only files that were modified since, when it is added again", async () => {
    put({ a: "1", b: "2" });
    await add();
    settled();
    put({ b: "22", c: "3" });
    expect(await add()).toMatchObject({ unchanged: false, read_files: 2 });
    settled();
    expect(await add()).toMatchObject({ unchanged: true, read_files: 0 });
  });
});

describe("verifying data", () => {
  it("names changed, missing, unreadable and new files", async () => {
    put({ grown: "1", same: "1", edited: "1", gone: "1", locked: "1", pipe: "1" });
    await add();
    settled();
    put({ grown: "12", edited: "2", extra: "1" });
    rmSync(join(folder, "gone"));
    rmSync(join(folder, "pipe"));
    execFileSync("mkfifo", [join(folder, "pipe")]);
    expect(await verify()).toMatchObject({
      ok: false,
      changed: [
        { path: "edited", why: "its content differs" },
        { path: "grown", why: "2 bytes, not 1" },
        { path: "pipe", why: "it is no longer a plain file" },
      ],
      missing: ["gone"],
      extra: ["extra"],
      read_files: 1,
    });
    expect(await doubts(readManifest(home, "set"))).toMatch(
      /edited has changed, gone is missing, grown has changed and 1 more/,
    );
  });

  it("distinguishes unreadable from missing files", { tags: "needs/no-root" }, async () => {
    put({ a: "1", "b/c": "1" });
    await add();
    chmodSync(join(folder, "a"), 0);
    chmodSync(join(folder, "b"), 0);
    const report = await verify(true);
    chmodSync(join(folder, "b"), 0o700);
    expect(report.missing).toEqual([]);
    expect(report.unreadable.map(({ path }) => path)).toEqual(["a", "b", "b/c"]);
  });

  it("reads nothing if nothing was modified, and a touched file once", async () => {
    put({ a: "1", b: "2" });
    await add();
    settled();
    expect(await verify()).toMatchObject({ ok: true, read_files: 0 });
    const long = new Date("2020-01-01");
    utimesSync(join(folder, "a"), long, long);
    expect(await doubts(readManifest(home, "set"))).toContain("a has changed");
    expect(await verify()).toMatchObject({ ok: true, read_files: 1 });
    expect(await doubts(readManifest(home, "set"))).toBeNull();
    settled();
    expect(await verify()).toMatchObject({ ok: true, read_files: 0 });
    expect(await verify(true)).toMatchObject({ ok: true, read_files: 2 });
  });

  it("finds a change that left size and modification time unchanged", async () => {
    put({ a: "1" });
    const long = new Date("2020-01-01");
    utimesSync(join(folder, "a"), long, long);
    await add();
    settled();
    put({ a: "2" });
    utimesSync(join(folder, "a"), long, long);
    expect((await verify()).changed).toEqual([{ path: "a", why: "its content differs" }]);
  });

  it("refuses a manifest that was torn or that leads out of the data, and removes data without touching its files", async () => {
    put({ a: "1" });
    await add();
    const file = homeLayout.dataManifest(home, "set");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('"a"', '"../a"'));
    await expect(verify()).rejects.toThrowError(failing("data_manifest_damaged", /leads out/));
    truncateSync(file, 20);
    await expect(verify()).rejects.toThrowError(failing("data_manifest_damaged"));
    await add({ name: "other" });
    expect(listData(home)).toMatchObject({ data: [{ name: "other" }], damaged: [{ name: "set" }] });
    expect((await add()).unchanged).toBeNull();
    removeManifest(home, "set");
    await expect(verify()).rejects.toThrowError(failing("data_not_found"));
    expect(() => removeManifest(home, "../set")).toThrowError(failing("data_not_found"));
    expect(existsSync(join(folder, "a"))).toBe(true);
  });
});

it("hashing ends when no caller waits for it any more", async () => {
  writeFileSync(join(folder, "sparse"), "");
  truncateSync(join(folder, "sparse"), 40 * 1024 ** 3);
  const stop = new AbortController();
  const work = hashFiles([{ at: join(folder, "sparse"), size: 40 * 1024 ** 3 }], {
    signal: stop.signal,
    progress: () => stop.abort(new Error("enough")),
  });
  await expect(work).rejects.toThrowError("enough");
});
