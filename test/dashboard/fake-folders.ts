// Folders of the computer that the fake server plays.

import { dirname, join } from "node:path";
import type { Folder } from "../../src/schemas/folder.ts";
import { HOSTILE } from "./hostile.ts";

const TREE: Readonly<Record<string, readonly string[]>> = {
  "/home/me": ["project", HOSTILE],
  "/home/me/project": ["configs", "src"],
};
const SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  "/home/me/project": ["train.py", "src/evaluate.py"],
};

export function fakeFolder(path: string): Folder {
  const real = join(path);
  return {
    path: real,
    parent: real === "/" ? null : dirname(real),
    folders: [...(TREE[real] ?? [])],
    scripts: [...(SCRIPTS[real] ?? [])],
    truncated: false,
  };
}
