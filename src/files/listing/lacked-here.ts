// For the error of a script that did not find a file or a module on its machine: finds it on this computer, and tells why it
// is not on the machine.

import { lstat, readdir } from "node:fs/promises";
import { dirname, isAbsolute, join, posix } from "node:path";
import { isInside } from "../../domain/relative-path.ts";
import type { LeftOutList } from "../../schemas/code.ts";
import { gitTop } from "./git-layout.ts";
import { coversPath, whyNotListed } from "./why-not-listed.ts";

export interface SentProject {
  /** The project on this computer. */
  projectDir: string;
  /** The project on the machine. */
  machineDir: string;
  /** The folder of the script in the project; empty for the project itself. */
  scriptFolder: string;
  /** The files that were sent. */
  paths: ReadonlySet<string>;
  leftOut: Pick<LeftOutList, "names" | "ignored_names"> | null;
}

const FILE = /No such file or directory: b?(?:'([^'\n]+)'|"([^"\n]+)")|(?:^|: )([^:\n]+): No such file or directory/;
const MODULE = /No module named ['"]?([A-Za-z_]\w*)/;

/** A sentence; null if nothing here explains the failure. */
export async function lackedHere(trouble: string, sent: SentProject): Promise<string | null> {
  const module = MODULE.exec(trouble)?.[1];
  if (module !== undefined) {
    const folders = new Set([sent.scriptFolder, "", "src"]);
    const names = [...folders].flatMap((folder) => [`${module}.py`, module].map((name) => posix.join(folder, name)));
    for (const name of names) {
      const words = await wordsFor(name, sent, true);
      if (words !== null) return words;
    }
    return moduleAbove(module, sent.projectDir);
  }
  const [, single, double, bare] = FILE.exec(trouble) ?? [];
  const named = single ?? double ?? bare?.trim();
  if (named === undefined) return null;
  const below = named.startsWith(`${sent.machineDir}/`) ? named.slice(sent.machineDir.length + 1) : named;
  if (!isAbsolute(below)) {
    const path = posix.normalize(below).replace(/\/$/, "");
    if (path.startsWith("../") && (await kindOf(join(sent.projectDir, path))) !== null) return beside(path);
    return wordsFor(path, sent, false);
  }
  if ((await kindOf(below)) === null) return null;
  return `${JSON.stringify(below)} exists on this computer and not on the machine, which gets the project and what \`data\` names.`;
}

/** A module in the same repository, above the project: a script that runs in a part of a repository may import it here. */
async function moduleAbove(module: string, projectDir: string): Promise<string | null> {
  const top = gitTop(projectDir);
  if (top === null) return null;
  for (let at = projectDir, up = ".."; at !== top; at = dirname(at), up = `../${up}`)
    for (const name of [`${module}.py`, `${module}/__init__.py`])
      if ((await kindOf(join(dirname(at), name))) === "file") return beside(`${up}/${name}`);
  return null;
}

const beside = (path: string): string =>
  `${JSON.stringify(path)} is on this computer, outside of the project: choose a folder that holds both as \`project_dir\`, with the path of the script below it as entrypoint.`;

async function wordsFor(path: string, sent: SentProject, isModule: boolean): Promise<string | null> {
  if (!isInside(path) || isSent(path, sent)) return null;
  const kind = await kindOf(join(sent.projectDir, path));
  if (kind === "file" || (kind === "folder" && isModule)) return whyNotSent(path, sent);
  if (isModule) return null;
  // The folder that it is in, or would be written into.
  const folders = path.split("/").map((_, i, names) => names.slice(0, i + 1).join("/"));
  for (const folder of kind === "folder" ? folders : folders.slice(0, -1)) {
    if (isSent(folder, sent)) continue;
    if ((await kindOf(join(sent.projectDir, folder))) !== "folder") return null;
    const isEmpty = (await readdir(join(sent.projectDir, folder)).catch(() => [])).length === 0;
    const why = isEmpty
      ? "is an empty folder, and svc sends only files, as git does"
      : "is a folder of which no file is part of the run's code";
    return `${JSON.stringify(folder)} ${why}: let the script make it if it writes there (\`os.makedirs\`, \`mkdir -p\`).`;
  }
  return null;
}

function isSent(path: string, { paths }: SentProject): boolean {
  if (paths.has(path)) return true;
  for (const each of paths) if (each.startsWith(`${path}/`)) return true;
  return false;
}

async function whyNotSent(path: string, { projectDir, leftOut }: SentProject): Promise<string> {
  const names = leftOut?.names ?? [];
  const ignored = leftOut?.ignored_names ?? [];
  if (
    names.some((entry) => coversPath(entry.path, path)) ||
    ignored.some((entry) => coversPath(entry, path) || entry === `${path}/`)
  ) {
    const entries = names.map((entry) => ({ ...entry, missed: true }));
    return `${JSON.stringify(path)} ${await whyNotListed(projectDir, path, { leftOut: entries, ignored })}.`;
  }
  return `${JSON.stringify(path)} is in the project on this computer, and not in the run's code; \`svc code ls JOB --left-out\` names what was left out.`;
}

async function kindOf(path: string): Promise<"file" | "folder" | null> {
  try {
    return (await lstat(path)).isDirectory() ? "folder" : "file";
  } catch {
    return null;
  }
}
