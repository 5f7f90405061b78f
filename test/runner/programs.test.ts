// The runner and the agent: folders of modules that become one file each.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { placedProgram, pythonProgram } from "../../src/platform/python-program.ts";
import { python } from "./harness.ts";
import { agentPath, runnerPath } from "./programs.ts";

const scratch = mkdtempSync(join(tmpdir(), "svc-programs-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let count = 0;
function folderOf(modules: Record<string, string>): string {
  const folder = join(scratch, String(++count), "tool");
  mkdirSync(folder, { recursive: true });
  const future = "from __future__ import annotations\n\n";
  for (const [name, text] of Object.entries({ __init__: '"""A tool."""\n', ...modules }))
    writeFileSync(join(folder, `${name}.py`), name === "__init__" ? text : future + text);
  return folder;
}

/**
 * Prints, per module, the violations of P2 of src/platform/python-program.ts; and every name that two modules define.
 */
const FAULTS = `
import ast, pathlib, sys
seen = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    top = list(tree.body)
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node not in top or node.level != 1 or not node.module or any(n.asname or n.name == "*" for n in node.names):
                print(path.name, "imports a module of its own in another way, line", node.lineno)
    for node in top:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own.update(t.id for t in targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
            print(path.name, "takes names out of", node.module)
    for name in own - {"TYPE_CHECKING"}:
        if name in seen:
            print(name, "is defined in", seen[name], "and", path.name)
        seen[name] = path.name
    if len(path.read_text().split("\\n")) > 460:
        print(path.name, "is too long")
`;

describe.each(["svc_runner", "svc_agent", "svc_gate"])("the modules of %s", (name) => {
  const folder = resolve(import.meta.dirname, "../../runner", name);

  it("share one namespace without a clash, in the syntax of Python 3.8", () => {
    expect(execFileSync(python, ["-c", FAULTS, folder], { encoding: "utf8" })).toBe("");
  });

  it("are all part of the program", () => {
    const modules = readdirSync(folder).filter((file) => file.endsWith(".py") && file !== "__init__.py");
    const parts = [...pythonProgram(folder).text.toString().matchAll(/^# ---- (\w+\.py)$/gm)].map(([, part = ""]) => part);
    expect(parts.toSorted()).toEqual(modules.toSorted());
  });

  it("import names of each other only, and the standard library", () => {
    const { text } = pythonProgram(folder);
    expect(text.toString()).not.toMatch(/^\s*(?:from|import) \./m);
  });
});

it("The program of a folder is one module with the package's docstring, whose parts see each other", () => {
  const folder = folderOf({
    words: "GREETING = 'hello'\n",
    speak: "from .words import (\n    GREETING,\n)\n\n\ndef speak():\n    return GREETING\n",
    main: "from .speak import speak\nfrom .words import GREETING\n\nprint(__doc__, speak(), GREETING)\n",
  });
  const path = placedProgram(pythonProgram(folder), join(scratch, "placed"));
  expect(execFileSync(python, ["-I", "-S", path], { encoding: "utf8" })).toBe("A tool. hello hello\n");
});

it("Modules that need each other, and a module that is missing, are refused", () => {
  const circle = folderOf({ main: "from .a import b\n", a: "from .main import c\n" });
  expect(() => pythonProgram(circle)).toThrow("needs itself");
  expect(() => pythonProgram(folderOf({ main: "from .gone import b\n" }))).toThrow("ENOENT");
});

it("An installed program is kept while it is intact, replaced if it is damaged, and removed with the next version", () => {
  const folder = folderOf({ main: "print(1)\n" });
  const place = join(scratch, "versions");
  const first = placedProgram(pythonProgram(folder), place);
  writeFileSync(first, "damaged");
  expect(placedProgram(pythonProgram(folder), place)).toBe(first);
  expect(readFileSync(first, "utf8")).toContain("print(1)");
  writeFileSync(join(folder, "main.py"), "from __future__ import annotations\n\nprint(2)\n");
  const second = placedProgram(pythonProgram(folder), place);
  expect(second).not.toBe(first);
  expect([existsSync(first), readdirSync(place).length]).toEqual([false, 1]);
});

it.each([
  ["the runner", runnerPath, ["json", "signal", "typing", "re", "subprocess", "ctypes"]],
  ["the agent", agentPath, ["typing", "subprocess", "hashlib", "shutil"]],
])("%s imports heavy modules only when they are used", (_, path, heavy) => {
  const load = `import sys; sys.path.insert(0, ${JSON.stringify(join(path, ".."))})
__import__(${JSON.stringify(path.endsWith("svc_runner.py") ? "svc_runner" : "svc_agent")})
print([name for name in ${JSON.stringify(heavy)} if name in sys.modules])`;
  const { stdout, stderr } = spawnSync(python, ["-I", "-S", "-c", load], { encoding: "utf8" });
  expect([stdout, stderr]).toEqual(["[]\n", ""]);
});
