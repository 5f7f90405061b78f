// Makes one Python file of a folder of modules, and puts it where a Python can keep it compiled. The control plane does so with the
// runner and the agent (docs/internals/adr/0028): both must be one text, for a machine gets no more than that, and load in milliseconds.
//
// P1. `__init__.py` gives the docstring. The other modules follow in the order in which `main.py` needs them, each once.
// P2. Modules import names of each other by `from .module import name` at the top, and nothing else of the package: then their names
//     can share one namespace. test/runner/programs.test.ts holds them to it.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { assert } from "../errors/assert.ts";
import { replaceFile } from "./replace-file.ts";

export interface PythonProgram {
  /** The name of the folder, and of the module that it becomes. */
  name: string;
  text: Buffer;
  /** SHA-256 of the text, in hexadecimal. */
  digest: string;
}

const FUTURE = "from __future__ import annotations\n";
const OWN_IMPORT = /^from \.(\w+) import (?:\([^)]*\)|[^(\n]*)\n/gm;

/** Throws where a module is missing or two modules need each other: a checkout or an installation that is damaged. */
export function pythonProgram(folder: string): PythonProgram {
  const parts: string[] = [];
  const state = new Map<string, "open" | "done">();
  const add = (name: string): void => {
    if (state.get(name) === "done") return;
    assert(state.get(name) !== "open", `the module ${name} of ${folder} needs itself`);
    state.set(name, "open");
    const text = readFileSync(join(folder, `${name}.py`), "utf8");
    for (const [, needed = ""] of text.matchAll(OWN_IMPORT)) add(needed);
    parts.push(`# ---- ${name}.py\n\n${text.replace(FUTURE, "").replaceAll(OWN_IMPORT, "")}`);
    state.set(name, "done");
  };
  add("main");
  const docstring = readFileSync(join(folder, "__init__.py"), "utf8");
  const text = Buffer.from([docstring, FUTURE, ...parts].join("\n"));
  return { name: basename(folder), text, digest: createHash("sha256").update(text).digest("hex") };
}

/** The path of the program as a file below `folder`, in a folder of its digest. Versions of other releases are removed. */
export function placedProgram({ name, text, digest }: PythonProgram, folder: string): string {
  const own = join(folder, digest.slice(0, 16));
  const file = join(own, `${name}.py`);
  if (existsSync(file) && readFileSync(file).equals(text)) return file;
  mkdirSync(own, { recursive: true, mode: 0o700 });
  replaceFile(file, text);
  for (const other of readdirSync(folder))
    if (join(folder, other) !== own) rmSync(join(folder, other), { recursive: true, force: true });
  return file;
}
