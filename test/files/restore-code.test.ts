import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { keepFilesPrivate } from "../../src/platform/own-umask.ts";
import { blobPath } from "../../src/files/code/contents.ts";
import { createSnapshot } from "../../src/files/code/code-snapshot.ts";
import { restoreInto } from "../../src/files/code/restore-code.ts";
import type { CodeSnapshot } from "../../src/schemas/job.ts";

let top: string;
let codeDir: string;
let target: string;
let snapshot: CodeSnapshot;
beforeEach(async () => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "svc-restore-")));
  codeDir = join(top, "home", "code");
  target = join(top, "target");
  const project = join(top, "project");
  mkdirSync(join(project, "lib"), { recursive: true });
  writeFileSync(join(project, "train.py"), "print('as it was')\n");
  writeFileSync(join(project, "lib", "run.sh"), "#!/bin/sh\n");
  chmodSync(join(project, "lib", "run.sh"), 0o755);
  snapshot = await createSnapshot({ projectDir: project, codeDir, now: 0 });
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

const restore = (force = false) => restoreInto({ codeDir, snapshot, directory: target, force });
const refused = (words: RegExp) =>
  expect.objectContaining({ code: "restore_refused", message: expect.stringMatching(words) as string }) as Error;
const text = (path: string): string => readFileSync(join(target, path), "utf8");

describe("restoring code into a folder", () => {
  it("writes every file with its mode, and finds the same files the second time", async () => {
    expect(await restore()).toEqual({
      directory: target,
      not_kept: [],
      written: ["lib/run.sh", "train.py"],
      replaced: [],
      same: 0,
    });
    expect(text("train.py")).toBe("print('as it was')\n");
    expect(statSync(join(target, "lib/run.sh")).mode & 0o111).not.toBe(0);
    expect(statSync(join(target, "train.py")).mode & 0o111).toBe(0);
    expect(await restore()).toMatchObject({ written: [], same: 2 });
    expect(readdirSync(target).toSorted()).toEqual(["lib", "train.py"]);
    // The restored file is a separate copy: a write to it must not change the snapshot.
    writeFileSync(join(target, "train.py"), "mine now\n");
    await expect(restore(true)).resolves.toMatchObject({ replaced: ["train.py"] });
    expect(text("train.py")).toBe("print('as it was')\n");
  });

  it("overwrites a different file only on request", async () => {
    mkdirSync(target);
    writeFileSync(join(target, "train.py"), "mine\n");
    await expect(restore()).rejects.toThrowError(refused(/train\.py differs/));
    expect([text("train.py"), existsSync(join(target, "lib"))]).toEqual(["mine\n", false]);
    expect(await restore(true)).toMatchObject({ written: ["lib/run.sh", "train.py"], replaced: ["train.py"] });
    expect(text("train.py")).toBe("print('as it was')\n");
  });

  it("counts another mode as a difference", async () => {
    await restore();
    chmodSync(join(target, "lib/run.sh"), 0o644);
    await expect(restore()).rejects.toThrowError(refused(/lib\/run\.sh differs/));
    await restore(true);
    expect(statSync(join(target, "lib/run.sh")).mode & 0o111).not.toBe(0);
  });

  it("does not follow a symlink out of the folder, with or without force", async () => {
    const outside = join(top, "outside");
    mkdirSync(outside);
    mkdirSync(target);
    writeFileSync(join(outside, "precious"), "precious");
    symlinkSync(outside, join(target, "lib"));
    for (const force of [false, true]) await expect(restore(force)).rejects.toThrowError(refused(/lib is a link/));
    expect(readdirSync(outside)).toEqual(["precious"]);
    rmSync(join(target, "lib"));
    symlinkSync(join(outside, "precious"), join(target, "train.py"));
    await expect(restore()).rejects.toThrowError(refused(/train\.py differs/));
    await restore(true);
    expect(lstatSync(join(target, "train.py")).isFile()).toBe(true);
    expect(readFileSync(join(outside, "precious"), "utf8")).toBe("precious");
  });

  it("refuses a file in place of a folder and a folder in place of a file", async () => {
    mkdirSync(join(target, "train.py"), { recursive: true });
    await expect(restore(true)).rejects.toThrowError(refused(/train\.py is a folder/));
    rmSync(join(target, "train.py"), { recursive: true });
    writeFileSync(join(target, "lib"), "");
    await expect(restore(true)).rejects.toThrowError(refused(/lib is not a folder/));
    rmSync(target, { recursive: true });
    writeFileSync(target, "");
    await expect(restore()).rejects.toThrowError(refused(/cannot be made or read \((EEXIST|ENOTDIR)\)/));
  });

  it("reports the system's error for an unreadable path, and does not treat it as absent", async () => {
    const long = { ...snapshot.files[0]!, path: `${"x".repeat(300)}.py` };
    snapshot = { ...snapshot, files: [long] };
    await expect(restore()).rejects.toThrowError(refused(/cannot be looked at \(ENAMETOOLONG\)/));
  });

  it("writes nothing of a snapshot that is damaged or leads out of the folder", async () => {
    const sha256 = snapshot.files[1]!.sha256 ?? "";
    chmodSync(blobPath(codeDir, sha256), 0o600);
    writeFileSync(blobPath(codeDir, sha256), "print('as it WAS')\n");
    await expect(restore()).rejects.toThrowError(expect.objectContaining({ code: "code_snapshot_damaged" }) as Error);
    expect(readdirSync(target)).toEqual([]);
    snapshot = { ...snapshot, files: [{ ...snapshot.files[0]!, path: "../out.py" }] };
    await expect(restore(true)).rejects.toThrowError(
      expect.objectContaining({ code: "code_snapshot_damaged" }) as Error,
    );
    expect(existsSync(join(top, "out.py"))).toBe(false);
  });
});

it("Restored files have the modes that the user's own programs give, though svc keeps its own files private", async () => {
  const before = process.umask(0o022);
  try {
    keepFilesPrivate();
    await restore();
    expect(statSync(join(target, "train.py")).mode & 0o777).toBe(0o644);
    expect(statSync(join(target, "lib", "run.sh")).mode & 0o777).toBe(0o755);
  } finally {
    process.umask(before);
  }
});
