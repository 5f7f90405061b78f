// Which files of a run that works in place are copied, hashed, or recorded by their time.

import { expect, it } from "vitest";
import { keepingsOf } from "../../src/files/code/code-or-data.ts";
import type { ProjectFile } from "../../src/files/listing/measured-project.ts";

const KIB = 1024;
const MIB = 1024 ** 2;
const file = (path: string, size: number): ProjectFile => ({ path, size, executable: false, mtimeMs: 0 });

it("Code is copied, and so is small data; a large file and one of a format for data is data", () => {
  const files = [file("train.py", 300 * KIB), file("labels.csv", 64 * KIB), file("labels-2.CSV", 65 * KIB)];
  expect(keepingsOf([...files, file("notes", 8 * MIB), file("dump", 8 * MIB + 1)])).toEqual([
    "copy",
    "copy",
    "digest",
    "copy",
    "digest",
  ]);
});

it("Of data, small files are hashed up to a bound for all; of the others only size and time are recorded", () => {
  const files = Array.from({ length: 5 }, (_, i) => file(`part-${i}.npz`, 60 * MIB));
  expect(keepingsOf([file("all.npz", 64 * MIB + 1), ...files])).toEqual(["time", ...Array(4).fill("digest"), "time"]);
});

it("Beyond the bound of all copies only small files are copied", () => {
  const files = Array.from({ length: 33 }, (_, i) => file(`generated-${i}.py`, 8 * MIB));
  const keepings = keepingsOf([...files, file("train.py", KIB)]);
  expect(keepings).toEqual([...Array(32).fill("copy"), "digest", "copy"]);
});
