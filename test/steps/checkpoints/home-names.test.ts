import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Redactor } from "../../../src/domain/redaction.ts";
import type { RemoteFile } from "../../../src/providers/host.ts";
import { fetchFile, listFiles } from "../../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector } from "../../../src/steps/checkpoints/collector.ts";
import { withHomeNames } from "../../../src/steps/checkpoints/home-names.ts";

const file = (path: string): RemoteFile => ({ path, size: 1, mtimeMs: 1, inode: 1 });

it("names of checkpoints lose their secrets, stay distinct, and lead back to the file", async () => {
  const fetched: string[] = [];
  const listing = ["plain.bin", "run-s3cret-one/a", "run-s3cret-two/a", "run-***redacted***/a"].map(file);
  const host = {
    listCheckpoints: () => Promise.resolve(listing),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const hidden = withHomeNames(host, new Redactor(["s3cret-one", "s3cret-two"]));
  const { signal } = new AbortController();
  const seen = await hidden.listCheckpoints(signal);
  expect(seen.map(({ path }) => path)).toEqual([
    "plain.bin",
    "run-***redacted***/a~",
    "run-***redacted***/a~~",
    "run-***redacted***/a",
  ]);
  // A framework would search them under their own names.
  expect(seen.map(({ renamed }) => renamed === true)).toEqual([false, true, true, false]);
  for (const each of seen) await hidden.fetchCheckpoint(each, "/t", signal);
  expect(fetched).toEqual(listing.map(({ path }) => path));
});

it("names that are not UTF-8 or contain control characters are escaped, stay distinct, and lead back to the file", async () => {
  const fetched: string[] = [];
  const listing = ["plain.bin", "a\udcff.pt", "a%FF.pt", "new\nline", "dir\u001b[31m/x", "ä😀\u202e.bin", "c:\\x"].map(
    file,
  );
  const host = {
    listCheckpoints: () => Promise.resolve(listing),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const safe = withHomeNames(host, new Redactor([]));
  const { signal } = new AbortController();
  const seen = await safe.listCheckpoints(signal);
  expect(seen.map(({ path, renamed }) => [path, renamed === true])).toEqual([
    ["plain.bin", false],
    ["a%FF.pt~", true],
    ["a%FF.pt", false],
    ["new%0Aline", true],
    ["dir%1B[31m/x", true],
    ["ä😀%E2%80%AE.bin", true],
    ["c%3A%5Cx", true],
  ]);
  for (const each of seen) await safe.fetchCheckpoint(each, "/t", signal);
  expect(fetched).toEqual(listing.map(({ path }) => path));
});

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "svc-names-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The names of the listing at home, which lead back to the files. */
async function namesAtHome(paths: string[], home: { others: number; foldsNames?: boolean }): Promise<string[]> {
  const fetched: string[] = [];
  const host = {
    listCheckpoints: () => Promise.resolve(paths.map(file)),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const { signal } = new AbortController();
  const named = withHomeNames(host, new Redactor([]), { folder, ...home });
  const seen = await named.listCheckpoints(signal);
  for (const each of seen) await named.fetchCheckpoint(each, "/t", signal);
  expect(fetched).toEqual(paths);
  expect(seen.map(({ path, renamed }) => renamed === true || paths.includes(path))).toEqual(paths.map(() => true));
  return seen.map(({ path }) => path);
}

it("names of node 0 that are the folders of other nodes get a suffix, and names beyond the last node do not", async () => {
  const paths = [
    "node0/a",
    "node1/a",
    "node1/sub/b",
    "node1~/a",
    "node2",
    "node3/a",
    "x/node1/a",
    "Node1/a",
    "../node1",
  ];
  const apart = [
    "node0/a",
    "node1~~/a",
    "node1~~/sub/b",
    "node1~/a",
    "node2~",
    "node3/a",
    "x/node1/a",
    "Node1/a",
    "../node1",
  ];
  expect(await namesAtHome(paths, { others: 2 })).toEqual(apart);
  expect(await namesAtHome(paths, { others: 0 })).toEqual(paths);
});

it("names that differ only in case or composition stay apart where they are one name, and keep their names from scan to scan", async () => {
  const paths = [
    "model.pt",
    "Model.pt",
    "MODEL.pt~",
    "run/a",
    "run/b",
    "Run/a",
    "é.pt",
    "e\u0301.pt",
    "NODE1/x",
    "other.pt",
  ];
  expect(await namesAtHome(paths, { others: 1, foldsNames: false })).toEqual(paths);
  const apart = [
    "model.pt~~",
    "Model.pt",
    "MODEL.pt~",
    "run~/a",
    "run~/b",
    "Run/a",
    "é.pt~",
    "e\u0301.pt",
    "NODE1~/x",
    "other.pt",
  ];
  expect(await namesAtHome(paths, { others: 1, foldsNames: true })).toEqual(apart);
  // The first scan saw `model.pt` and `run/` alone.
  mkdirSync(join(folder, "run"));
  writeFileSync(join(folder, "model.pt"), "");
  const later = [
    "model.pt",
    "Model.pt~~",
    "MODEL.pt~",
    "run/a",
    "run/b",
    "Run~/a",
    "é.pt~",
    "e\u0301.pt",
    "NODE1~/x",
    "other.pt",
  ];
  expect(await namesAtHome(paths, { others: 1, foldsNames: true })).toEqual(later);
});

it("a name never takes the place of a local file in another case that the machine does not have any more", async () => {
  mkdirSync(join(folder, "Ckpt"));
  for (const name of ["Best.pt", "LAST.pt", "Last.pt~", "cafe\u0301.pt", "Ckpt/a"])
    writeFileSync(join(folder, name), "");
  const paths = ["best.pt", "last.pt", "caf\u00e9.pt", "ckpt/a", "ckpt/b"];
  const apart = ["best.pt~", "last.pt~~", "caf\u00e9.pt", "ckpt~/a", "ckpt~/b"];
  expect(await namesAtHome(paths, { others: 0, foldsNames: false })).toEqual(paths);
  expect(await namesAtHome(paths, { others: 0, foldsNames: true })).toEqual(apart);
  writeFileSync(join(folder, "best.pt~"), "");
  expect(await namesAtHome(paths, { others: 0, foldsNames: true })).toEqual(apart);
  const both = ["BEST.pt", "Best.pt", "best.pt"];
  expect(await namesAtHome(both, { others: 0, foldsNames: true })).toEqual(["BEST.pt~~", "Best.pt", "best.pt~"]);
});

it("neither a folder nor a file of node 0 that is called like the folder of node 1 takes anything from node 1", async () => {
  for (const own of ["node1", "node1/model.pt"]) {
    const top = mkdtempSync(join(folder, "run-"));
    const [home, zero, one] = ["home", "zero", "one"].map((name) => join(top, name)) as [string, string, string];
    for (const path of [join(home, "node1"), dirname(join(zero, own)), one]) mkdirSync(path, { recursive: true });
    writeFileSync(join(zero, own), "of node 0");
    writeFileSync(join(one, "model.pt"), "of node 1");
    const { signal } = new AbortController();
    for (const [node, there] of [one, zero].entries()) {
      const place = { node: 1 - node, nodes: 2, placement: 1, checkpoints: home };
      const targetDir = node === 0 ? join(home, "node1") : home;
      const collector = new CheckpointCollector({ targetDir, now: () => 0, place });
      const host = {
        listCheckpoints: () => listFiles(there, signal),
        fetchCheckpoint: (f: RemoteFile, target: string) => fetchFile(there, f, target),
      };
      const named = withHomeNames(host, new Redactor([]), collector.home);
      expect((await collector.scan(named, { final: true, announced: new Set() })).saved).toHaveLength(1);
    }
    expect(readFileSync(join(home, "node1/model.pt"), "utf8")).toBe("of node 1");
    expect(readFileSync(join(home, own.replace("node1", "node1~")), "utf8")).toBe("of node 0");
  }
});

it("a folder of this computer is asked whether it tells names apart that differ only in case", async () => {
  const folds = existsSync(folder.toUpperCase());
  expect(await namesAtHome(["A", "a"], { others: 0 })).toEqual(folds ? ["A", "a~"] : ["A", "a"]);
});
