// Models that are on this computer already: the list, their removal, and paths that cannot be read.

import { lstatSync, mkdirSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TINY_MODEL, Pulling, pulledFiles, pullRefusal } from "./pulling.ts";

let p: Pulling;
beforeEach(async () => {
  p = await new Pulling().open();
});
afterEach(() => p.close());

describe("models on this computer", () => {
  it("are listed, and removed except in places that the user chose", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    p.hub.commit("gpt", TINY_MODEL);
    await p.pull("ann/tiny");
    await p.pull("gpt");
    const mine = await p.pull("ann/tiny", { local_dir: join(p.home, "mine") });
    expect((await p.pulls.models()).map((m) => [m.model_id, m.path.slice(p.home.length), m.source])).toEqual([
      ["ann/tiny", "/models/ann/tiny", "folder"],
      ["ann/tiny", "/mine", "folder"],
      ["gpt", "/models/gpt", "folder"],
    ]);
    expect(await p.pulls.remove("ann/tiny")).toEqual([join(p.home, "models/ann/tiny")]);
    expect(pulledFiles(mine.path)).toHaveLength(4);
    expect((await p.pulls.models()).map((m) => m.path.slice(p.home.length))).toEqual(["/mine", "/models/gpt"]);
    expect((await pullRefusal(p.pulls.remove("ann/tiny"))).code).toBe("hub_model_not_here");
  });
});

describe("an unreadable path", () => {
  /** A symlink to itself exists, and no user can read it, not even root. */
  const odd = (path: string): string => {
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(path, path);
    return path;
  };
  const isLeft = async (path: string, pull: Promise<unknown>): Promise<void> => {
    expect(await pullRefusal(pull)).toMatchObject({
      code: "hub_folder_refused",
      message: expect.stringContaining(`${path}: it cannot be looked at (ELOOP)`),
    });
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(p.hub.filesAsked("cdn")).toEqual([]);
  };

  it("does not count as a missing folder", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const target = odd(join(p.home, "models/mine"));
    await isLeft(target, p.pull("ann/tiny", { local_dir: target }));
  });

  it("does not count as a missing file: the owner's file is not replaced", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const target = join(p.home, "mine");
    await isLeft(odd(join(target, "model.safetensors")), p.pull("ann/tiny", { local_dir: target }));
  });

  it("does not count as missing content of the cache", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    p.settings.cacheDir = join(p.home, "shared");
    const { path } = await p.pull("ann/tiny", { allow_patterns: ["config.json"] });
    const blob = realpathSync(join(path, "config.json"));
    rmSync(blob);
    await isLeft(odd(blob), p.pull("ann/tiny"));
  });
});
