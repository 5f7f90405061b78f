// A pull into a folder in which other programs write and remove files meanwhile.

import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { TINY_MODEL, Pulling, pulledFiles } from "./pulling.ts";

let p: Pulling;
beforeEach(async () => {
  p = await new Pulling().open();
});
afterEach(() => p.close());

it("A pull keeps what was saved in the old folder meanwhile, unless the model has the file or the new folder a newer one", async () => {
  p.hub.commit("ann/tiny", TINY_MODEL);
  const { path } = await p.pull("ann/tiny");
  const old = join(p.home, "models/ann/.tiny.svc-inst0001/old");
  cpSync(path, old, { recursive: true });
  const put = (folder: string, name: string, text: string, at: number): void => {
    mkdirSync(join(folder, "own"), { recursive: true });
    writeFileSync(join(folder, name), text);
    utimesSync(join(folder, name), at, at);
  };
  const now = Date.now() / 1_000;
  // An editor renames a new file over the old one; the new folder has a link to the former.
  put(path, "own/saved.txt", "version 1", now - 60);
  put(old, "own/saved.txt", "version 2", now - 30);
  put(path, "saved-later.txt", "version 2", now - 30);
  put(old, "saved-later.txt", "version 1", now - 60);
  // The bookkeeping would take it for the model's.
  const since = statSync(join(path, "config.json")).mtimeMs / 1_000;
  put(old, "config.json", "x".repeat(TINY_MODEL["config.json"].length), since + 0.5);
  await p.pull("ann/tiny");
  const texts = ["own/saved.txt", "saved-later.txt", "config.json"].map((name) =>
    readFileSync(join(path, name), "utf8"),
  );
  expect(texts).toEqual(["version 2", "version 2", TINY_MODEL["config.json"]]);
  expect(pulledFiles(path)).toEqual([...Object.keys(TINY_MODEL), "own/saved.txt", "saved-later.txt"].sort());
});

it("A pull is not stopped by a file of the folder that another program removes meanwhile", async () => {
  p.hub.commit("ann/tiny", TINY_MODEL);
  const folder = join(p.home, "mine");
  mkdirSync(folder);
  for (let i = 0; i < 1_000; i++) writeFileSync(join(folder, `${i}.txt`), "mine");
  const pulled = p.pull("ann/tiny", { local_dir: folder });
  const tree = join(p.home, ".mine.svc-inst0001/tree");
  await vi.waitUntil(() => existsSync(tree) && readdirSync(tree).length > 0, { timeout: DEADLINE_MS, interval: 1 });
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  expect(pulledFiles((await pulled).path)).toEqual(expect.arrayContaining(Object.keys(TINY_MODEL)));
});
