import {
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SvcError, UnreadableFile } from "../../../src/errors/index.ts";
import type { RemoteFile, RunHost } from "../../../src/providers/host.ts";
import { readCheckpoints } from "../../../src/steps/checkpoints/files.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";

let top: string;
let source: string;
let targetDir: string;
let now: number;
let fetched: string[];
/** Called before each fetch: simulates the script's actions meanwhile. */
let meanwhile: (path: string) => Promise<void>;
/** Entries that a lying machine adds to its listing. */
let lies: RemoteFile[];
const signal = new AbortController().signal;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "svc-collect-"));
  source = join(top, "source");
  targetDir = join(top, "artifacts", "job", "checkpoints");
  await mkdir(source);
  now = 1_000;
  fetched = [];
  lies = [];
  meanwhile = async () => undefined;
});
afterEach(() => rm(top, { recursive: true, force: true }));

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(source, path)), { recursive: true });
  await writeFile(join(source, path), text);
}

/** The checkpoint half of a host, over a real folder. */
const host = {
  async listCheckpoints(): Promise<RemoteFile[]> {
    const files: RemoteFile[] = [...lies];
    for (const path of await readdir(source, { recursive: true })) {
      const stats = await lstat(join(source, path));
      if (stats.isFile()) files.push({ path, size: stats.size, mtimeMs: stats.mtimeMs, inode: stats.ino });
    }
    return files.sort((a, b) => (a.path < b.path ? -1 : 1));
  },
  async fetchCheckpoint(file: RemoteFile, target: string): Promise<void> {
    fetched.push(file.path);
    await meanwhile(file.path);
    await copyFile(join(source, file.path), target);
  },
} as unknown as RunHost;

/** A link that breaks so many times before svc can compare the received bytes. */
const breakingBeforeCompared = (times: number): RunHost => {
  let listings = 0;
  return {
    ...host,
    listCheckpoints: async () => {
      if (++listings % 2 === 0 && listings <= 2 * times)
        throw new SvcError("ssh_unreachable", { machine: "m", why: "connection refused" });
      return host.listCheckpoints(signal);
    },
  };
};

const collector = () => new CheckpointCollector({ targetDir, now: () => now });
const paths = (files: { path: string }[]) => files.map((f) => f.path);

describe("CheckpointCollector", () => {
  it("does not download again if a broken link prevented the comparison", async () => {
    for (const name of ["a", "b", "c"]) await put(name, name.repeat(1_000));
    const breaking = breakingBeforeCompared(2);
    const one = collector();
    const last = { final: true, announced: new Set<string>(), signal };
    for (let i = 0; i < 2; i++) {
      await expect(one.scan(breaking, last)).rejects.toMatchObject({ code: "ssh_unreachable" });
      expect(await readCheckpoints(targetDir)).toEqual([]);
    }
    // The file was rewritten meanwhile: the partial download does not belong to it.
    await put("c", "other".repeat(100));
    expect(paths((await one.scan(breaking, last)).saved).toSorted()).toEqual(["a", "b", "c"]);
    expect(fetched.toSorted()).toEqual(["a", "b", "c", "c"]);
    expect(await readFile(join(targetDir, "c"), "utf8")).toBe("other".repeat(100));
    expect(await readdir(join(targetDir, ".svc-partial"))).toEqual([]);
  });

  it("resumes where a broken link cut a file off, for as long as that very file exists", async () => {
    await put("a", "a".repeat(1_000));
    await put("b", "b".repeat(3_000));
    const had: Record<string, number[]> = { a: [], b: [] };
    let breaks = 2;
    const breaking = {
      ...host,
      fetchCheckpoint: async (file: RemoteFile, target: string) => {
        const part = `${target}.part`;
        const before = await readFile(part).catch(() => Buffer.alloc(0));
        had[file.path]?.push(before.length);
        const content = await readFile(join(source, file.path));
        if (file.path === "b" && breaks-- > 0) {
          await writeFile(part, content.subarray(0, before.length + 1_000));
          throw new SvcError("ssh_unreachable", { machine: "m", why: "connection refused" });
        }
        await writeFile(part, content);
        await rename(part, target);
      },
    } as unknown as RunHost;
    const one = collector();
    for (const final of [false, true]) {
      const options = { final, announced: new Set(["."]), signal };
      await expect(one.scan(breaking, options)).rejects.toMatchObject({ code: "ssh_unreachable" });
      expect(paths(await readCheckpoints(targetDir))).toEqual(["a"]);
    }
    const last = { final: true, announced: new Set<string>(), signal };
    expect(paths((await one.scan(breaking, last)).saved)).toEqual(["b"]);
    expect(had).toEqual({ a: [0], b: [0, 1_000, 2_000] });
    expect(await readFile(join(targetDir, "b"), "utf8")).toBe("b".repeat(3_000));

    breaks = 1;
    await put("b", "other".repeat(600));
    await expect(one.scan(breaking, last)).rejects.toMatchObject({ code: "ssh_unreachable" });
    await put("b", "third".repeat(600));
    await one.scan(breaking, last);
    expect(had["b"]?.slice(3)).toEqual([0, 0]);
    expect(await readFile(join(targetDir, "b"), "utf8")).toBe("third".repeat(600));
    expect(await readdir(join(targetDir, ".svc-partial"))).toEqual([]);
  });

  it("moves finished downloads into place every few seconds, because a process may end", async () => {
    const names = Array.from({ length: 60 }, (_, i) => `f${i + 10}`);
    for (const name of names) await put(name, name);
    let home = 0;
    meanwhile = async (path) => {
      now += 400;
      if (path === names.at(-1)) home = (await readCheckpoints(targetDir)).length;
    };
    const { saved } = await collector().scan(host, { final: true, announced: new Set(), signal });
    expect(paths(saved).toSorted()).toEqual(names);
    expect(home).toBeGreaterThan(15);
  });

  it("requests many small files at once, and large ones one by one", async () => {
    const small = Array.from({ length: 60 }, (_, i) => `small-${i + 10}`);
    for (const name of small) await put(name, name);
    for (const name of ["large-1", "large-2"]) await put(name, "x".repeat(1 << 20));
    const flying = new Set<string>();
    const most = { small: 0, large: 0 };
    // None is over before 48 fly; then one more has the time to begin.
    const enough = Promise.withResolvers<undefined>();
    meanwhile = async (path) => {
      flying.add(path);
      const kind = path.startsWith("small") ? "small" : "large";
      most[kind] = Math.max(most[kind], flying.size);
      if (most.small >= 48) setTimeout(() => enough.resolve(undefined), 5);
      await enough.promise;
      flying.delete(path);
    };
    const { saved } = await collector().scan(host, { final: true, announced: new Set(), signal });
    expect(paths(saved)).toEqual([...small, "large-1", "large-2"]);
    expect(most).toEqual({ small: 48, large: 1 });
  });

  it("downloads a file once it was unchanged for ten seconds, complete, private and with its time", async () => {
    await put("epoch-1/model.pt", "weights");
    await utimes(join(source, "epoch-1/model.pt"), 1_764_000_000.123, 1_764_000_000.123);
    const c = collector();
    const scan = () => c.scan(host, { final: false, announced: new Set(), signal });
    expect(await scan()).toEqual({ saved: [], pending: ["epoch-1/model.pt"], skipped: [], noRoom: [], torn: [] });
    now += SETTLE_MS - 1;
    expect((await scan()).pending).toEqual(["epoch-1/model.pt"]);
    now += 1;
    expect(await scan()).toEqual({
      saved: [{ path: "epoch-1/model.pt", size: 7, modified_at: "2025-11-24T16:00:00.123Z" }],
      pending: [],
      skipped: [],
      noRoom: [],
      torn: [],
    });
    const file = join(targetDir, "epoch-1/model.pt");
    expect(await readFile(file, "utf8")).toBe("weights");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(dirname(file))).mode & 0o777).toBe(0o700);
    expect(await readdir(join(targetDir, ".svc-partial"))).toEqual([]);
    // Another process that scans again downloads nothing, and still has the file.
    const next = collector();
    expect((await next.scan(host, { final: true, announced: new Set(), signal })).saved).toEqual([]);
    expect(await next.atHome()).toMatchObject([{ path: "epoch-1/model.pt", size: 7 }]);
  });

  it("starts to wait again when a file grows, or is replaced by one of the same size and time", async () => {
    await put("a.pt", "1");
    const c = collector();
    const scan = () => c.scan(host, { final: false, announced: new Set(), signal });
    await scan();
    now += SETTLE_MS;
    await put("a.pt", "22");
    expect((await scan()).pending).toEqual(["a.pt"]);
    // Whole seconds: a time that was read loses its nanoseconds when it is set again.
    await utimes(join(source, "a.pt"), 1_764_000_000, 1_764_000_000);
    expect((await scan()).pending).toEqual(["a.pt"]);
    await put("b", "33");
    await utimes(join(source, "b"), 1_764_000_000, 1_764_000_000);
    await rename(join(source, "b"), join(source, "a.pt"));
    now += SETTLE_MS;
    expect((await scan()).pending).toEqual(["a.pt"]);
    now += SETTLE_MS;
    expect(paths((await scan()).saved)).toEqual(["a.pt"]);
  });

  it("downloads announced files at once, folders too, and removes the names when they are done", async () => {
    await put("c-1/x", "1");
    await put("c-1/y.tmp", "2");
    await put("c-2/x", "3");
    await put("solo", "4");
    const announced = new Set(["./c-1/", "solo"]);
    const result = await collector().scan(host, { final: false, announced, signal });
    expect(paths(result.saved)).toEqual(["c-1/x", "solo"]);
    expect(result.pending).toEqual(["c-1/y.tmp", "c-2/x"]);
    expect([...announced]).toEqual(["./c-1/"]);
  });

  it("downloads a changed file again, and an unchanged one never, also in a new process", async () => {
    await put("a", "1");
    await put("b", "1");
    const final = () => collector().scan(host, { final: true, announced: new Set(), signal });
    expect(paths((await final()).saved)).toEqual(["a", "b"]);
    expect((await final()).saved).toEqual([]);
    expect(fetched.toSorted()).toEqual(["a", "b"]);
    await put("a", "2!");
    expect(paths((await final()).saved)).toEqual(["a"]);
    expect(await readFile(join(targetDir, "a"), "utf8")).toBe("2!");
  });

  it("at the end downloads everything complete and reports unfinished files", async () => {
    for (const path of [
      "ok.pt",
      "a.tmp",
      "tmp-1-x/w",
      "b.partial",
      "hf/checkpoint-is-incomplete.txt",
      "hf/w/1",
      ".svc-checkpoints.json",
    ])
      await put(path, "x");
    const { saved, pending, skipped } = await collector().scan(host, {
      final: true,
      announced: new Set(["a.tmp"]),
      signal,
    });
    expect(paths(saved)).toEqual(["ok.pt"]);
    expect(pending).toEqual([]);
    expect(paths(skipped).sort()).toEqual([
      "a.tmp",
      "b.partial",
      "hf/checkpoint-is-incomplete.txt",
      "hf/w/1",
      "tmp-1-x/w",
    ]);
  });

  it("never moves a file into place that changed while it was copied", async () => {
    await put("a", "old");
    await put("gone", "x");
    meanwhile = async (path) => (path === "gone" ? rm(join(source, "gone")) : put("a", `new ${fetched.length}`));
    const c = collector();
    const during = await c.scan(host, { final: false, announced: new Set(["."]), signal });
    expect(during).toEqual({ saved: [], pending: ["a"], skipped: [], noRoom: [], torn: [] });
    expect(await readCheckpoints(targetDir)).toEqual([]);
    const end = await c.scan(host, { final: true, announced: new Set(), signal });
    expect(end.saved).toEqual([]);
    expect(end.skipped).toEqual([{ path: "a", why: "it kept changing while it was copied" }]);
    let once = true;
    meanwhile = async () => {
      if (once) await put("a", "settled");
      once = false;
    };
    expect(paths((await c.scan(host, { final: true, announced: new Set(), signal })).saved)).toEqual(["a"]);
    expect(await readFile(join(targetDir, "a"), "utf8")).toBe("settled");
  });

  it("never moves a download into place that is shorter than the file, though the machine says that all is sent", async () => {
    await put("a", "complete");
    const short = { ...host, fetchCheckpoint: (_: RemoteFile, target: string) => writeFile(target, "comp") };
    const c = collector();
    const during = await c.scan(short, { final: false, announced: new Set(["a"]), signal });
    expect([during.saved, during.pending, await readCheckpoints(targetDir)]).toEqual([[], ["a"], []]);
    expect(paths((await c.scan(host, { final: true, announced: new Set(), signal })).saved)).toEqual(["a"]);
    expect(await readFile(join(targetDir, "a"), "utf8")).toBe("complete");
  });

  it("keeps the earlier file when a download fails, and leaves nothing else", async () => {
    await put("a", "1");
    await collector().scan(host, { final: true, announced: new Set(), signal });
    await put("a", "22");
    meanwhile = () => Promise.reject(Object.assign(new Error("no space"), { code: "ENOSPC" }));
    await expect(collector().scan(host, { final: true, announced: new Set(), signal })).rejects.toMatchObject({
      code: "disk_full",
    });
    expect(await readFile(join(targetDir, "a"), "utf8")).toBe("1");
    expect(await readdir(join(targetDir, ".svc-partial"))).toEqual([]);
  });

  it("reports a file that is larger than the disk, with its size, and downloads all others", async () => {
    await put("a.pt", "1");
    const { blocks, bsize } = await statfs(top);
    lies = [{ path: "huge.pt", size: 2 * blocks * bsize, mtimeMs: 1, inode: 1 }];
    const during = await collector().scan(host, { final: false, announced: new Set(["."]), signal });
    expect(paths(during.saved)).toEqual(["a.pt"]);
    const why = expect.stringMatching(/^it takes .*B, and the whole disk of this computer has .*B$/) as string;
    expect(during.skipped).toEqual([{ path: "huge.pt", why }]);
    expect(during.noRoom).toMatchObject([{ path: "huge.pt", needs: 2 * blocks * bsize }]);
    await put("b.pt", "2");
    const last = await collector().scan(host, { final: true, announced: new Set(), signal });
    expect(paths(last.saved)).toEqual(["b.pt"]);
    expect(last.skipped).toEqual([{ path: "huge.pt", why }]);
    expect(fetched).toEqual(["a.pt", "b.pt"]);
  });

  it("keeps trying at the end if space can still become free for a file, after all others", async () => {
    await put("a.pt", "1");
    const { blocks, bsize } = await statfs(top);
    const real = await lstat(join(source, "a.pt"));
    const link = { path: "last.pt", size: real.size, mtimeMs: real.mtimeMs, inode: real.ino, leadsTo: "a.pt" };
    // As large as the whole disk, which is never completely free.
    lies = [{ path: "large.pt", size: blocks * bsize, mtimeMs: 1, inode: 1 }, link];
    await expect(collector().scan(host, { final: true, announced: new Set(), signal })).rejects.toMatchObject({
      code: "disk_full",
      message: expect.stringContaining("large.pt: it takes") as string,
    });
    expect(paths(await readCheckpoints(targetDir))).toEqual(["a.pt", "last.pt"]);
    expect(fetched).toEqual(["a.pt"]);
  });

  it("counts only the data of a sparse file against the free space", async () => {
    const { blocks, bsize } = await statfs(top);
    lies = [{ path: "sparse.bin", size: 2 * blocks * bsize, stored: 4096, mtimeMs: 1, inode: 1 }];
    await put("sparse.bin", "");
    const { noRoom } = await collector().scan(host, { final: true, announced: new Set(), signal });
    expect(noRoom).toEqual([]);
    expect(fetched).toContain("sparse.bin");
  });

  it("continues with the others when the disk fills during a download, and reports it", async () => {
    for (const path of ["a", "b", "c"]) await put(path, path);
    meanwhile = (path) =>
      path === "b" ? Promise.reject(Object.assign(new Error("no space"), { code: "ENOSPC" })) : Promise.resolve();
    const all = { final: false, announced: new Set(["."]), signal };
    const { saved, skipped, noRoom } = await collector().scan(host, all);
    expect(paths(saved)).toEqual(["a", "c"]);
    expect([paths(skipped), paths(noRoom)]).toEqual([["b"], ["b"]]);
    meanwhile = async () => undefined;
    expect(paths((await collector().scan(host, { ...all, final: true })).saved)).toEqual(["b"]);
  });

  it("downloads the others if one cannot be read; that one is reported, retried, and reported again at the end", async () => {
    for (const [path, text] of [
      ["a", "1"],
      ["b", "22"],
      ["c", "333"],
    ] as const)
      await put(path, text);
    let broken = true;
    meanwhile = (path) =>
      path === "a" && broken
        ? Promise.reject(new UnreadableFile("runner_failed", { why: "the disk cannot read it" }))
        : Promise.resolve();
    const all = new Set(["a", "b", "c"]);
    const result = await collector().scan(host, { final: false, announced: all, signal });
    expect(paths(result.saved)).toEqual(["b", "c"]);
    expect(result.skipped).toEqual([{ path: "a", why: "the disk cannot read it", again: true }]);
    expect([...all]).toEqual(["a"]);
    await put("d", "4444");
    const last = { final: true, announced: new Set<string>(), signal };
    await expect(collector().scan(host, last)).rejects.toMatchObject({ code: "runner_failed" });
    expect(paths(await collector().atHome())).toEqual(["b", "c", "d"]);
    broken = false;
    expect(paths((await collector().scan(host, last)).saved)).toEqual(["a"]);
  });

  it.each([
    "../evil",
    "/etc/passwd",
    "a//b",
    "a/./b",
    "a/..",
    "",
    "a\0b",
    "a\nb",
    "a\x1b[2Jb",
    "c:x",
    "a\\..\\b",
    "x/".repeat(32) + "y",
    "n".repeat(256),
  ])("refuses the path %j from the machine and writes nothing", async (path) => {
    lies = [{ path, size: 1, mtimeMs: 1, inode: 1 }];
    const result = await collector().scan(host, { final: true, announced: new Set([path]), signal });
    expect(result.skipped).toHaveLength(1);
    expect(fetched).toEqual([]);
    expect(await readCheckpoints(targetDir)).toEqual([]);
  });

  it("turns a symlink into a separate local file, without sending its content twice", async () => {
    await put("epoch=1.ckpt", "one");
    await put("epoch=2.ckpt", "two");
    await utimes(join(source, "epoch=1.ckpt"), 1, 1);
    const at = async (path: string, leadsTo: string): Promise<RemoteFile> => {
      const { size, mtimeMs, ino } = await lstat(join(source, leadsTo));
      return { path, size, mtimeMs, inode: ino, leadsTo };
    };
    lies = [await at("last.ckpt", "epoch=1.ckpt")];
    const one = collector();
    const last = { final: true, announced: new Set<string>(), signal };
    expect(paths((await one.scan(host, last)).saved)).toEqual(["epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt"]);
    // Both are fetched in parallel.
    expect(fetched.toSorted()).toEqual(["epoch=1.ckpt", "epoch=2.ckpt"]);
    const home = (path: string) => readFile(join(targetDir, path), "utf8");
    expect(await home("last.ckpt")).toBe("one");
    // The link now has another target, and its former target is replaced.
    lies = [await at("last.ckpt", "epoch=2.ckpt")];
    await put("epoch=1.ckpt", "uno, anew");
    expect(paths((await one.scan(host, last)).saved)).toEqual(["epoch=1.ckpt", "last.ckpt"]);
    expect([await home("last.ckpt"), await home("epoch=1.ckpt"), await home("epoch=2.ckpt")]).toEqual([
      "two",
      "uno, anew",
      "two",
    ]);
    expect((await one.scan(host, last)).saved).toEqual([]);
    lies = [
      { ...(await at("bad.ckpt", "epoch=2.ckpt")), leadsTo: "../../etc/passwd" },
      { ...(await at("early.ckpt", "epoch=2.ckpt")), leadsTo: "epoch=3.ckpt.tmp" },
    ];
    expect((await one.scan(host, last)).skipped).toEqual([
      { path: "bad.ckpt", why: "it is a symlink, and about its target: its path is not plain and relative" },
      { path: "early.ckpt", why: expect.stringContaining("temporary name") as string },
    ]);
  });

  it("refuses malformed numbers", async () => {
    lies = [
      { path: "a", size: -1, mtimeMs: 1, inode: 1 },
      { path: "b", size: 1, mtimeMs: NaN, inode: 1 },
      { path: "c", size: 1, mtimeMs: 1e300, inode: 1 },
    ];
    expect(paths((await collector().scan(host, { final: true, announced: new Set(), signal })).skipped)).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  it("follows no local symlink: a symlink, or an older file, in the way of a folder is replaced", async () => {
    await put("dir/a", "1");
    await put("file/b", "1");
    await mkdir(join(targetDir), { recursive: true });
    await mkdir(join(top, "elsewhere"));
    await symlink(join(top, "elsewhere"), join(targetDir, "dir"));
    await writeFile(join(targetDir, "file"), "");
    const { saved, skipped } = await collector().scan(host, { final: true, announced: new Set(), signal });
    expect(skipped).toEqual([]);
    expect(paths(saved).toSorted()).toEqual(["dir/a", "file/b"]);
    expect(await readdir(join(top, "elsewhere"))).toEqual([]);
    expect(paths(await readCheckpoints(targetDir))).toEqual(["dir/a", "file/b"]);
  });

  it("clears the leftovers of an earlier process, and stops on request", async () => {
    await put("a", "1");
    await mkdir(join(targetDir, ".svc-partial"), { recursive: true });
    await writeFile(join(targetDir, ".svc-partial", "torn"), "x");
    const stopped = AbortSignal.abort(new Error("stop"));
    await expect(collector().scan(host, { final: true, announced: new Set(), signal: stopped })).rejects.toThrow(
      "stop",
    );
    expect(await readdir(join(targetDir, ".svc-partial"))).toEqual([]);
    expect(fetched).toEqual([]);
  });
});
