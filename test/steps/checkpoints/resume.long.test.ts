// A checkpoint of so many files that their list does not fit into the arguments of a call.

import { linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";

const FILES = 130_000;
/** A file has a limited number of names. */
const NAMES = 10_000;

it("a checkpoint may have very many files, for example one per chunk of an array", async () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-resume-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const chunk = (i: number): string => join(dir, "zarr", String(i));
  mkdirSync(join(dir, "zarr"));
  for (let i = 0; i < FILES; i++) {
    if (i % NAMES === 0) writeFileSync(chunk(i), "x");
    else linkSync(chunk(i - (i % NAMES)), chunk(i));
  }
  const found = await lastComplete({ job: "a", checkpoints: dir, announced: new Set(["zarr"]), nodes: 1 });
  expect([found?.name, found?.files.length]).toEqual(["zarr", FILES]);
}, 180_000);
