// Common layouts of projects, each really installed by pip from its registry, and started. Needs no torch.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkEntrypoint } from "../../src/files/entrypoint.ts";
import { listProject } from "../../src/files/listing/project-listing.ts";
import { directoryReader } from "../../src/files/install/project-reader.ts";
import { installOf, type Install } from "../../src/steps/launch/install-command.ts";
import { installWarnings } from "../../src/steps/launch/failure-message.ts";

const PACKAGE = join(import.meta.dirname, "..", "..", "python", "svc");
const PYTHON = process.env["SVC_PYTHON"] ?? "python3";
const SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n';
/** A small package of pure Python, without dependencies. */
const DEP = "peppercorn";
const SCRIPT = `import ${DEP}, mine\nprint("mine", mine.X)\n`;

interface Layout {
  files: Record<string, string>;
  entrypoint?: string;
  /** The script's output. */
  prints?: string;
  warns?: RegExp;
}

const LAYOUTS: Record<string, Layout> = {
  "flat, with one package": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\ndependencies = ["${DEP}"]\n${SETUPTOOLS}`,
      "mine/__init__.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "src, started from a folder of scripts": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\ndependencies = ["${DEP}"]\n${SETUPTOOLS}`,
      "src/mine/__init__.py": "X = 1\n",
      "scripts/train.py": SCRIPT,
    },
    entrypoint: "scripts/train.py",
  },
  "two top-level folders, which setuptools refuses": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\ndependencies = ["${DEP}"]\n`,
      "mine/__init__.py": "X = 1\n",
      "configs/__init__.py": "",
      "scripts/train.py": SCRIPT,
    },
    entrypoint: "scripts/train.py",
    warns: /could not be built .*top-level packages.*the project's folder is put on Python's path/,
  },
  "poetry, with a lock": {
    files: {
      "pyproject.toml": `[tool.poetry]\nname = "mine"\nversion = "1"\ndescription = ""\nauthors = []\n[tool.poetry.dependencies]\npython = "^3.8"\n${DEP} = "*"\n[tool.poetry.group.dev.dependencies]\nno-such-package-of-svc = "*"\n[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n`,
      "poetry.lock": `[[package]]\nname = "${DEP}"\nversion = "0.5"\n`,
      "mine/__init__.py": "X = 1\n",
      "train.py": `from importlib.metadata import version\n${SCRIPT}print(version("${DEP}"))\n`,
    },
    prints: "mine 1\n0.5",
  },
  "uv, without a lock and without a build": {
    files: {
      "pyproject.toml": `[project]\nname = "app"\nversion = "1"\ndependencies = ["${DEP}"]\n[tool.uv]\ndev-dependencies = ["no-such-package-of-svc"]\n`,
      "mine.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "setup.py alone": {
    files: {
      "setup.py": `from setuptools import setup\nsetup(name="mine", version="1", packages=["mine"], install_requires=["${DEP}"])\n`,
      "mine/__init__.py": "X = 1\n",
      "scripts/train.py": SCRIPT,
    },
    entrypoint: "scripts/train.py",
  },
  "setup.py that cannot be built": {
    files: {
      "setup.py": `from setuptools import setup, Extension\nsetup(name="mine", version="1", packages=["mine"], install_requires=["${DEP}"], ext_modules=[Extension("mine.fast", ["mine/fast.c"])])\n`,
      "mine/__init__.py": "X = 1\n",
      "mine/fast.c": "#error no\n",
      "scripts/train.py": SCRIPT,
    },
    entrypoint: "scripts/train.py",
    warns: /could not be built/,
  },
  "setup.cfg alone": {
    files: {
      "setup.cfg": `[metadata]\nname = mine\nversion = 1\n[options]\npackages = mine\ninstall_requires =\n    ${DEP}\n`,
      "mine/__init__.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "a version from git (setuptools-scm)": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\ndynamic = ["version"]\ndependencies = ["${DEP}"]\n[build-system]\nrequires = ["setuptools", "setuptools-scm"]\nbuild-backend = "setuptools.build_meta"\n[tool.setuptools_scm]\n`,
      "mine/__init__.py": "X = 1\n",
      "scripts/train.py": `from importlib.metadata import version\n${SCRIPT}print(version("mine"))\n`,
    },
    entrypoint: "scripts/train.py",
    prints: "mine 1\n1.2.3",
  },
  "a version from git (hatch-vcs)": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\ndynamic = ["version"]\ndependencies = ["${DEP}"]\n[build-system]\nrequires = ["hatchling", "hatch-vcs"]\nbuild-backend = "hatchling.build"\n[tool.hatch.version]\nsource = "vcs"\n`,
      "mine/__init__.py": "X = 1\n",
      "scripts/train.py": `from importlib.metadata import version\n${SCRIPT}print(version("mine"))\n`,
    },
    entrypoint: "scripts/train.py",
    prints: "mine 1\n1.2.3",
  },
  "a backend that does not exist": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\ndependencies = ["${DEP}"]\n[build-system]\nrequires = ["no-such-backend-of-svc"]\nbuild-backend = "x"\n`,
      "src/mine/__init__.py": "X = 1\n",
      "train.py": SCRIPT,
    },
    warns: /could not be built .*src and the project's folder are put on Python's path/,
  },
  "tools alone in pyproject.toml, and requirements.txt": {
    files: {
      "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
      "requirements.txt": `${DEP}\n`,
      "mine.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "requirements.txt and pyproject.toml, both": {
    files: {
      "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\n${SETUPTOOLS}`,
      "requirements.txt": `${DEP}\n`,
      "src/mine/__init__.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "groups alone (PEP 735)": {
    files: {
      "pyproject.toml": `[dependency-groups]\ntrain = ["${DEP}"]\n`,
      "mine.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "a folder of requirements": {
    files: {
      "requirements/base.txt": `${DEP}\n`,
      "requirements/dev.txt": "-r base.txt\nno-such-package-of-svc\n",
      "mine.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "a monorepo, whose part has its own": {
    files: {
      "pyproject.toml": "[tool.black]\n",
      "apps/train/pyproject.toml": `[project]\nname = "train"\nversion = "1"\ndependencies = ["${DEP}", "mine"]\n[tool.uv.sources]\nmine = { path = "../../libs/mine" }\n`,
      "apps/train/train.py": SCRIPT,
      "libs/mine/pyproject.toml": `[project]\nname = "mine"\nversion = "1"\n${SETUPTOOLS}`,
      "libs/mine/mine/__init__.py": "X = 1\n",
    },
    entrypoint: "apps/train/train.py",
  },
  "a Pipfile with its lock": {
    files: {
      Pipfile: `[[source]]\nurl = "https://pypi.org/simple"\nname = "pypi"\n[packages]\n${DEP} = "*"\n[dev-packages]\nno-such-package-of-svc = "*"\n`,
      "Pipfile.lock": JSON.stringify({ default: { [DEP]: { version: "==0.5", hashes: [] } } }),
      "mine.py": "X = 1\n",
      "train.py": SCRIPT,
    },
  },
  "a script that declares its own (PEP 723)": {
    files: {
      "mine.py": "X = 1\n",
      "train.py": `# /// script\n# requires-python = ">=3.8"\n# dependencies = ["${DEP}"]\n# ///\n${SCRIPT}`,
    },
  },
};

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-layout-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function put(files: Record<string, string>): string {
  const project = join(dir, "project");
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(project, name)), { recursive: true });
    writeFileSync(join(project, name), text);
  }
  return project;
}
const { PYTHONPATH: _, VIRTUAL_ENV: __, ...rest } = process.env;

async function decided(project: string, entrypoint: string, describe: string | null = null): Promise<Install> {
  const { files } = await listProject(project);
  const entry = await checkEntrypoint(project, entrypoint);
  const spec = { install: "auto", provider: "podhost", entrypoint } as const;
  return installOf(spec, {
    project: directoryReader(
      project,
      files.map((path) => ({ path })),
    ),
    entry,
    describe,
  });
}
function installed(project: string, install: Install, env: NodeJS.ProcessEnv = {}) {
  if (!("environment" in install)) throw new Error(JSON.stringify(install));
  const argv = ["-u", join(PACKAGE, "_install.py"), join(dir, "environment")];
  const recipe = { SVC_INSTALL_RECIPE: JSON.stringify(install.environment) };
  const run = spawnSync(PYTHON, argv, { cwd: project, env: { ...rest, ...env, ...recipe }, encoding: "utf8" });
  return { code: run.status, log: run.stdout + run.stderr };
}

describe("a project is installed and started", () => {
  it.each(Object.entries(LAYOUTS))(
    "%s",
    async (_name, { files, entrypoint = "train.py", prints = "mine 1", warns }) => {
      const project = put(files);
      const { code, log } = installed(project, await decided(project, entrypoint, "v1.2.3-0-gabcdef0"));
      expect(code, log).toBe(0);
      const python = join(dir, "environment", "bin", "python");
      const argv = ["-u", join(PACKAGE, "_launch.py"), "plain", "--", python, "-u", entrypoint];
      const out = execFileSync(python, argv, { cwd: project, env: rest, encoding: "utf8" });
      expect(
        out
          .split("\n")
          .filter((line) => !line.startsWith("svc: "))
          .join("\n")
          .trim(),
      ).toBe(prints);
      const warnings = installWarnings(log);
      if (warns) expect(warnings.at(-1)).toMatch(warns);
      else expect(warnings).toEqual([]);
    },
  );
});

it("an unavailable dependency ends the run with the reason, though the project itself could be built", async () => {
  const project = put({
    "pyproject.toml": `[project]\nname = "mine"\nversion = "1"\ndependencies = ["no-such-package-of-svc"]\n${SETUPTOOLS}`,
    "mine/__init__.py": "",
    "train.py": "",
  });
  const { code, log } = installed(project, await decided(project, "train.py"));
  expect([code, log.trimEnd().split("\n").at(-1)]).toEqual([
    1,
    "ERROR: No matching distribution found for no-such-package-of-svc",
  ]);
});

it("a machine without a network reports that, and not a missing package", async () => {
  const project = put({ "requirements.txt": "peppercorn\n", "train.py": "" });
  const env = {
    PIP_INDEX_URL: "http://127.0.0.1:9/simple",
    PIP_RETRIES: "1",
    PIP_NO_CACHE_DIR: "1",
    PIP_CONFIG_FILE: "/dev/null",
  };
  const { code, log } = installed(project, await decided(project, "train.py"), env);
  expect(code).not.toBe(0);
  expect(log.trimEnd().split("\n").at(-1)).toMatch(/^svc: the package index cannot be reached from this machine/);
});
