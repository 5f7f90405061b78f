// The install step's script, with a real pip; needs no torch.

import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { InstallRecipe } from "../../src/schemas/install.ts";
import { failingLine } from "../../src/steps/launch/failure-message.ts";
import { TORCH_PYTHON } from "./plane.ts";

const SCRIPT = join(import.meta.dirname, "..", "..", "python", "svc", "_install.py");
const PYTHON = process.env["SVC_PYTHON"] ?? "python3";
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-install-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const at = (...names: string[]): string => join(dir, ...names);
function put(name: string, text: string): void {
  mkdirSync(join(at(name), ".."), { recursive: true });
  writeFileSync(at(name), text);
}
/** A base Python with a fake torch: a file with its version. It stands for an image's Python. */
function image(torch: string | null): string {
  execFileSync(PYTHON, ["-m", "venv", at("image")]);
  const python = at("image", "bin", "python");
  if (torch !== null) {
    const where = execFileSync(python, ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], {
      encoding: "utf8",
    });
    fakeTorch(where.trim(), torch);
  }
  return python;
}
function fakeTorch(folder: string, version: string, cuda = "'12.4'"): void {
  mkdirSync(join(folder, "torch"), { recursive: true });
  const code = `__version__ = "${version}"\nclass version: cuda, hip = ${cuda}, None\nclass cuda:\n    is_available = staticmethod(lambda: version.cuda is not None)\n`;
  writeFileSync(join(folder, "torch", "__init__.py"), code);
  mkdirSync(join(folder, `torch-${version}.dist-info`), { recursive: true });
  writeFileSync(
    join(folder, `torch-${version}.dist-info`, "METADATA"),
    `Metadata-Version: 2.1\nName: torch\nVersion: ${version}\n`,
  );
  writeFileSync(join(folder, `torch-${version}.dist-info`, "INSTALLER"), "image\n");
}
/** A wheel made by hand: a ZIP of a module and its metadata. */
function wheel(name: string, files: Record<string, string>, version = "1.0"): void {
  mkdirSync(at("wheels"), { recursive: true });
  const info = `${name}-${version}.dist-info`;
  const all = {
    ...files,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`,
    [`${info}/WHEEL`]: "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    [`${info}/RECORD`]: "",
  };
  const code =
    "import json, sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n    for n, t in json.loads(sys.argv[2]).items(): z.writestr(n, t)";
  execFileSync(PYTHON, ["-c", code, at("wheels", `${name}-${version}-py3-none-any.whl`), JSON.stringify(all)]);
}
const RECIPES: Record<string, InstallRecipe> = {
  "requirements.txt": {
    steps: [{ do: "requirements", folder: "", file: "requirements.txt" }],
    files: ["requirements.txt"],
  },
  "pyproject.toml": {
    steps: [
      {
        do: "packages",
        folder: "",
        file: "pyproject.toml",
        packages: ["tiny"],
        constraints: [],
        indexes: [],
      },
      { do: "project", folder: "", file: "pyproject.toml", version: "1.2.3", dynamic: false, paths: ["src", ""] },
    ],
    files: ["pyproject.toml"],
  },
  "environment.yml": { steps: [{ do: "conda", folder: "", file: "environment.yml" }], files: ["environment.yml"] },
  "uv.lock": {
    steps: [{ do: "uv", folder: "", name: null, version: "0.0.0", all: false, paths: [""] }],
    files: ["uv.lock"],
  },
};
function install(python: string, kind: keyof typeof RECIPES, env: NodeJS.ProcessEnv = {}) {
  mkdirSync(at("project"), { recursive: true });
  const { PYTHONPATH: _, ...rest } = process.env;
  const run = spawnSync(python, ["-u", SCRIPT, at("environment")], {
    cwd: at("project"),
    env: {
      ...rest,
      SVC_INSTALL_RECIPE: JSON.stringify(RECIPES[kind]),
      PIP_NO_INDEX: "1",
      PIP_FIND_LINKS: at("wheels"),
      ...env,
    },
    encoding: "utf8",
  });
  return { code: run.status, log: run.stdout + run.stderr };
}
const inside = (code: string): string =>
  execFileSync(at("environment", "bin", "python"), ["-c", code], { encoding: "utf8" }).trim();

describe("requirements.txt", () => {
  it("goes into an environment that keeps the image's torch; nothing is repeated without a change", () => {
    wheel("tiny", { "tiny.py": "X = 1\n" });
    wheel("small", { "small.py": "X = 2\n" });
    put("project/requirements.txt", "tiny\ntorch>=2.0\n");
    // A vendor's build before a release satisfies the requirement anyway.
    const python = image("2.6.0a0+vendor");
    const first = install(python, "requirements.txt");
    expect(first.log).toContain("torch 2.6.0a0+vendor (CUDA 12.4)");
    expect(first.code).toBe(0);
    expect(inside("import tiny, torch; print(tiny.X, torch.__version__)")).toBe("1 2.6.0a0+vendor");

    expect(install(python, "requirements.txt")).toMatchObject({
      code: 0,
      log: expect.stringContaining("nothing has changed"),
    });
    put("project/requirements.txt", "tiny\nsmall\n");
    const again = install(python, "requirements.txt");
    expect(again.log).toContain("Successfully installed small-1.0");
    expect(inside("import small; print(small.X)")).toBe("2");
  });

  it("fails with pip's own last line if a package does not exist, and is tried again", () => {
    put("project/requirements.txt", "no-such-package\n");
    const python = image(null);
    for (let n = 0; n < 2; n++) {
      const { code, log } = install(python, "requirements.txt");
      expect(code).toBe(1);
      expect(log.trimEnd().split("\n").at(-1)).toBe("ERROR: No matching distribution found for no-such-package");
    }
  });

  it("fails with both versions if it would remove CUDA", () => {
    wheel(
      "torch",
      {
        "torch/__init__.py":
          "__version__ = '2.7.0'\nclass version: cuda, hip = None, None\nclass cuda:\n    is_available = staticmethod(lambda: False)\n",
      },
      "2.7.0",
    );
    put("project/requirements.txt", "torch==2.7.0\n");
    const { code, log } = install(image("2.6.0"), "requirements.txt");
    expect(code).toBe(1);
    expect(log.trimEnd().split("\n").at(-1)).toMatch(
      /^svc: CUDA is lost: the image has torch 2\.6\.0 \(CUDA 12\.4\), after installing it is 2\.7\.0 \(CPU only\); /,
    );
  });

  it("needs no pip if it names nothing", () => {
    put("project/requirements.txt", "# nothing\n");
    expect(install(image(null), "requirements.txt").code).toBe(0);
    expect(inside("print(1)")).toBe("1");
  });
});

describe("a project", () => {
  const METADATA =
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "mine"\ndynamic = ["version"]\n';

  it("is built without .git, with the version that svc found, if its version comes from git", () => {
    wheel("tiny", { "tiny.py": "X = 1\n" });
    put("project/pyproject.toml", METADATA);
    put(
      "project/backend.py",
      `import os, zipfile
def build_wheel(folder, settings=None, metadata=None):
    version = os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"]
    name = "mine-%s-py3-none-any.whl" % version
    info = "mine-%s.dist-info/" % version
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("mine.py", "V = %r" % version)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: %s\\n" % version)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
build_editable = build_wheel
`,
    );
    const { code, log } = install(image(null), "pyproject.toml");
    expect(code, log).toBe(0);
    expect(inside("import mine, tiny; print(mine.V, tiny.X)")).toBe("1.2.3 1");
  });

  it("is added to Python's path, with its dependencies installed and a warning, if it cannot be built", () => {
    wheel("tiny", { "tiny.py": "X = 1\n" });
    put("project/pyproject.toml", METADATA);
    put("project/backend.py", 'raise RuntimeError("two folders, and none is named")\n');
    put("project/src/mine.py", "V = 2\n");
    put("project/beside.py", "V = 3\n");
    const { code, log } = install(image(null), "pyproject.toml");
    expect(code, log).toBe(0);
    expect(inside("import mine, beside, tiny; print(mine.V, beside.V, tiny.X)")).toBe("2 3 1");
    expect(log).toMatch(
      /The project could not be built \(.*\)\. Its dependencies are installed, and the run continues: src and the project's folder are put on Python's path instead\./,
    );
  });
});

it("environment.yml without conda names the remedy", () => {
  put("project/environment.yml", "dependencies: []\n");
  const { code, log } = install(image(null), "environment.yml", { PATH: "/usr/bin:/bin" });
  if (existsSync("/opt/conda/bin/conda")) return;
  expect([code, log.trimEnd().split("\n").at(-1)]).toEqual([
    1,
    "svc: environment.yml needs conda or mamba, and neither is on the machine: add a requirements.txt, or choose an image that has it",
  ]);
});

/** A separate uv: next to the Python of these checks, or on the PATH. */
const UV = [dirname(TORCH_PYTHON ?? ""), ...(process.env["PATH"] ?? "").split(":")]
  .map((folder) => join(folder, "uv"))
  .find((path) => path.startsWith("/") && existsSync(path));

it.skipIf(UV === undefined)("uv installs without pip, and leaves the image's torch alone", () => {
  wheel("tiny", { "tiny.py": "X = 1\n" });
  const at1 = `tiny @ file://${at("wheels", "tiny-1.0-py3-none-any.whl")}\n`;
  put("project/requirements.txt", `${at1}torch>=2.0\n`);
  for (const name of ["pip", "ensurepip"]) put(`none/${name}.py`, 'raise ImportError("not on this machine")\n');
  mkdirSync(at("bin"));
  symlinkSync(UV!, at("bin", "uv"));
  const env = { PATH: `${at("bin")}:/usr/bin:/bin`, PYTHONPATH: at("none"), UV_OFFLINE: "1" };
  const python = image("2.6.0a0+vendor");
  const { code, log } = install(python, "requirements.txt", env);
  expect(code, log).toBe(0);
  expect(inside("import tiny, torch; print(tiny.X, torch.__version__)")).toBe("1 2.6.0a0+vendor");

  put("project/requirements.txt", `${at1}tiny==2.0\n`);
  const failed = install(python, "requirements.txt", env);
  expect([failed.code === 0, failingLine(failed.log)]).toEqual([false, expect.stringMatching(/tiny.*tiny==2\.0/)]);
});

it("uv.lock omits packages that the image has with its torch of the same release, and goes where the run finds it", () => {
  put(
    "project/uv.lock",
    'name = "torch"\nversion = "2.6.0"\n\nname = "nvidia-nccl-cu12"\nversion = "2.21"\n\nname = "tqdm"\nversion = "4.0"\n',
  );
  // Replaces uv and records its arguments.
  put("bin/uv", '#!/bin/sh\necho "$UV_PROJECT_ENVIRONMENT $*" > "$SAID"\n');
  chmodSync(at("bin/uv"), 0o755);
  const said = at("said");
  const { code } = install(image("2.6.1+cu124"), "uv.lock", {
    PATH: `${at("bin")}:${process.env["PATH"]}`,
    SAID: said,
  });
  expect(code).toBe(0);
  expect(readFileSync(said, "utf8").trim()).toBe(
    `${at("environment")} sync --frozen --inexact --python ${at("environment", "bin", "python")} --no-install-package torch --no-install-package nvidia-nccl-cu12`,
  );
});
