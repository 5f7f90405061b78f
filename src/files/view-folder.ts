// Lists the folders and the scripts of one folder, for a person who chooses a project directory and an entrypoint.

import { readdir, realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { SvcError, systemCode } from "../errors/index.ts";
import type { Folder } from "../schemas/folder.ts";
import { madeAgain } from "./listing/protections.ts";

const FOLDERS_MAX = 500;
const SCRIPTS_MAX = 200;
/** Folders whose scripts are listed as well. */
const LOOKED_INTO_MAX = 50;

/** A run never starts with a file of these names. */
const NO_SCRIPT = /^(?:__init__|conftest|setup)\.py$|^test_|_test\.py$/;

/** The content of the folder at `path`. Throws `project_dir_refused` if it is not a readable folder. */
export async function viewFolder(path: string): Promise<Folder> {
  const { real, entries } = await read(path);
  const { folders, scripts } = partsOf(entries);
  const looked = folders.slice(0, LOOKED_INTO_MAX);
  const inside = await Promise.all(
    looked.map(async (name) => {
      const found = await readdir(join(real, name), { withFileTypes: true }).catch(() => []);
      return partsOf(found).scripts.map((script) => `${name}/${script}`);
    }),
  );
  const all = [...scripts, ...inside.flat()];
  const parent = dirname(real);
  return {
    path: real,
    parent: parent === real ? null : parent,
    folders: folders.slice(0, FOLDERS_MAX),
    scripts: all.slice(0, SCRIPTS_MAX),
    truncated: folders.length > FOLDERS_MAX || all.length > SCRIPTS_MAX || folders.length > looked.length,
  };
}

interface Entry {
  name: string;
  isDirectory: () => boolean;
  isFile: () => boolean;
}

async function read(path: string): Promise<{ real: string; entries: Entry[] }> {
  try {
    const real = await realpath(resolve(path));
    return { real, entries: await readdir(real, { withFileTypes: true }) };
  } catch (cause) {
    const code = systemCode(cause);
    const why = WHY_NOT[code ?? ""] ?? `cannot be read: ${code ?? "unknown reason"}`;
    throw new SvcError("project_dir_refused", { project_dir: path, why }, { cause });
  }
}

const WHY_NOT: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "is not a folder",
  EACCES: "cannot be read: permission denied",
};

function partsOf(entries: readonly Entry[]): { folders: string[]; scripts: string[] } {
  const shown = entries.filter(({ name }) => !name.startsWith(".")).sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    folders: shown.filter((each) => each.isDirectory() && !madeAgain.decide(each.name, true)).map(({ name }) => name),
    scripts: shown
      .filter((each) => each.isFile() && /\.(?:py|sh)$/.test(each.name) && !NO_SCRIPT.test(each.name))
      .map(({ name }) => name),
  };
}
