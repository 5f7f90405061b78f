import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { addData } from "../../../src/files/data/add.ts";
import { readManifest } from "../../../src/files/data/store.ts";
import { linkData } from "../../../src/steps/launch/place-data.ts";

let top: string;
beforeEach(() => void (top = realpathSync(mkdtempSync(join(tmpdir(), "svc-link-data-")))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

async function added(...paths: string[]) {
  const options = { home: join(top, "home"), now: 0, signal: new AbortController().signal };
  await addData({ name: "set", paths, followLinks: false }, options);
  return readManifest(options.home, "set");
}

it("Data of a run on this computer is a symlink to the original, also after a second attempt", async () => {
  const set = join(top, "set");
  mkdirSync(set);
  writeFileSync(join(set, "a"), "alpha");
  const data = await added(set);
  for (let attempt = 0; attempt < 2; attempt++) await linkData([data], join(top, "run"));
  expect(readlinkSync(join(top, "run/set"))).toBe(set);
});

it("Several paths are symlinks side by side in one folder", async () => {
  for (const name of ["a", "b"]) writeFileSync(join(top, name), name);
  await linkData([await added(join(top, "a"), join(top, "b"))], join(top, "run"));
  expect(lstatSync(join(top, "run/set")).isSymbolicLink()).toBe(false);
  for (const name of ["a", "b"]) {
    expect(readlinkSync(join(top, "run/set", name))).toBe(join(top, name));
    expect(readFileSync(join(top, "run/set", name), "utf8")).toBe(name);
  }
});

it("Data that has changed since the submission ends the run before it begins", async () => {
  writeFileSync(join(top, "a"), "1");
  const data = await added(join(top, "a"));
  writeFileSync(join(top, "a"), "22");
  await expect(linkData([data], join(top, "run"))).rejects.toMatchObject({ code: "data_changed" });
});
