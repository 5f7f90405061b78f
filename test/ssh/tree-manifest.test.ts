// What keeps the manifest of a tree true, with a shell of this computer in place of a machine.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { ExecOptions, SshConnection } from "../../src/ssh/connection.ts";
import { manifestPath, readTree, writeTreeManifest, type Manifest } from "../../src/ssh/tree-manifest.ts";
import type { TreeOptions } from "../../src/ssh/tree-options.ts";
import { pushTree } from "../../src/ssh/tree.ts";

const never = new AbortController().signal;
const DIGEST = "a".repeat(64);
let root: string;
let to: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-manifest-"));
  to = join(root, "project");
  mkdirSync(to);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A machine that receives at most `bytes` of a command's input: the link breaks then, which ends the input, too. */
const machine = (bytes = Infinity): SshConnection =>
  ({
    machine: "m-1",
    exec: (command: string, { stdin }: ExecOptions) => {
      const input = (stdin as Buffer | undefined)?.subarray(0, bytes) ?? "";
      const { status, stdout, stderr } = spawnSync("sh", ["-c", command], { input });
      return Promise.resolve({ code: status, signal: null, stdout, stderr });
    },
  }) as unknown as SshConnection;

const manifestOf = (...names: string[]): Manifest =>
  new Map(names.map((name) => [name, { digest: DIGEST, size: 1, executable: false }]));
const known = async (): Promise<string[]> => [...(await readTree(machine(), to, false, never)).pushed.keys()];

it("A manifest of which only a part arrives does not replace the whole one", async () => {
  await writeTreeManifest(machine(), to, manifestOf("a", "b"), never);
  expect(await known()).toEqual(["a", "b"]);
  // The part ends at the end of a line, so that no line shows it.
  const line = `${DIGEST} 1 - a\0`.length;
  await expect(writeTreeManifest(machine(line), to, manifestOf("a", "b", "c"), never)).rejects.toMatchObject({
    code: "sync_failed",
  });
  expect(await known()).toEqual(["a", "b"]);
});

it("A path of the manifest that leads out of the tree is not known", async () => {
  const lines = ["a", "../b", "/c", "d/../../e", "f/g"].map((name) => `${DIGEST} 1 - ${name}\0`);
  writeFileSync(manifestPath(to), lines.join(""));
  expect(await known()).toEqual(["a", "f/g"]);
});

it.each(["../b", "/b", "a/../../b"])("A tree with the path %s is refused before the machine is asked", async (path) => {
  const tree = { from: to, to, files: [{ path, size: 1, executable: false }], mirror: true };
  const connection = { exec: () => Promise.reject(new Error("asked")) };
  const options = { connection, machine: "m-1", tree, signal: never, rsync: null } as unknown as TreeOptions;
  await expect(pushTree(options)).rejects.toMatchObject({
    code: "sync_failed",
    data: { why: "a path leads out of the project" },
  });
});
