// Hostile or careless contents of a script's checkpoint directory, and the files that svc must download anyway.

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RemoteFile, RunHost } from "../../src/providers/host.ts";
import { fetchFile, listFiles } from "../../src/providers/local/checkpoint-files.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { withHomeNames } from "../../src/steps/checkpoints/home-names.ts";
import { CheckpointCollector } from "../../src/steps/checkpoints/collector.ts";

const { signal } = new AbortController();
let top: string;
let source: string;
let targetDir: string;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-hostile-"));
  source = join(top, "source");
  targetDir = join(top, "artifacts", "job", "checkpoints");
  mkdirSync(source);
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** The checkpoint half of a local host; `before` runs ahead of each copy. */
const host = (before: (file: RemoteFile) => void = () => undefined): RunHost =>
  ({
    listCheckpoints: () => listFiles(source, signal),
    fetchCheckpoint: (file: RemoteFile, target: string) => {
      before(file);
      return fetchFile(source, file, target);
    },
  }) as unknown as RunHost;

const scan = (from: RunHost, recorded: string[] = []) =>
  new CheckpointCollector({ targetDir, now: () => 0 }).scan(withHomeNames(from, new Redactor([])), {
    final: true,
    announced: new Set(),
    signal,
    record: async (files) => void recorded.push(...files.map((f) => f.path)),
  });

const put = (path: string, text = "weights") => writeFileSync(join(source, path), text);
const names = (files: { path: string }[]) => files.map((f) => f.path).sort();

describe("a checkpoint directory full of traps", () => {
  it("downloads the plain files and reports the rest", async () => {
    put("good.pt");
    mkdirSync(join(source, "sub"));
    put("sub/good.pt");
    for (const odd of ["new\nline", "esc\u001b[31m", "back\\slash", "<img src=x>.html", "%2e%2e%2f"]) put(odd);
    writeFileSync(Buffer.concat([Buffer.from(`${source}/not-utf8-`), Buffer.from([0xff])]), "x");
    put("setuid");
    chmodSync(join(source, "setuid"), 0o6777);
    symlinkSync("/etc/passwd", join(source, "link"));
    symlinkSync("/etc", join(source, "folder-link"));
    expect(spawnSync("mkfifo", [join(source, "pipe")]).status).toBe(0);
    const { saved, skipped } = await scan(host());
    const escaped = ["back%5Cslash", "esc%1B[31m", "new%0Aline", "not-utf8-%FF"];
    expect(names(saved)).toEqual(
      ["%2e%2e%2f", "<img src=x>.html", "good.pt", "setuid", "sub/good.pt", ...escaped].toSorted(),
    );
    expect(readFileSync(join(targetDir, "not-utf8-%FF"), "utf8")).toBe("x");
    expect(skipped.map((s) => s.why).sort()).toEqual([
      "it is a symlink that leaves the checkpoint directory",
      "it is a symlink that leaves the checkpoint directory",
    ]);
    expect(skipped.every((s) => !/[\n\u001b]/.test(s.path))).toBe(true);
  });

  it("is downloaded in spite of folders too deep for any path", async () => {
    put("good.pt");
    const dig = `import os; os.chdir(${JSON.stringify(source)})\nfor i in range(24):\n    os.mkdir("n"*220); os.chdir("n"*220)\nopen("deep","w")`;
    expect(spawnSync("python3", ["-c", dig]).status).toBe(0);
    try {
      const { saved, skipped } = await scan(host());
      expect(names(saved)).toEqual(["good.pt"]);
      expect(skipped).toEqual([{ path: expect.stringMatching(/^n+/), why: "its path is too long" }]);
    } finally {
      spawnSync("rm", ["-rf", source]);
    }
  });

  it("knows the folders in which TensorFlow has not finished by the files in them, not by their names alone", async () => {
    const shard = "part-00000-of-00001";
    const old = "a/model.ckpt-2_temp_0123456789abcdef0123456789abcdef";
    for (const folder of ["high_temp", "mine", "ckpt-1_temp", old])
      mkdirSync(join(source, folder), { recursive: true });
    const unfinished = [
      `${old}/${shard}.index`,
      `ckpt-1_temp/${shard}.data-00000-of-00001`,
      `ckpt-1_temp/${shard}.index`,
    ];
    for (const path of ["high_temp/model.pt", "low_temp", `mine/${shard}.index`, ...unfinished]) put(path);
    const { saved, skipped } = await scan(host());
    expect(names(saved)).toEqual(["high_temp/model.pt", "low_temp", `mine/${shard}.index`]);
    expect(names(skipped)).toEqual(unfinished);
    for (const { why } of skipped) expect(why).toContain("TensorFlow");
  });

  it("survives files and folders that the owner may not read", { tags: "needs/root" }, () => {
    chmodSync(top, 0o777);
    chmodSync(source, 0o777);
    const script = `
      import { mkdirSync, writeFileSync, chmodSync } from "node:fs";
      import { listFiles } from ${JSON.stringify(join(import.meta.dirname, "../../src/providers/local/checkpoint-files.ts"))};
      process.setgid(65534); process.setuid(65534);
      const at = ${JSON.stringify(source)};
      writeFileSync(at + "/good.pt", "1"); writeFileSync(at + "/shut.pt", "1"); mkdirSync(at + "/shut");
      chmodSync(at + "/shut.pt", 0); chmodSync(at + "/shut", 0);
      console.log(JSON.stringify(await listFiles(at, new AbortController().signal)));`;
    const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(ran.stderr).toBe("");
    const listed = JSON.parse(ran.stdout) as RemoteFile[];
    expect(listed.map((f) => [f.path, f.refused ?? null])).toEqual([
      ["good.pt", null],
      ["shut.pt", "it cannot be read: permission denied"],
      ["shut", "it cannot be read: permission denied"],
    ]);
  });

  it("reports more files than its limit", async () => {
    for (const name of ["a", "b", "c", "d"]) put(name);
    const listed = await listFiles(source, signal, { filesMax: 2 });
    expect(listed.map((f) => [f.path, f.refused ?? null])).toEqual([
      ["a", null],
      ["b", null],
      ["c", "it and what follows it are beyond the first 2 files"],
    ]);
  });
});

describe("a file that is swapped between the listing and the copy", () => {
  const swaps: Record<string, (path: string) => void> = {
    "for a link to a secret": (path) => symlinkSync(join(top, "secret"), path),
    "for a pipe that nobody writes to": (path) => void spawnSync("mkfifo", [path]),
    "for a device": (path) => symlinkSync("/dev/zero", path),
    "for a folder": (path) => mkdirSync(path),
    "for another file": (path) => writeFileSync(path, "another"),
  };
  it.each(Object.entries(swaps))("%s is not downloaded, and the others are", async (_, swap) => {
    writeFileSync(join(top, "secret"), "s3cr3t!");
    put("a.pt");
    put("b.pt");
    let done = false;
    const from = host((file) => {
      if (file.path !== "a.pt" || done) return;
      done = true;
      renameSync(join(source, "a.pt"), join(top, "aside"));
      swap(join(source, "a.pt"));
    });
    const { saved } = await scan(from);
    const home = readdirSync(targetDir).filter((name) => name.endsWith(".pt"));
    for (const name of home) expect(readFileSync(join(targetDir, name), "utf8")).not.toContain("s3cr3t");
    expect(names(saved)).toContain("b.pt");
  });

  it("is not read through a folder that became a symlink", async () => {
    mkdirSync(join(source, "d"));
    put("d/a.pt");
    mkdirSync(join(top, "elsewhere"));
    writeFileSync(join(top, "elsewhere", "a.pt"), "s3cr3t!");
    const from = host(() => {
      renameSync(join(source, "d"), join(top, "aside"));
      symlinkSync(join(top, "elsewhere"), join(source, "d"));
    });
    expect((await scan(from)).saved).toEqual([]);
  });
});

describe("the downloaded files", () => {
  it("are recorded by the next process when the first one died before it could", async () => {
    put("a.pt");
    const dying = new CheckpointCollector({ targetDir, now: () => 0 });
    const record = () => Promise.reject(new Error("killed"));
    await expect(dying.scan(host(), { final: true, announced: new Set(), signal, record })).rejects.toThrow("killed");
    const recorded: string[] = [];
    const { saved } = await scan(host(), recorded);
    expect([saved, recorded]).toEqual([[], ["a.pt"]]);
  });

  it("are recorded although one file is too large for the disk", async () => {
    put("a.pt");
    put("m.pt", "larger than the others");
    put("z.pt");
    const full = host((file) => {
      if (file.path === "m.pt") throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    });
    const recorded: string[] = [];
    await expect(scan(full, recorded)).rejects.toMatchObject({ code: "disk_full" });
    expect(recorded.sort()).toEqual(["a.pt", "z.pt"]);
  });

  it("do not include the target of a symlink in place of the checkpoint directory", async () => {
    rmSync(source, { recursive: true });
    symlinkSync("/etc", source);
    const { saved, skipped } = await scan(host());
    expect([saved, skipped.map((s) => s.why)]).toEqual([[], ["the checkpoint directory was replaced by a link"]]);
  });

  it("are never written through a symlink in place of the folder", async () => {
    put("a.pt");
    mkdirSync(join(top, "artifacts", "job"), { recursive: true });
    mkdirSync(join(top, "elsewhere"));
    symlinkSync(join(top, "elsewhere"), targetDir);
    await expect(scan(host())).rejects.toMatchObject({ code: "start_failed" });
    expect(readdirSync(join(top, "elsewhere"))).toEqual([]);
  });
});
