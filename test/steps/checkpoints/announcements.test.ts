import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RemoteFile } from "../../../src/providers/host.ts";
import {
  announcedIn,
  isAsAnnounced,
  lineOf,
  ofPlacement,
  readAnnounced,
  shortened,
} from "../../../src/steps/checkpoints/announcements.ts";

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "svc-announced-"))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("readAnnounced returns the announcements of complete lines, and counts repeated ones", async () => {
  const later = [
    { path: "x", step: 7, at: 5_000 },
    { path: "z", step: null, at: 6_000 },
    { path: "./z", step: null, at: null },
  ].map((each, i) => lineOf(each, i + 1).trimEnd());
  writeFileSync(join(dir, "a.jsonl"), ['"./x/"', '"y"', "17", ...later, '"cut'].join("\n"));
  const found = await readAnnounced(join(dir, "a.jsonl"));
  const { times, steps, at, placements } = found;
  expect([...times]).toEqual([
    ["x", 2],
    ["y", 1],
    ["z", 2],
  ]);
  expect([...steps]).toEqual([["x", 7]]);
  expect([...at]).toEqual([["x", 5_000]]);
  expect([...placements]).toEqual([
    ["x", 1],
    ["z", 3],
  ]);
  expect(announcedIn(shortened(found))).toEqual(found);
  expect((await readAnnounced(join(dir, "none"))).times.size).toBe(0);
});

it("AN1, AN3: an announcement covers the files that are not newer, and all if it has no time", () => {
  const file = (path: string, mtimeMs: number): RemoteFile => ({ path, size: 1, mtimeMs, inode: 1 });
  const at = new Map([
    ["a", 5_000],
    ["a/b", 7_000],
  ]);
  expect(isAsAnnounced(file("a/x", 5_001.9), new Set(["a"]), at)).toBe(true);
  expect(isAsAnnounced(file("a/x", 5_003), new Set(["a"]), at)).toBe(false);
  expect(isAsAnnounced(file("a/b/x", 6_000), new Set(["a", "a/b"]), at)).toBe(true);
  expect(isAsAnnounced(file("c/x", 9_000), new Set(["c"]), at)).toBe(true);
  expect(isAsAnnounced(file("d/x", 1_000), new Set(["a"]), at)).toBe(false);
  expect(isAsAnnounced(file("d/x", 1_000), new Set(), at)).toBe(false);
});

it("AN4: the announcements of another placement do not count, and one without a placement does", () => {
  const names = (map: ReadonlyMap<string, number>): string[] => [...map.keys()];
  const said = announcedIn(
    [...["a", "b"].map((path, i) => lineOf({ path, step: null, at: 5_000 }, i + 1)), '{"path":"c","at":1}\n'].join(""),
  );
  expect(names(ofPlacement(said, 2).times)).toEqual(["b", "c"]);
  expect(names(ofPlacement(said, 2).at)).toEqual(["b", "c"]);
  expect(names(ofPlacement(said, 1).times)).toEqual(["a", "c"]);
});
