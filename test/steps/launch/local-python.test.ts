import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { localPython, type PythonPlace } from "../../../src/steps/launch/local-python.ts";

let project: string;
beforeEach(() => void (project = realpathSync(mkdtempSync(join(tmpdir(), "svc-local-python-")))));
afterEach(() => rmSync(project, { recursive: true, force: true }));

/** An environment in the project whose Python is a symlink to a program elsewhere. */
function environment(name: string): string {
  const bin = join(project, name, "bin");
  mkdirSync(bin, { recursive: true });
  const real = join(project, `python3.${name.length + 10}`);
  writeFileSync(real, "\x7fELF", { mode: 0o755 });
  symlinkSync(real, join(bin, "python"));
  return join(bin, "python");
}

const chosen = (spec: Partial<PythonPlace["spec"]>, named?: string): Promise<string> =>
  localPython({
    spec: { env: {}, entrypoint: "train.py", ...spec },
    projectDir: project,
    entry: named === undefined ? {} : { named },
    env: { PATH: "/nowhere" },
    otherwise: () => Promise.resolve("/svc/python"),
  });

it("The script's first line comes first, then `python` of the spec, then the Python of svc", async () => {
  const [first, second] = [environment("one"), environment("other")];
  expect(await chosen({ python: second }, first)).toBe(first);
  expect(await chosen({ python: second })).toBe(second);
  expect(await chosen({})).toBe("/svc/python");
});

it("The path is the environment's own, not that of the file behind its symlink", async () => {
  const own = environment("venv");
  for (const python of [own, "venv", "venv/bin/python"]) expect(await chosen({ python })).toBe(own);
});
