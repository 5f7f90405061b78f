import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemClock } from "../../src/domain/clock.ts";
import { fetchBlob } from "../../src/hub/fetch-blob.ts";
import { PATIENCE, Pulling } from "./pulling.ts";

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

test("a large file is synced to disk in parts during the download, and again at its end", async () => {
  const syncs = vi.spyOn(handles, "datasync");
  const { path } = await p.pull("ann/large");
  expect(readFileSync(join(path, "model.safetensors")).equals(WEIGHTS)).toBe(true);
  expect(syncs.mock.calls.length).toBe(2);
});

test("a download never reports more bytes than its file holds, so that kill -9 loses none that were reported", async () => {
  const places = { whole: join(p.home, "whole"), partial: join(p.home, "partial") };
  const sha256 = createHash("sha256").update(WEIGHTS).digest("hex");
  const file = { path: "model.bin", size: WEIGHTS.length, oid: "0".repeat(40), sha256, xetHash: null };
  async function* read(): AsyncIterable<Buffer> {
    for (let at = 0; at < WEIGHTS.length; at += MIB) yield WEIGHTS.subarray(at, at + MIB);
  }
  const missing: number[] = [];
  let reported = 0;
  const moved = (bytes: number): void => {
    reported += bytes;
    missing.push(Math.max(0, reported - statSync(places.partial).size));
  };
  await fetchBlob(file, places, {
    open: () =>
      Promise.resolve({
        status: 200,
        headers: {},
        hub: {},
        elsewhere: false,
        host: "",
        read,
        discard: () => undefined,
      }),
    moved,
    clock: systemClock,
    patience: PATIENCE,
    signal: new AbortController().signal,
    random: () => 0.5,
  });
  expect(missing.length).toBeGreaterThan(5);
  expect(Math.max(...missing)).toBe(0);
  expect(reported).toBe(WEIGHTS.length);
});

test.each(["a part", "the end"])(
  "a disk that fails at %s of a file leaves nothing that the next pull would believe",
  async (at) => {
    const syncs = vi.spyOn(handles, "datasync");
    if (at === "the end") syncs.mockImplementationOnce(() => Promise.resolve());
    syncs.mockImplementationOnce(() => Promise.reject(broken()));
    await expect(p.pull("ann/large")).rejects.toThrow("EIO");
    expect(partials().map((name) => statSync(join(p.home, name)).size)).toEqual([0]);
    const { path } = await p.pull("ann/large");
    expect(readFileSync(join(path, "model.safetensors")).equals(WEIGHTS)).toBe(true);
    expect(partials()).toEqual([]);
  },
);
