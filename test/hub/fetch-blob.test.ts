import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Pulling } from "./pulling.ts";

const MIB = 1024 * 1024;
const WEIGHTS = randomBytes(40 * MIB);

let p: Pulling;
let handles: FileHandle;
beforeEach(async () => {
  p = await new Pulling().open();
  p.hub.commit("ann/large", { "model.safetensors": WEIGHTS });
  const any = await open("/dev/null");
  handles = Object.getPrototypeOf(any) as FileHandle;
  await any.close();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await p.close();
});

const partials = (): string[] =>
  readdirSync(p.home, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".incomplete"));
const broken = (): Error => Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" });

test("a large file goes to the disk in parts while it comes, and once more at its end", async () => {
  const syncs = vi.spyOn(handles, "datasync");
  const { path } = await p.pull("ann/large");
  expect(readFileSync(join(path, "model.safetensors")).equals(WEIGHTS)).toBe(true);
  expect(syncs.mock.calls.length).toBe(2);
});

test.each(["a part", "the end"])(
  "a disk that fails at %s of a file leaves nothing that the next pull would believe",
  async (at) => {
    const syncs = vi.spyOn(handles, "datasync");
    if (at === "the end") syncs.mockImplementationOnce(() => Promise.resolve());
    syncs.mockImplementationOnce(() => Promise.reject(broken()));
    await expect(p.pull("ann/large")).rejects.toThrow();
    expect(partials().map((name) => statSync(join(p.home, name)).size)).toEqual([0]);
    const { path } = await p.pull("ann/large");
    expect(readFileSync(join(path, "model.safetensors")).equals(WEIGHTS)).toBe(true);
    expect(partials()).toEqual([]);
  },
);
