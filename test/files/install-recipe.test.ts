import { describe, expect, it } from "vitest";
import { poetryVersion, scriptBlock, tableRequirements } from "../../src/domain/requirements.ts";
import { installRecipe } from "../../src/files/install/install-recipe.ts";
import type { ProjectReader } from "../../src/files/install/project-reader.ts";
import type { InstallStep } from "../../src/schemas/install.ts";
import { installOf, installPlan, versionOf } from "../../src/steps/launch/install-command.ts";

type Files = Record<string, string | Buffer>;
const reader = (files: Files): ProjectReader => ({
  paths: new Set(Object.keys(files)),
  read: (path) => Promise.resolve(Buffer.from(files[path] ?? "")),
});
const recipe = (files: Files, path = "train.py", more: object = {}) =>
  installRecipe({
    project: reader({ [path]: "", ...files }),
    entry: { kind: "python", path, ...more },
    version: "1.0",
  });
const said = (step: InstallStep): string =>
  step.do === "packages"
    ? `${step.folder}|${step.file}: ${step.packages.join(", ")}${step.constraints.length > 0 ? ` [${step.constraints.join(", ")}]` : ""}`
    : step.do === "project"
      ? `${step.folder}|build${step.dynamic ? ", then its dependencies" : ""}; else ${step.paths.join(":")}`
      : `${step.folder}|${step.do}${"file" in step ? ` ${step.file}` : ""}`;
const steps = async (files: Files, path?: string, more?: object): Promise<string[]> =>
  (await recipe(files, path, more)).steps.map(said);

const PROJECT = '[project]\nname = "x"\nversion = "1"\n';
const BUILD = '[build-system]\nrequires = ["setuptools"]\n';

describe("the installation follows from the content of files", () => {
  it.each<[string, Files, string[]]>([
    ["nothing", {}, []],
    ["tools alone", { "pyproject.toml": "[tool.ruff]\nline-length = 1\n" }, []],
    [
      "tools alone, and setup.py",
      { "pyproject.toml": "[tool.ruff]\n", "setup.py": "" },
      ["|build, then its dependencies; else "],
    ],
    [
      "a build for setup.cfg",
      { "pyproject.toml": BUILD, "setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires =\n  a>1\n  b\n" },
      ["|pyproject.toml: a>1, b", "|build; else "].map((s) => s.replace("pyproject.toml", "setup.cfg")),
    ],
    [
      "a project without dependencies",
      { "pyproject.toml": PROJECT + BUILD, "src/x/__init__.py": "" },
      ["|build; else src:"],
    ],
    [
      "a project",
      { "pyproject.toml": `${PROJECT}dependencies = ["a>=1", "b[c]; python_version > '3'"]\n` },
      ["|pyproject.toml: a>=1, b[c]; python_version > '3'", "|build; else "],
    ],
    [
      "dynamic dependencies",
      { "pyproject.toml": '[project]\nname = "x"\ndynamic = ["dependencies"]\n' + BUILD },
      ["|build, then its dependencies; else "],
    ],
    [
      "dynamic dependencies in a file",
      {
        "reqs.txt": "a # why\nb\n",
        "pyproject.toml": `[project]\nname = "x"\ndynamic = ["dependencies"]\n${BUILD}[tool.setuptools.dynamic]\ndependencies = { file = ["reqs.txt"] }\n`,
      },
      ["|pyproject.toml: a, b", "|build; else "],
    ],
    [
      "groups alone",
      { "pyproject.toml": '[dependency-groups]\nbase = ["a"]\ntrain = ["b", { include-group = "base" }]\n' },
      ["|pyproject.toml: a, b"],
    ],
    [
      "uv without a package",
      { "pyproject.toml": `${PROJECT}dependencies = ["a"]\n[tool.uv]\npackage = false\n` },
      ["|pyproject.toml: a"],
    ],
    [
      "uv's sources",
      {
        "lib/setup.py": "",
        "pyproject.toml": `${PROJECT}dependencies = ["a", "b[c]>1", "d"]\n[tool.uv.sources]\na = { path = "lib", editable = true }\nb = { git = "https://h/b", tag = "v1" }\n`,
      },
      ["|pyproject.toml: ./lib, b[c] @ git+https://h/b@v1, d"],
    ],
    [
      "poetry",
      {
        "pyproject.toml":
          '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.9"\na = "^1.2"\nb = { version = "~2.1", extras = ["c"], markers = "sys_platform == \'linux\'" }\nd = { version = "*", optional = true }\n' +
          BUILD,
        "poetry.lock":
          '[[package]]\nname = "a"\nversion = "1.4"\n[[package]]\nname = "t"\nversion = "1"\n[[package]]\nname = "t"\nversion = "2"\n',
      },
      ["|pyproject.toml: a>=1.2,<2.0, b[c]>=2.1,<2.2 ; sys_platform == 'linux' [a==1.4]", "|build; else "],
    ],
    [
      "poetry without a package",
      { "pyproject.toml": '[tool.poetry]\npackage-mode = false\n[tool.poetry.dependencies]\na = "1.0"\n' },
      ["|pyproject.toml: a==1.0"],
    ],
    [
      "PDM without a package",
      {
        "pyproject.toml": `${PROJECT}dependencies = ["a"]\n[tool.pdm]\ndistribution = false\n`,
        "pdm.lock": '[[package]]\nname = "a"\nversion = "2"\n',
      },
      ["|pyproject.toml: a [a==2]"],
    ],
    [
      "requirements and a project, both",
      { "requirements.txt": "a\n", "pyproject.toml": PROJECT },
      ["|requirements requirements.txt", "|build; else "],
    ],
    ["requirements that name nothing", { "requirements.txt": "# none\n" }, []],
    [
      "requirements that name others",
      { "requirements.txt": "-r more/x.txt\n", "more/x.txt": "a\n" },
      ["|requirements requirements.txt"],
    ],
    [
      "requirements in UTF-16, as PowerShell writes them",
      { "requirements.txt": Buffer.from("\uFEFFa==1\r\n", "utf16le") },
      ["|requirements requirements.txt"],
    ],
    [
      "a folder of requirements",
      { "requirements/base.txt": "a", "requirements/dev.txt": "b" },
      ["|requirements requirements/base.txt"],
    ],
    [
      "requirements of another name",
      { "requirements-gpu.txt": "a", "requirements-test.txt": "b" },
      ["|requirements requirements-gpu.txt"],
    ],
    [
      "requirements in another spelling",
      { "Train-Requirements.txt": "a", "dev-requirements.txt": "b" },
      ["|requirements Train-Requirements.txt"],
    ],
    ["one requirement", { "requirement.txt": "a" }, ["|requirements requirement.txt"]],
    ["a build system that builds nothing", { "pyproject.toml": BUILD, "a/__init__.py": "", "b/__init__.py": "" }, []],
    [
      "requirements beside files of pixi",
      { "requirements.txt": "a", "pixi.toml": "" },
      ["|requirements requirements.txt"],
    ],
    ["requirements for working on it alone", { "requirements-dev.txt": "b" }, []],
    ["what requirements were made from", { "requirements.in": "a\n" }, ["|requirements requirements.in"]],
    ["uv.lock", { "uv.lock": "", "pyproject.toml": PROJECT, "requirements.txt": "a" }, ["|uv"]],
    ["pylock.toml", { "pylock.toml": 'lock-version = "1.0"\n' }, ["|pylock pylock.toml"]],
    [
      "Pipfile",
      {
        Pipfile: '[packages]\na = "*"\nb = { version = "==1", extras = ["c"] }\n',
        "Pipfile.lock": '{"default": {"a": {"version": "==3"}}}',
      },
      ["|Pipfile: a, b[c]==1 [a==3]"],
    ],
    ["Pipfile.lock alone", { "Pipfile.lock": '{"default": {"a": {"version": "==3"}}}' }, ["|Pipfile: a==3 [a==3]"]],
    ["environment.yml", { "environment.yml": "", "pyproject.toml": "[tool.ruff]\n" }, ["|conda environment.yml"]],
    [
      "environment.yml beside requirements",
      { "environment.yml": "", "requirements.txt": "a" },
      ["|requirements requirements.txt"],
    ],
    [
      "pyproject.toml with a byte order mark",
      { "pyproject.toml": `\uFEFF${PROJECT}dependencies = ["a"]\n` },
      ["|pyproject.toml: a", "|build; else "],
    ],
    [
      "members of a uv workspace, by the names of their projects, with the members that they need",
      {
        "pyproject.toml": `[dependency-groups]\nrun = ["acme-core[x]>=1 ; python_version > '3.8'", "torch"]\n[tool.uv.sources]\nacme-core = { workspace = true }\n`,
        "packages/core/pyproject.toml": `${PROJECT.replace('"x"', '"Acme_Core"')}dependencies = ["acme-util", "b"]\n[tool.uv.sources]\nacme-util = { workspace = true }\n`,
        "packages/util/pyproject.toml": `${PROJECT.replace('"x"', '"acme-util"')}dependencies = ["c"]\n[tool.uv.sources]\nc = { path = "../c" }\n`,
        "packages/broken/pyproject.toml": "[",
        "packages/c/setup.py": "",
      },
      ["|pyproject.toml: ./packages/core[x] ; python_version > '3.8', ./packages/util, ./packages/c, torch"],
    ],
    [
      "a source for each system",
      {
        "pyproject.toml": `[dependency-groups]\nrun = ["a>1", "b"]\n[tool.uv.sources]\na = [{ index = "other", marker = "sys_platform == 'darwin'" }, { git = "https://h/a", rev = "v1", marker = "sys_platform == 'linux'" }]\nb = [{ index = "cpu", extra = "cpu" }]\n`,
      },
      ["|pyproject.toml: a @ git+https://h/a@v1 ; sys_platform == 'linux', b"],
    ],
    [
      "files named by setup.cfg",
      {
        "setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires = file: a.txt, b.txt\n",
        "a.txt": "a # why\n",
        "b.txt": "b\n",
      },
      ["|setup.cfg: a, b"],
    ],
    [
      "one line of setup.cfg",
      { "setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires = a; b\n" },
      ["|setup.cfg: a, b"],
    ],
    [
      "the environment of hatch",
      { "pyproject.toml": '[tool.hatch.envs.default]\ndependencies = ["a"]\n' },
      ["|pyproject.toml: a"],
    ],
    [
      "conda's file under another name",
      { "environment-gpu.yml": "dependencies:\n- a\n" },
      ["|conda environment-gpu.yml"],
    ],
    [
      "what only looks like conda's file",
      { "env.yml": "name: CartPole-v1\n", "environment-dev.yml": "dependencies:\n" },
      [],
    ],
    [
      "requirements in every form that pip reads",
      {
        "requirements.txt":
          '-r "more of it.txt"\n-e ./lib[x]\nlib/\n-e git+https://h/a@v1#egg=a\na[b,c] (>=1,<2); python_version < "4"\nb==1.0+cu118 --hash=sha256:1 \\\n  --hash=sha256:2\nc @ https://h/c.whl\nd@git+https://h/d\n${E}\nf===1.x\n-f https://h/x\n--find-links wheels\ng.h_i-j ~= 1.0 , != 1.5 # why\n',
        "more of it.txt": "k>=1\n",
        "lib/setup.py": "",
      },
      ["|requirements requirements.txt"],
    ],
  ])("%s", async (_name, files, wanted) => {
    expect(await steps(files)).toEqual(wanted);
  });

  it("from the index of a source that has one for this system", async () => {
    const sources = `[tool.uv.sources]\na = [{ index = "gpu", marker = "sys_platform == 'linux'" }, { index = "mac", marker = "sys_platform == 'darwin'" }]\n`;
    const index = (name: string): string =>
      `[[tool.uv.index]]\nname = "${name}"\nurl = "https://h/${name}"\nexplicit = true\n`;
    const toml = `${sources}${index("gpu")}${index("mac")}${index("unused")}`;
    const block = `dependencies = ["a"]\n${toml}`.replaceAll(/^/gm, "# ");
    for (const files of [
      { "pyproject.toml": `[dependency-groups]\nrun = ["a"]\n${toml}` },
      { "train.py": `\uFEFF# /// script\n${block.replace(/# $/, "")}# ///\n` },
    ])
      expect((await recipe(files)).steps).toMatchObject([{ packages: ["a"], indexes: ["https://h/gpu"] }]);
  });

  it("and the conda packages of pixi are named as not installed", async () => {
    const toml = `${PROJECT}dependencies = ["a"]\n[tool.pixi.dependencies]\npython = "3.12"\ncuda = "*"\n`;
    expect((await recipe({ "pyproject.toml": toml })).notes).toEqual([
      "not installed, because that needs pixi: [tool.pixi.dependencies] of pyproject.toml",
    ]);
  });

  it("from the project first, and then from the folders between it and the script", async () => {
    const files = {
      "requirements.txt": "a",
      "apps/requirements.txt": "b",
      "apps/train/pyproject.toml": PROJECT,
      "other/requirements.txt": "c",
    };
    expect(await steps(files, "apps/train/train.py")).toEqual([
      "|requirements requirements.txt",
      "apps|requirements requirements.txt",
      "apps/train|build; else apps/train",
    ]);
  });

  it("from the script's own block, and uv is installed if it starts a script", async () => {
    const block = '# /// script\n# dependencies = [\n#   "a",\n#   "b>1",\n# ]\n# ///\nprint()\n';
    expect(await steps({ "train.py": block })).toEqual(["|train.py: a, b>1"]);
    expect(await steps({}, "train.py", { kind: "exec", shebang: { program: "uv" } })).toEqual(["|train.py: uv"]);
    expect(scriptBlock("# /// script\r\n# a = 1\r\n# ///\r\n")).toContain("a = 1");
  });
});

describe("an impossible installation is refused with a reason", () => {
  it.each<[string, Files, RegExp]>([
    ["TOML that is none", { "pyproject.toml": "[project]\nname = \n" }, /pyproject\.toml is not valid TOML: line 2/],
    [
      "text that is not UTF-8",
      { "requirements.txt": Buffer.from("a # caf\xe9\n", "latin1") },
      /requirements\.txt is not UTF-8/,
    ],
    ["a lock without its project", { "uv.lock": "" }, /uv\.lock stands without the pyproject\.toml/],
    [
      "a file that is not sent",
      { "requirements.txt": "-r ../base.txt\n" },
      /names \.\.\/base\.txt, which is not among the files that are sent/,
    ],
    [
      "a member of a workspace that is not sent",
      {
        "pyproject.toml": `${PROJECT}dependencies = ["acme-core"]\n[tool.uv.sources]\nacme-core = { workspace = true }\n`,
      },
      /takes acme-core from its uv workspace, and that member is not among the files that are sent/,
    ],
    ["an editable folder that is not sent", { "requirements.txt": "-e libs/foo\n" }, /names libs\/foo, which is not/],
    ["a wheel that is not sent", { "requirements.txt": "dist/x-1-py3-none-any.whl\n" }, /names dist\/x-1-py3-none-any/],
    ["a relative address that is not sent", { "requirements.txt": "a @ file:./a.whl\n" }, /names a @ file:\.\/a\.whl/],
    [
      "a list of conda",
      { "requirements.txt": "# platform: linux-64\n_libgcc_mutex=0.1=main\n" },
      /is a list of conda, and pip cannot read its line `_libgcc_mutex=0\.1=main`/,
    ],
    [
      "a table of pip",
      { "requirements.txt": "Package Version\n------- -----\na 1\n" },
      /pip cannot read: `Package Version`/,
    ],
    ["a conflict of git", { "requirements.txt": "a\n<<<<<<< HEAD\n" }, /pip cannot read: `<<<<<<< HEAD`/],
    [
      "a file of dynamic dependencies that is not sent",
      {
        "pyproject.toml": `[project]\nname = "x"\ndynamic = ["dependencies"]\n[tool.setuptools.dynamic]\ndependencies = { file = ["reqs.txt"] }\n`,
      },
      /pyproject\.toml names reqs\.txt, which is not among/,
    ],
    [
      "several files of conda, of which none is said",
      { "environment-a.yml": "dependencies:\n", "environment-b.yml": "dependencies:\n" },
      /are several.*conda env update --file environment-a\.yml/,
    ],
    ["a folder that is not sent", { "requirements.txt": "-e ../lib\n" }, /names \.\.\/lib, which is not among/],
    [
      "a path of this computer, as conda writes it",
      { "requirements.txt": "numpy @ file:///home/conda/feedstock_root/work\n" },
      /names numpy by a path of this computer/,
    ],
    [
      "several files, of which none is said",
      { "requirements/a.txt": "a", "requirements/b.txt": "b" },
      /are several.*pip install -r requirements\/a\.txt/,
    ],
    ["conda-lock", { "conda-lock.yml": "" }, /conda-lock\.yml needs conda-lock/],
    ["pixi", { "pixi.toml": "" }, /pixi\.toml needs pixi/],
    ["tools of pixi", { "pyproject.toml": "[tool.pixi.dependencies]\npytorch = '*'\n", "pixi.lock": "" }, /needs pixi/],
    ["a lock of poetry alone", { "poetry.lock": "" }, /poetry\.lock stands without the pyproject\.toml/],
    ["a Pipfile.lock that is no JSON", { "Pipfile.lock": "{" }, /Pipfile\.lock is not valid JSON/],
  ])("%s", async (_name, files, why) => {
    await expect(recipe(files)).rejects.toMatchObject({
      code: "install_refused",
      message: expect.stringMatching(why) as string,
    });
  });

  it("environment.yml where the image has no conda", async () => {
    const project = reader({ "environment.yml": "", "train.py": "" });
    const spec = { install: "auto", provider: "podhost", entrypoint: "train.py" } as const;
    const entry = { kind: "python", path: "train.py" } as const;
    await expect(installOf(spec, { project, entry })).rejects.toMatchObject({ code: "install_refused" });
    await expect(installOf({ ...spec, image: "me/conda:1" }, { project, entry })).resolves.toHaveProperty(
      "environment",
    );
  });
});

it.each([
  ["^1.2.3", ">=1.2.3,<2.0.0"],
  ["^0.2.3", ">=0.2.3,<0.3.0"],
  ["^0.0.3", ">=0.0.3,<0.0.4"],
  ["~1.2.3", ">=1.2.3,<1.3"],
  ["~1", ">=1,<2"],
  ["1.*", "==1.*"],
  ["1.2", "==1.2"],
  [">=1.0, <2", ">=1.0,<2"],
  ["*", ""],
  ["^1 || ^2", ""],
])("poetry's %s is %j", (constraint, wanted) => {
  expect(poetryVersion(constraint)).toBe(wanted);
});

it("a dependency of poetry may come from git, from a path, or apply to one Python", () => {
  expect(tableRequirements("a", { git: "git@github.com:o/r.git", branch: "b" }, poetryVersion)).toEqual([
    "a @ git+ssh://git@github.com/o/r.git@b",
  ]);
  expect(tableRequirements("a", { path: "../a", develop: true }, poetryVersion)).toEqual(["../a"]);
  expect(tableRequirements("a", { version: "^1", python: ">=3.8,<3.12" }, poetryVersion)).toEqual([
    "a>=1,<2 ; (python_version >= '3.8') and (python_version < '3.12')",
  ]);
  expect(tableRequirements("a", { version: "*", python: ">=3.10.1" }, poetryVersion)).toEqual([
    "a ; python_full_version >= '3.10.1'",
  ]);
});

it.each([
  ["v1.2.3-0-gabcdef0", "1.2.3"],
  ["v1.2.3-4-gabcdef0", "1.2.4.dev4+gabcdef0"],
  ["release-1.2-0-gabcdef0-dirty", "1.3.dev0+gabcdef0"],
  ["abcdef0", "0.0.0"],
  [null, "0.0.0"],
])("git describe %j is the version %s", (described, version) => {
  expect(versionOf(described)).toBe(version);
});

it("the plan explains it: the source files, the packages, and the ignored files", async () => {
  const files = {
    "requirements.txt": "a",
    "train.py": "",
    "environment.yml": "",
    "pyproject.toml": `${PROJECT}dependencies = ["b"]\n[dependency-groups]\ndev = ["c"]\n`,
  };
  const install = await installOf(
    { install: "auto", provider: "podhost", entrypoint: "train.py" },
    { project: reader(files), entry: { kind: "python", path: "train.py" } },
  );
  expect(installPlan(install)).toMatchObject({
    does: "packages",
    words: "Installed from requirements.txt and pyproject.toml, into an environment that keeps the image's torch.",
    steps: [
      "pip install -r requirements.txt",
      "one requirement of pyproject.toml",
      expect.stringContaining("the project itself (pyproject.toml); if it cannot be built"),
    ],
    packages: ["b"],
    notes: [
      "groups of pyproject.toml that are not installed: dev",
      "environment.yml is not used, because of requirements.txt and pyproject.toml",
    ],
  });
  expect(installPlan({ skipped: "install is none" }).words).toBe("Nothing is installed: install is none.");
});
