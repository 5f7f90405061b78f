// A folder with exactly the files to send is sent as a whole, and arrives as if it were listed file by file.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawnSync } from "node:child_process";
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { TreePush } from "../../src/providers/host.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { never, TestMachine } from "./machine.ts";

/** More files than svc sends without rsync. */
const FILES = 420;

let machine: TestMachine;
let from: string;
beforeAll(async () => {
  machine = await TestMachine.start();
  from = mkdtempSync(join(tmpdir(), "svc-whole-"));
  for (let i = 0; i < FILES; i++) {
    mkdirSync(join(from, `d${i % 7}`, "deep"), { recursive: true });
    writeFileSync(join(from, `d${i % 7}`, "deep", `-file ${i}`), `content ${i}`);
  }
  writeFileSync(join(from, "run"), "#!/bin/sh\n");
  chmodSync(join(from, "run"), 0o700);
});
afterAll(async () => {
  await machine.close();
  rmSync(from, { recursive: true, force: true });
});

const seen = (folder: string): [string, number, number, number][] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((path) => {
      const { mode, size, mtimeMs } = lstatSync(join(folder, path));
      const isFolder = (mode & 0o170000) === 0o040000;
      return [path, mode, isFolder ? 0 : size, isFolder ? 0 : Math.floor(mtimeMs / 1000)];
    });

test("a whole folder arrives like its files one by one, and removed files are removed there", async () => {
  const link = machine.link();
  const files = (): TreePush["files"] =>
    seen(from)
      .filter(([, mode]) => (mode & 0o170000) === 0o100000)
      .map(([path, mode, size]) => ({ path, size, executable: (mode & 0o100) !== 0 }));
  const [whole, single] = [join(machine.base, "whole"), join(machine.base, "single")];
  const both = async (): Promise<void> => {
    const pushed = await link.push({ from, to: whole, files: files(), whole: true, mirror: true }, never);
    expect(pushed.how).toBe("rsync");
    await link.push({ from, to: single, files: files(), mirror: true }, never);
  };
  await both();
  expect(seen(whole)).toEqual(seen(single));
  expect(seen(whole).filter(([path]) => path === "run")[0]?.[1]).toBe(0o100755);

  rmSync(join(from, "d0"), { recursive: true });
  writeFileSync(join(from, "d1", "new"), "new");
  // The run's own files stay; if a symlink of the run is in place of a folder, nothing is written through it.
  writeFileSync(join(whole, "theirs"), "x");
  writeFileSync(join(single, "theirs"), "x");
  const outside = mkdtempSync(join(tmpdir(), "svc-outside-"));
  rmSync(join(whole, "d2"), { recursive: true });
  symlinkSync(outside, join(whole, "d2"));
  await both();
  expect(readdirSync(outside)).toEqual([]);
  rmSync(outside, { recursive: true });
  expect(seen(whole).map(([path, mode, size]) => [path, mode, size])).toEqual(
    seen(single).map(([path, mode, size]) => [path, mode, size]),
  );
  expect(seen(whole).some(([path]) => path === "theirs")).toBe(true);
  expect(seen(whole).some(([path]) => path.startsWith("d0"))).toBe(false);
});

/** The process of the rsync that sends this folder. Throws while there is none. */
function rsyncOf(folder: string): number {
  const found = Number(spawnSync("pgrep", ["-o", "-f", `^rsync .*${folder}`]).stdout.toString());
  if (!found) throw new Error("it has not begun");
  return found;
}

test("a machine that answers faster than the local rsync reads is waited for", async () => {
  const many = mkdtempSync(join(tmpdir(), "svc-many-"));
  try {
    const files = Array.from({ length: 20_000 }, (_, i) => ({ path: `f${i}`, size: 1, executable: false }));
    for (const { path } of files) writeFileSync(join(many, path), "1");
    const to = join(machine.base, "many");
    const tree: TreePush = { from: many, to, files, whole: true, mirror: true };
    const link = machine.link();
    const push = link.push(tree, never);
    // The listing's output is hundreds of kilobytes, and nothing reads it here.
    const pid = await vi.waitFor(() => rsyncOf(many), DEADLINE_MS);
    await pause(100);
    process.kill(pid, "SIGSTOP");
    // Nothing may happen meanwhile: no timeout, and no memory that grows.
    await pause(500);
    process.kill(pid, "SIGCONT");
    expect(await push).toMatchObject({ how: "rsync", files: files.length });
    expect(readdirSync(to)).toHaveLength(files.length);
  } finally {
    rmSync(many, { recursive: true });
  }
});
