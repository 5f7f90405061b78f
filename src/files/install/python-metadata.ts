// Reads the dependencies that a project's own files declare: pyproject.toml in the forms of PEP 621, poetry, flit, PDM
// and uv, setup.cfg, Pipfile, and the versions pinned by lock files.

import { posix } from "node:path";
import {
  isTable,
  normalName,
  pipfileVersion,
  poetryVersion,
  requirementLines,
  tableOf,
  tablesOf,
  tableRequirements,
  textOf,
  textsOf,
  type Table,
} from "../../domain/requirements.ts";
import { installRefused, notSent, textFor, tomlOf, type ProjectReader } from "./project-reader.ts";
import { indexesOfUv, sourcedLines } from "./uv-sources.ts";

export interface Declared {
  /** Requirements as pip reads them. */
  packages: string[];
  constraints: string[];
  indexes: string[];
  notes: string[];
  /** Whether only the built project knows all of its dependencies. */
  isDynamic: boolean;
}

export interface Pyproject extends Declared {
  name: string | null;
  /** Whether it declares a project or dependencies, and not only tool settings. */
  declares: boolean;
  /** Whether it can be built and installed. */
  isPackage: boolean;
  isUvWorkspace: boolean;
  hasBuild: boolean;
  packageDirs: string[];
}

export async function pyprojectOf(project: ProjectReader, folder: string): Promise<Pyproject> {
  const at = (name: string): string => posix.join(folder, name);
  const path = at("pyproject.toml");
  const toml = await tomlOf(project, path);
  const tool = tableOf(toml["tool"]);
  const [poetry, pdm, uv, flit, setuptools] = ["poetry", "pdm", "uv", "flit", "setuptools"].map((name) =>
    tableOf(tool[name]),
  ) as [Table, Table, Table, Table, Table];
  const own = isTable(toml["project"]) ? toml["project"] : null;
  const hasBuild = isTable(toml["build-system"]);
  const hasSetup = project.paths.has(at("setup.py")) || project.paths.has(at("setup.cfg"));
  const dynamic = textsOf(own?.["dynamic"]).includes("dependencies");
  const notes: string[] = [];

  const sources = tableOf(uv["sources"]);
  const uvProject = { project, file: path, folder, sources };
  const plain = textsOf(own?.["dependencies"]);
  const packages = await sourcedLines(plain, uvProject);
  let isDynamic = dynamic;
  if (dynamic) {
    const files = tableOf(tableOf(setuptools["dynamic"])["dependencies"])["file"];
    const named = typeof files === "string" ? [files] : textsOf(files);
    if (named.length > 0) {
      isDynamic = false;
      for (const name of named)
        if (!project.paths.has(at(name))) throw notSent(path, name);
        else if (name !== "requirements.txt")
          packages.push(...requirementLines(textFor(at(name), await project.read(at(name)))));
    }
  }
  if (own === null || packages.length === 0)
    for (const [name, value] of Object.entries(tableOf(poetry["dependencies"])))
      if (name !== "python") packages.push(...tableRequirements(name, value, poetryVersion));
  const flitData = tableOf(flit["metadata"]);
  packages.push(...textsOf(flitData["requires"]));

  const groups = groupsOf(toml, poetry, pdm);
  const pixi = tableOf(tool["pixi"]);
  if (Object.keys(tableOf(pixi["dependencies"])).some((name) => name !== "python"))
    notes.push(`not installed, because that needs pixi: [tool.pixi.dependencies] of ${path}`);
  const declaresProject = own !== null || textOf(poetry["name"]) !== undefined || flitData["module"] !== undefined;
  if (declaresProject) {
    if (groups.size > 0) notes.push(`groups of ${path} that are not installed: ${[...groups.keys()].join(", ")}`);
    const extras = Object.keys(tableOf(own?.["optional-dependencies"]));
    if (extras.length > 0) notes.push(`extras of ${path} that are not installed: ${extras.join(", ")}`);
  } else {
    packages.push(...textsOf(tableOf(tableOf(tableOf(tool["hatch"])["envs"])["default"])["dependencies"]));
    for (const group of groups.values()) packages.push(...(await sourcedLines(group, uvProject)));
  }

  const off = uv["package"] === false || pdm["distribution"] === false || poetry["package-mode"] === false;
  const isUvOrPdm = ("uv" in tool || "pdm" in tool) && uv["package"] !== true && pdm["distribution"] !== true;
  return {
    packages: [...new Set(packages)],
    constraints: await lockedVersions(project, folder),
    indexes: indexesOf([...plain, ...packages], sources, poetry, pdm, uv),
    notes,
    isDynamic,
    name: textOf(own?.["name"]) ?? textOf(poetry["name"]) ?? null,
    declares: declaresProject || packages.length > 0,
    isPackage: declaresProject && !off && (hasBuild || hasSetup || !isUvOrPdm),
    hasBuild,
    isUvWorkspace: isTable(uv["workspace"]),
    packageDirs: packageDirsOf(poetry, setuptools),
  };
}

/** PEP 735 groups, and those of poetry and PDM, each with its members. */
function groupsOf(toml: Table, poetry: Table, pdm: Table): Map<string, string[]> {
  const all = tableOf(toml["dependency-groups"]);
  const groups = new Map<string, string[]>();
  const named = (name: string, above: readonly string[]): string[] => {
    const found = Object.entries(all).find(([key]) => normalName(key) === normalName(name))?.[1];
    if (!Array.isArray(found) || above.includes(normalName(name))) return [];
    return found.flatMap((each: unknown) => {
      if (typeof each === "string") return [each];
      const inner = isTable(each) ? textOf(each["include-group"]) : undefined;
      return inner === undefined ? [] : named(inner, [...above, normalName(name)]);
    });
  };
  for (const name of Object.keys(all)) groups.set(name, named(name, []));
  for (const [name, value] of Object.entries(tableOf(pdm["dev-dependencies"]))) groups.set(name, textsOf(value));
  for (const [name, value] of Object.entries(tableOf(poetry["group"]))) {
    const inner = Object.entries(tableOf(tableOf(value)["dependencies"]));
    groups.set(
      name,
      inner.flatMap(([key, of]) => (key === "python" ? [] : tableRequirements(key, of, poetryVersion))),
    );
  }
  return groups;
}

/** Addresses of indexes that are searched besides PyPI. */
function indexesOf(packages: readonly string[], sources: Table, poetry: Table, pdm: Table, uv: Table): string[] {
  const inPoetry = JSON.stringify(poetry["dependencies"] ?? {});
  return [
    ...indexesOfUv(packages, sources, uv),
    ...tablesOf(pdm["source"]),
    ...tablesOf(poetry["source"]).filter(
      (each) => each["priority"] !== "explicit" || inPoetry.includes(`"source":${JSON.stringify(each["name"])}`),
    ),
  ]
    .map((each) => textOf(each["url"]))
    .filter((url): url is string => url !== undefined && !url.startsWith("https://pypi.org/"));
}

function packageDirsOf(poetry: Table, setuptools: Table): string[] {
  const find = tableOf(tableOf(setuptools["packages"])["find"]);
  const from = Array.isArray(poetry["packages"]) ? poetry["packages"].map((each) => textOf(tableOf(each)["from"])) : [];
  const dirs = [...textsOf(find["where"]), textOf(tableOf(setuptools["package-dir"])[""]), ...from];
  return dirs.filter((dir): dir is string => dir !== undefined);
}

/** The versions in poetry.lock or pdm.lock, as constraints. The installer chooses for a name with several versions. */
async function lockedVersions(project: ProjectReader, folder: string): Promise<string[]> {
  const lock = ["poetry.lock", "pdm.lock"]
    .map((name) => posix.join(folder, name))
    .find((path) => project.paths.has(path));
  if (lock === undefined) return [];
  const all = (await tomlOf(project, lock))["package"];
  const versions = new Map<string, Set<string>>();
  for (const each of Array.isArray(all) ? all.map(tableOf) : []) {
    const name = textOf(each["name"]);
    const version = textOf(each["version"]);
    const isElsewhere = ["git", "directory", "file", "url"].includes(textOf(tableOf(each["source"])["type"]) ?? "");
    if (name === undefined || version === undefined || isElsewhere || "path" in each || "git" in each) continue;
    versions.set(normalName(name), (versions.get(normalName(name)) ?? new Set()).add(version));
  }
  return [...versions].flatMap(([name, of]) => (of.size === 1 ? [`${name}==${[...of][0]}`] : []));
}

/** `[options] install_requires` of setup.cfg; null if the file only configures tools. */
export async function readSetupCfg(project: ProjectReader, folder: string): Promise<Declared | null> {
  const path = posix.join(folder, "setup.cfg");
  const sections = iniOf(textFor(path, await project.read(path)));
  const options = sections.get("options");
  if (options === undefined && !sections.get("metadata")?.has("name")) return null;
  const text = (options?.get("install_requires") ?? "").trim();
  const named = /^file:\s*(.+)$/s
    .exec(text)?.[1]
    ?.split(",")
    .map((name) => name.trim());
  if (named === undefined) {
    // Setuptools divides one line at `;`, also before a marker.
    const packages = requirementLines(text.includes("\n") ? text : text.replaceAll(";", "\n"));
    return { packages, constraints: [], indexes: [], notes: [], isDynamic: false };
  }
  const packages: string[] = [];
  for (const name of named) {
    const file = posix.join(folder, name);
    if (!project.paths.has(file)) throw notSent(path, name);
    packages.push(...requirementLines(textFor(file, await project.read(file))));
  }
  return { packages, constraints: [], indexes: [], notes: [], isDynamic: false };
}

/** Parses an INI file as Python's configparser does: a line that begins with a blank continues the value before it. */
function iniOf(text: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  let key = "";
  for (const line of text.split(/\r?\n/)) {
    const head = /^\[([^\]]+)\]/.exec(line)?.[1];
    const pair = /^([^\s#;=:][^=:]*?)\s*[=:]\s*(.*)$/.exec(line);
    if (head !== undefined) sections.set(head, (section = new Map()));
    else if (pair) section.set((key = pair[1] ?? ""), pair[2] ?? "");
    else if (/^\s+\S/.test(line)) section.set(key, `${section.get(key) ?? ""}\n${line.trim()}`);
  }
  return sections;
}

/** A Pipfile, with the versions of its lock; or the lock alone. */
export async function readPipfile(project: ProjectReader, folder: string): Promise<Declared> {
  const at = (name: string): string => posix.join(folder, name);
  const lock = project.paths.has(at("Pipfile.lock")) ? await lockOf(project, at("Pipfile.lock")) : null;
  const locked = tableOf(lock?.["default"]);
  const constraints = Object.entries(locked).flatMap(([name, of]) => {
    const version = textOf(tableOf(of)["version"]);
    return version?.startsWith("==") ? [`${name}${version}`] : [];
  });
  const pipfile = project.paths.has(at("Pipfile")) ? await tomlOf(project, at("Pipfile")) : null;
  const wanted = pipfile === null ? locked : tableOf(pipfile["packages"]);
  const packages = Object.entries(wanted).flatMap(([name, of]) => tableRequirements(name, of, pipfileVersion));
  const sources = pipfile === null ? tableOf(lock?.["_meta"])["sources"] : pipfile["source"];
  const indexes = (Array.isArray(sources) ? sources : [])
    .map((each) => textOf(tableOf(each)["url"]))
    .filter((url): url is string => url !== undefined && !url.startsWith("https://pypi.org/") && !url.includes("$"));
  return { packages, constraints, indexes, notes: [], isDynamic: false };
}

async function lockOf(project: ProjectReader, path: string): Promise<Table> {
  try {
    return tableOf(JSON.parse(textFor(path, await project.read(path))));
  } catch (cause) {
    if (cause instanceof SyntaxError) throw installRefused(path, "is not valid JSON", cause);
    throw cause;
  }
}
