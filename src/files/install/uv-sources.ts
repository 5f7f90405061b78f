// Replaces dependencies that `[tool.uv.sources]` takes from elsewhere: pip does not read that table, and would install
// whatever the index has under the same name.

import { posix } from "node:path";
import {
  addressOf,
  isTable,
  localPath,
  nameOf,
  normalName,
  tableOf,
  tablesOf,
  textOf,
  textsOf,
  type Table,
} from "../../domain/requirements.ts";
import { SvcError } from "../../errors/index.ts";
import { installRefused, tomlOf, type ProjectReader } from "./project-reader.ts";

export interface UvProject {
  project: ProjectReader;
  /** The file that has the table, for messages. */
  file: string;
  /** The folder that its paths begin at. */
  folder: string;
  sources: Table;
}

/** Sources of one dependency: uv takes the first whose marker holds. */
function sourcesOf(name: string, sources: Table): Table[] {
  const found = Object.entries(sources).find(([key]) => normalName(key) === name)?.[1];
  const all = isTable(found) ? [found] : tablesOf(found);
  // svc installs neither extras nor groups.
  return all.filter((source) => source["extra"] === undefined && source["group"] === undefined && !isForOthers(source));
}

/** Whether a marker speaks of other systems than Linux alone. */
const isForOthers = (source: Table): boolean =>
  /^\s*(sys_platform|platform_system)\s*(==\s*['"](darwin|win32|Darwin|Windows)['"]|!=\s*['"][lL]inux['"])\s*$/.test(
    textOf(source["marker"]) ?? "",
  );

/**
 * The lines that pip needs for these dependencies, with paths that begin at `folder`. A project in a path brings what its
 * own table takes from elsewhere. Throws `install_refused` for a member of a workspace that is not sent.
 */
export async function sourcedLines(lines: readonly string[], from: UvProject, folder = from.folder): Promise<string[]> {
  const seen = new Set<string>();
  const all = async (wanted: readonly string[], of: UvProject): Promise<string[]> =>
    (await Promise.all(wanted.map((line) => one(line, of)))).flat();
  const one = async (line: string, of: UvProject): Promise<string[]> => {
    const sources = sourcesOf(nameOf(line), of.sources);
    if (sources.every((source) => elsewhere(source) === null)) return [line];
    const found: string[] = [];
    for (const source of sources) found.push(...(await fromSource(line, source, of)));
    return found;
  };
  const fromSource = async (line: string, source: Table, of: UvProject): Promise<string[]> => {
    const [, spelled = "", extras = ""] = /^\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?/.exec(line) ?? [];
    const markers = [/;\s*(.*)$/.exec(line)?.[1], textOf(source["marker"])].filter((text) => text !== undefined);
    const marker = markers.length > 1 ? markers.map((text) => `(${text})`).join(" and ") : (markers[0] ?? "");
    const marked = (text: string): string => (marker === "" ? text : `${text} ; ${marker}`);
    const from = elsewhere(source);
    if (from === null) return [marked(line.replace(/\s*;.*$/, ""))];
    if (from !== "workspace" && !("path" in from))
      return [marked(`${spelled}${extras === "" ? "" : `[${extras}]`} @ ${from.address}`)];
    const at = from === "workspace" ? await memberFolder(spelled, of) : posix.join(of.folder, from.path);
    const path = from !== "workspace" && from.path.startsWith("/") ? from.path : posix.relative(folder, at);
    const own = marked(localPath(path === "" ? "." : path, extras === "" ? [] : extras.split(",")));
    return seen.has(at) ? [own] : [own, ...(seen.add(at), await ofProject(at, of))];
  };
  /** Dependencies of the project in a folder that come from elsewhere. */
  const ofProject = async (at: string, above: UvProject): Promise<string[]> => {
    const file = posix.join(at, "pyproject.toml");
    const toml = above.project.paths.has(file) ? await tomlOf(above.project, file) : {};
    const sources = { ...above.sources, ...tableOf(tableOf(tableOf(toml["tool"])["uv"])["sources"]) };
    const plain = textsOf(tableOf(toml["project"])["dependencies"]);
    const lines = await all(plain, { project: above.project, file, folder: at, sources });
    return lines.filter((line) => !plain.includes(line));
  };
  return [...new Set(await all(lines, from))];
}

/** Where a source is, other than in an index; null for an index. */
function elsewhere(source: Table): "workspace" | { path: string } | { address: string } | null {
  const path = textOf(source["path"]);
  if (path !== undefined) return { path };
  const address = addressOf(source);
  if (address !== undefined) return { address };
  return source["workspace"] === true ? "workspace" : null;
}

/** The folder of a member of the workspace, by the name of its project. */
async function memberFolder(spelled: string, { project, file }: UvProject): Promise<string> {
  const name = normalName(spelled);
  for (const path of project.paths) {
    if (posix.basename(path) !== "pyproject.toml" || path === file) continue;
    const named = await projectName(project, path);
    if (named !== null && normalName(named) === name) return posix.dirname(path);
  }
  throw installRefused(
    file,
    `takes ${spelled} from its uv workspace, and that member is not among the files that are sent: choose the workspace's folder as project_dir, with the path of the script below it as entrypoint`,
  );
}

async function projectName(project: ProjectReader, path: string): Promise<string | null> {
  try {
    const toml = await tomlOf(project, path);
    return textOf(tableOf(toml["project"])["name"]) ?? textOf(tableOf(tableOf(toml["tool"])["poetry"])["name"]) ?? null;
  } catch (cause) {
    if (cause instanceof SvcError && cause.code === "install_refused") return null;
    throw cause;
  }
}

/** The indexes of `[tool.uv]`. An explicit one counts only if the source of a dependency names it. */
export function indexesOfUv(lines: readonly string[], sources: Table, uv: Table): Table[] {
  const named = new Set(
    lines.flatMap((line) => sourcesOf(nameOf(line), sources).flatMap((source) => textOf(source["index"]) ?? [])),
  );
  return tablesOf(uv["index"]).filter((each) => each["explicit"] !== true || named.has(textOf(each["name"]) ?? ""));
}
