// What keeps the manifest of a tree true, with a shell of this computer in place of a machine.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { TreePushed } from "../../src/providers/host.ts";
import type { ExecOptions, SshConnection } from "../../src/ssh/connection.ts";
import { manifestPath, readTree, writeTreeManifest, type Manifest } from "../../src/ssh/tree-manifest.ts";
import type { TreeOptions } from "../../src/ssh/tree-options.ts";
import { pushTree } from "../../src/ssh/tree.ts";

const never = new AbortController().signal;
const DIGEST = "a".repeat(64);
let root: string;
let to: string;
let from: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-manifest-"));
  to = join(root, "project");
  from = join(root, "here");
  mkdirSync(to);
  mkdirSync(from);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/**
 * A machine that receives at most `bytes` of a command's input: the link breaks then, which ends the input, too.
 *
 * @param greeting what its login shell prints before a command's own output.
 */
const machine = (bytes = Infinity, greeting = ""): SshConnection =>
  ({
    machine: "m-1",
    exec: async (command: string, { stdin }: ExecOptions) => {
      const parts: Buffer[] = [];
      if (Buffer.isBuffer(stdin)) parts.push(stdin);
      else if (typeof stdin === "object") for await (const part of stdin) parts.push(part);
      const input = Buffer.concat(parts).subarray(0, bytes);
      const { status, stdout, stderr } = spawnSync("sh", ["-c", command], { input });
      return { code: status, signal: null, stdout: Buffer.concat([Buffer.from(greeting), stdout]), stderr };
    },
  }) as unknown as SshConnection;

/** Writes files of the project here. */
function put(...names: string[]): void {
  for (const name of names) {
    mkdirSync(join(from, name, ".."), { recursive: true });
    writeFileSync(join(from, name), name.padEnd(SIZE, "."));
  }
}
const SIZE = 3_000;
const push = (connection: SshConnection, ...names: string[]): Promise<TreePushed> => {
  const files = names.map((path) => ({ path, size: SIZE, executable: false }));
  const tree = { from, to, files, mirror: true };
  return pushTree({ connection, machine: "m-1", tree, signal: never, rsync: null } as unknown as TreeOptions);
};

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

it("What a login shell prints before an answer is no part of the manifest", async () => {
  await writeTreeManifest(machine(), to, manifestOf("a", "b"), never);
  const { pushed } = await readTree(machine(Infinity, "Welcome to m-1!\n"), to, false, never);
  expect([...pushed.keys()]).toEqual(["a", "b"]);
});

it("A file has a digest in the manifest only once a push has brought it, and is not sent again then", async () => {
  put("a", "b");
  // The link breaks within `b`: the manifest, which names both, and `a` have arrived, and `a` is not trusted.
  await expect(push(machine(SIZE + 2_500), "a", "b")).rejects.toMatchObject({ code: "sync_failed" });
  expect(readdirSync(to)).toContain("a");
  const digests = async (): Promise<(string | null)[]> =>
    [...(await readTree(machine(), to, false, never)).pushed.values()].map(({ digest }) => digest);
  expect(await digests()).toEqual([null, null]);
  expect((await push(machine(), "a", "b")).sent_bytes).toBeGreaterThan(2 * SIZE);
  expect(await digests()).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)]);
  expect((await push(machine(), "a", "b")).sent_bytes).toBe(0);
});

it("A file whose new content arrived in a cut push is sent again, also if another cut push follows and the project goes back", async () => {
  const write = (name: string, letter: string) => writeFileSync(join(from, name), letter.repeat(SIZE));
  const cut = { code: "sync_failed" };
  const at = Date.now() / 1_000;
  write("x", "1");
  await push(machine(), "x");
  for (const name of ["x", "z"]) write(name, "2");
  // The link breaks within `z`, and later before the first file.
  await expect(push(machine(SIZE + 2_500), "x", "z")).rejects.toMatchObject(cut);
  expect(readFileSync(join(to, "x"), "utf8")).toBe("2".repeat(SIZE));
  utimesSync(manifestPath(to), at - 10, at - 10);
  utimesSync(join(to, "x"), at - 5, at - 5);
  write("y", "2");
  await expect(push(machine(400), "x", "y", "z")).rejects.toMatchObject(cut);
  write("x", "1");
  await push(machine(), "x", "y", "z");
  expect(readFileSync(join(to, "x"), "utf8")).toBe("1".repeat(SIZE));
});

it("Files are removed by their names, whatever these contain", async () => {
  const names = ["with space", "new\nline", "-rf", "quote'\"`", "$(id)", "*", "~", "a/deep name/x"];
  put(...names);
  await push(machine(), ...names);
  writeFileSync(join(to, "theirs"), "");
  await push(machine());
  expect(readdirSync(to)).toEqual(["theirs"]);
});
