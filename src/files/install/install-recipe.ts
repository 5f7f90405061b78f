// Decides from a project's files what to install for it, before anything is rented.
//
// I1. Only declared dependencies count: a pyproject.toml that only configures tools installs nothing.
// I2. A lock file decides alone. Else requirements files and the project's own metadata both count.
// I3. The folders between the project and the script count after the project itself, so that one part of a monorepo brings its own.
// I4. A dependency that cannot work on the machine (a file that is not sent, a path of this computer, invalid TOML) is
//     refused with an explanation.

import { posix } from "node:path";
import { nameOf, requirementLines, scriptBlock, tableOf, textOf, textsOf } from "../../domain/requirements.ts";
import type { SvcError } from "../../errors/index.ts";
import type { InstallRecipe, InstallStep } from "../../schemas/install.ts";
import { pyprojectOf, readPipfile, readSetupCfg, type Declared } from "./python-metadata.ts";
import type { Entrypoint } from "../entrypoint.ts";
import { installRefused, notSent, textFor, tomlOf, type ProjectReader } from "./project-reader.ts";
import { indexesOfUv, sourcedLines } from "./uv-sources.ts";

export interface RecipeRequest {
  project: ProjectReader;
  entry: Pick<Entrypoint, "kind" | "path" | "shebang">;
  /** The version for a build that would otherwise ask git. */
  version: string;
}

export interface Recipe extends InstallRecipe {
  notes: string[];
  /** Why there is nothing to install; null if there is something. */
  nothing: string | null;
}

const CONDA = ["environment.yml", "environment.yaml", "conda.yml", "conda.yaml"];
const CONDA_LIKE = /^(?:(?:conda[-_.]?)?env(?:ironment)?s?|conda)(?:[-_.][\w.-]+)?\.ya?ml$/i;
/** Files that name dependencies and that svc cannot install, with the reason. They count where nothing else is installed. */
const UNREAD: Readonly<Record<string, string>> = {
  "conda-lock.yml": "needs conda-lock, which svc does not run: add environment.yml or requirements.txt",
  "pixi.toml": "needs pixi, which svc does not run: add environment.yml or requirements.txt",
  "pixi.lock": "needs pixi, which svc does not run: add environment.yml or requirements.txt",
  "poetry.lock": "stands without the pyproject.toml that it belongs to",
  "pdm.lock": "stands without the pyproject.toml that it belongs to",
};
/** Requirements files for developing a project, not for running it. */
const FOR_WORK =
  /(^|[-_./])(dev|develop|development|test|tests|testing|docs?|lint|linting|ci|style|format|typing|check|checks|tools|build|release|min|minimal|constraints?)([-_.]|$)/i;
const COMMON = /(^|[-_./])(requirements|base|main|core|common|default|train|training)\.(txt|in)$/i;

/** Throws `install_refused`. */
export async function installRecipe({ project, entry, version }: RecipeRequest): Promise<Recipe> {
  const notes: string[] = [];
  const steps: InstallStep[] = [];
  const files: string[] = [];
  let isWorkspace = false;
  for (const folder of foldersOf(entry)) {
    const found = await inFolder(project, folder, { version, isWorkspace, isFirst: folder === "" });
    isWorkspace ||= found.isWorkspace;
    steps.push(...found.steps);
    files.push(...found.files);
    notes.push(...found.notes);
  }
  const script = await ofScript(project, entry);
  if (script !== null) {
    steps.push(script);
    files.push(script.file);
  }
  const nothing = steps.length > 0 ? null : (notes[0] ?? "the project declares no dependencies");
  return { steps, files, notes: nothing === null ? notes : notes.slice(1), nothing };
}

/** The project, and every folder between it and the script. */
function foldersOf(entry: RecipeRequest["entry"]): string[] {
  if (entry.kind === "module") return [""];
  const folder = posix.dirname(posix.normalize(entry.path));
  if (folder === ".") return [""];
  const parts = folder.split("/");
  return ["", ...parts.map((_, i) => parts.slice(0, i + 1).join("/"))];
}

interface Found {
  steps: InstallStep[];
  files: string[];
  notes: string[];
  isWorkspace: boolean;
}

async function inFolder(
  project: ProjectReader,
  folder: string,
  { version, isWorkspace, isFirst }: { version: string; isWorkspace: boolean; isFirst: boolean },
): Promise<Found> {
  const at = (name: string): string => (folder === "" ? name : `${folder}/${name}`);
  const has = (name: string): boolean => project.paths.has(at(name));
  const found: Found = { steps: [], files: [], notes: [], isWorkspace: false };
  const add = (step: InstallStep, file: string): void => {
    found.steps.push(step);
    found.files.push(at(file));
  };
  const pyproject = has("pyproject.toml") ? await pyprojectOf(project, folder) : null;
  const paths = pathsOf(project, folder, pyproject?.packageDirs ?? []);

  if (has("uv.lock") && !isWorkspace) {
    if (pyproject === null) throw installRefused(at("uv.lock"), "stands without the pyproject.toml that it belongs to");
    found.isWorkspace = pyproject.isUvWorkspace;
    const all = pyproject.isUvWorkspace && pyproject.name === null;
    add({ do: "uv", folder, name: pyproject.name, version, all, paths }, "uv.lock");
    for (const name of ["requirements.txt", "pylock.toml"])
      if (has(name)) found.notes.push(`${at(name)} is not installed: ${at("uv.lock")} decides`);
    return found;
  }
  if (has("pylock.toml")) {
    await tomlOf(project, at("pylock.toml"));
    add({ do: "pylock", folder, file: "pylock.toml" }, "pylock.toml");
    if (pyproject?.isPackage) add(projectStep(folder, "pyproject.toml", version, false, paths), "pyproject.toml");
    return found;
  }

  const requirements = requirementsFile(project, folder, isFirst);
  found.notes.push(...requirements.notes);
  if (requirements.file !== null) {
    const isEmpty = await checkRequirements(project, folder, requirements.file);
    if (isEmpty) found.notes.push(`${at(requirements.file)} names nothing`);
    else add({ do: "requirements", folder, file: requirements.file }, requirements.file);
  }
  const metadata = isWorkspace ? null : await metadataOf(project, folder, pyproject, has);
  if (metadata !== null) {
    const { declared, file, isPackage } = metadata;
    found.notes.push(...declared.notes);
    checkPaths(project, folder, file, declared.packages);
    if (declared.packages.length > 0)
      add(
        {
          do: "packages",
          folder,
          file,
          packages: declared.packages,
          constraints: declared.constraints,
          indexes: declared.indexes,
        },
        file,
      );
    if (isPackage) add(projectStep(folder, file, version, declared.isDynamic, paths), file);
    else if (declared.packages.length === 0)
      found.notes.push(`${at(file)} declares no dependencies, and nothing that can be installed`);
  }
  found.files = [...new Set(found.files)];
  if (found.steps.length > 0) {
    for (const name of ["Pipfile", ...CONDA])
      if (has(name) && isFirst) found.notes.push(`${at(name)} is not used, because of ${found.files.join(" and ")}`);
    return found;
  }
  if (has("Pipfile") || has("Pipfile.lock")) {
    const pipfile = await readPipfile(project, folder);
    checkPaths(project, folder, "Pipfile", pipfile.packages);
    if (pipfile.packages.length > 0) {
      const { packages, constraints, indexes } = pipfile;
      add({ do: "packages", folder, file: "Pipfile", packages, constraints, indexes }, "Pipfile");
      return found;
    }
  }
  const conda = isFirst ? (CONDA.find(has) ?? (await condaLike(project))) : undefined;
  if (conda !== undefined) add({ do: "conda", folder, file: conda }, conda);
  const unread = isFirst && conda === undefined ? Object.keys(UNREAD).find(has) : undefined;
  if (unread !== undefined && !(pyproject !== null && /^(poetry|pdm)/.test(unread)))
    throw installRefused(unread, UNREAD[unread] ?? "");
  return found;
}

const projectStep = (
  folder: string,
  file: string,
  version: string,
  dynamic: boolean,
  paths: string[],
): InstallStep => ({
  do: "project",
  folder,
  file,
  version,
  dynamic,
  paths,
});

/** A file of conda under another name, such as `environment-gpu.yml`; others of such a name configure something else. */
async function condaLike(project: ProjectReader): Promise<string | undefined> {
  const some: string[] = [];
  for (const path of [...project.paths].filter((each) => CONDA_LIKE.test(each)).toSorted())
    if (/^dependencies[ \t]*:/m.test((await project.read(path)).toString("latin1"))) some.push(path);
  const forRuns = some.filter((path) => !FOR_WORK.test(path.replace(/^[a-z]+/i, "").replace(/\.ya?ml$/i, "")));
  if (forRuns.length > 1) throw severalFiles(forRuns, `conda env update --file ${forRuns[0]}`);
  return forRuns[0];
}

const severalFiles = (files: readonly string[], command: string): SvcError =>
  installRefused(
    files.join(", "),
    `are several, and nothing says which of them this run needs: set install, for example to \`${command}\``,
  );

/** Entries for Python's path when a project cannot be built: the folders of its packages, and the project itself. */
function pathsOf(project: ProjectReader, folder: string, named: readonly string[]): string[] {
  const at = (name: string): string => posix.normalize(posix.join(folder, name));
  const holds = (path: string): boolean =>
    [...project.paths].some((file) => file.startsWith(`${path}/`) && file.endsWith(".py"));
  const inner = [...named, "src", "lib", "python"].map(at);
  return [...new Set([...inner.filter((path) => path !== "." && holds(path)), folder])];
}

/** pyproject.toml, else setup.cfg and setup.py. */
async function metadataOf(
  project: ProjectReader,
  folder: string,
  pyproject: Awaited<ReturnType<typeof pyprojectOf>> | null,
  has: (name: string) => boolean,
): Promise<{ declared: Declared; file: string; isPackage: boolean } | null> {
  const setupCfg = has("setup.cfg") ? await readSetupCfg(project, folder) : null;
  const bySetup = has("setup.py") || setupCfg !== null;
  if (pyproject !== null && (pyproject.declares || !bySetup))
    return { declared: pyproject, file: "pyproject.toml", isPackage: pyproject.isPackage };
  if (!bySetup) return null;
  const nothing: Declared = { packages: [], constraints: [], indexes: [], notes: [], isDynamic: true };
  // A setup.py may add to the dependencies in setup.cfg.
  const declared = setupCfg === null ? nothing : { ...setupCfg, isDynamic: has("setup.py") || setupCfg.isDynamic };
  // pip builds nothing from a setup.cfg alone.
  const isPackage = has("setup.py") || pyproject?.hasBuild === true;
  return { declared, file: has("setup.py") ? "setup.py" : "setup.cfg", isPackage };
}

/**
 * `requirements.txt`, else the only other requirements file for running the project, in the folder or below
 * `requirements/`.
 */
function requirementsFile(
  project: ProjectReader,
  folder: string,
  isFirst: boolean,
): { file: string | null; notes: string[] } {
  const at = (name: string): string => (folder === "" ? name : `${folder}/${name}`);
  if (project.paths.has(at("requirements.txt"))) return { file: "requirements.txt", notes: [] };
  if (!isFirst) return { file: null, notes: [] };
  const inside = /^(?:[\w.-]*requirements?[\w.-]*\.(?:txt|in)|requirements\/[\w.-]+\.(?:txt|in))$/i;
  const all = [...project.paths].filter((path) => inside.test(path)).toSorted();
  // `x.txt` was compiled from `x.in`.
  const made = all.filter((path) => !path.endsWith(".in") || !all.includes(path.replace(/\.in$/, ".txt")));
  const some = made.filter((path) => !FOR_WORK.test(path.replace(/^requirements\/|^requirements/, "")));
  const chosen = some.length === 1 ? some : some.filter((path) => COMMON.test(path)).slice(0, 1);
  const [file] = chosen;
  if (file !== undefined) {
    const others = made.filter((path) => path !== file);
    return { file, notes: others.length > 0 ? [`not installed: ${others.join(", ")}`] : [] };
  }
  if (some.length > 1) throw severalFiles(some, `pip install -r ${some[0]}`);
  return {
    file: null,
    notes: made.length > 0 ? [`not installed, as they are for working on the project: ${made.join(", ")}`] : [],
  };
}

/**
 * Returns whether the file names nothing. Throws `install_refused` for a dependency that will not be on the machine.
 */
async function checkRequirements(project: ProjectReader, folder: string, file: string): Promise<boolean> {
  const seen = new Set<string>();
  let isEmpty = true;
  const look = async (path: string): Promise<void> => {
    if (seen.has(path) || seen.size > 50) return;
    seen.add(path);
    for (const line of requirementLines(textFor(path, await project.read(path)))) {
      const other = fileNamed(/^(?:-r|-c|--requirement|--constraint)[ =]*(.+)/, line);
      if (other === undefined) {
        isEmpty &&= /^(?:--(?!editable)|-[if])/.test(line);
        checkForm(path, line);
        checkPaths(project, folder, path, [line]);
        continue;
      }
      if (/:\/\/|\$\{/.test(other)) {
        isEmpty = false;
        continue;
      }
      const inner = posix.normalize(posix.join(posix.dirname(path), other));
      if (other.startsWith("/") || !project.paths.has(inner)) throw notSent(path, other);
      await look(inner);
    }
  };
  await look(posix.join(folder, file));
  return isEmpty;
}

/** The file that an option of a requirements file names; pip reads it as a shell does. */
function fileNamed(option: RegExp, line: string): string | undefined {
  const rest = option.exec(line)?.[1];
  const [, double, single, plain] = /^(?:"([^"]*)"|'([^']*)'|((?:\\.|[^\s\\])+))/.exec(rest ?? "") ?? [];
  return double ?? single ?? plain?.replaceAll(/\\(.)/g, "$1");
}

/** A line that begins with a name: PEP 508. */
const REQUIREMENT =
  /^[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\s*(?:\[[^\]]*\])?\s*(?:\(?\s*(?:===|==|~=|!=|<=|>=|<|>)[^;]*|@\s*\S.*)?(?:;.*)?$/;
const CONDA_PACKAGE = /^\w[\w.-]*=[^=\s]+(?:=\S+)?$/;

/** Refuses lines that pip cannot read, such as those that `conda list -e` and `pip list` print. */
function checkForm(file: string, line: string): void {
  if (/^[-.]|[/\\]|\$\{|\.(?:whl|zip|tar\.\w+|tgz)\b/.test(line.replace(/\s*;.*$/, "")) && !/^-+( |$)/.test(line))
    return;
  if (REQUIREMENT.test(line.replace(/\s-{1,2}[a-z].*$/, ""))) return;
  if (CONDA_PACKAGE.test(line))
    throw installRefused(
      file,
      `is a list of conda, and pip cannot read its line \`${line}\`: write what the script imports as \`NAME==VERSION\`, or export an environment.yml`,
    );
  throw installRefused(file, `has a line that pip cannot read: \`${line}\``);
}

/** A requirement that is a path must be inside the project. */
function checkPaths(project: ProjectReader, folder: string, file: string, lines: readonly string[]): void {
  for (const line of lines) {
    const spelled = line.replace(/^(?:-e|--editable)[ =]*/, "").replace(/\s*;.*$/, "");
    const url = /(?:^|@\s*)file:\/\/(?:localhost)?(\/[^\s;#]*)/.exec(spelled)?.[1];
    if (url !== undefined)
      throw installRefused(
        posix.join(folder, file),
        `names ${nameOf(spelled) || "a package"} by a path of this computer (${url}), which the machine does not have: name its version instead`,
      );
    const path = pathNamed(spelled);
    if (path === undefined) continue;
    const inner = posix.normalize(posix.join(folder, path));
    const isThere = inner === "." || inner === "./" || project.paths.has(inner) || holdsFiles(project, inner);
    if (path.startsWith("/") || inner.startsWith("..") || !isThere)
      throw installRefused(posix.join(folder, file), `names ${spelled}, which is not among the files that are sent`);
  }
}

/** The path of a requirement that is one, without its extras: pip takes a name with a slash, or of an archive, for a path. */
function pathNamed(spelled: string): string | undefined {
  const text = /(?:^|@\s*)file:(?!\/)(\S+)$/.exec(spelled)?.[1] ?? spelled;
  if (/:\/\/|\$\{|^-|^git\+|[\w.-]@/.test(text) || /^\S+\s+@/.test(text)) return undefined;
  const path = text.replace(/\[[^\]]*\]$/, "");
  const looksLikePath = /^\.{1,2}$|\/|\.(?:whl|zip|tar\.(?:gz|bz2|xz)|tgz)$/.test(path);
  return looksLikePath ? path : undefined;
}

const holdsFiles = (project: ProjectReader, folder: string): boolean => {
  const prefix = `${folder.replace(/\/$/, "")}/`;
  return [...project.paths].some((path) => path.startsWith(prefix));
};

/** The dependencies that the script itself declares (PEP 723), and uv if uv starts it. */
async function ofScript(
  project: ProjectReader,
  entry: RecipeRequest["entry"],
): Promise<(InstallStep & { do: "packages" }) | null> {
  const path = entry.kind === "module" ? "" : posix.normalize(entry.path);
  const step = (packages: string[]): InstallStep & { do: "packages" } => ({
    do: "packages",
    folder: "",
    file: path,
    packages,
    constraints: [],
    indexes: [],
  });
  const program = posix.basename(entry.shebang?.program ?? "");
  if (program === "uv" || program === "uvx") return step(["uv"]);
  if (entry.kind !== "python" || !project.paths.has(path)) return null;
  const block = scriptBlock((await project.read(path)).toString("utf8"));
  if (block === null) return null;
  const toml = await tomlOf(
    { ...project, read: () => Promise.resolve(Buffer.from(block)) },
    `the block \`# /// script\` of ${path}`,
  );
  const plain = textsOf(toml["dependencies"]);
  const uv = tableOf(tableOf(toml["tool"])["uv"]);
  const sources = tableOf(uv["sources"]);
  const packages = await sourcedLines(plain, { project, file: path, folder: posix.dirname(path), sources }, "");
  const indexes = indexesOfUv(plain, sources, uv).flatMap((each) => textOf(each["url"]) ?? []);
  checkPaths(project, "", path, packages);
  return packages.length === 0 ? null : { ...step(packages), indexes: indexes.filter((url) => url !== "") };
}
