// Resolves the entrypoint of a run: a script of the project, or a module.

import type { Stats } from "node:fs";
import { access, constants, open, readdir, realpath, stat } from "node:fs/promises";
import { basename, delimiter, dirname, isAbsolute, join, normalize, relative, resolve, sep } from "node:path";
import { nearest } from "../domain/nearest.ts";
import { HEAD_BYTES, startOf, type Shebang, type Start } from "../domain/shebang.ts";
import { isMissing, SvcError } from "../errors/index.ts";
import { blobPath } from "./code/contents.ts";
import { readSnapshot, type SnapshotPlace } from "./code/code-snapshot.ts";
import { isWithin, realOrSame, whyUnreadable } from "./listing/project-files.ts";

export interface Entrypoint extends Omit<Start, "kind"> {
  kind: Start["kind"] | "module";
  /** Relative to the project, with `/`, never beginning with `-`; for `module` the module's name. */
  path: string;
}

/** A larger folder is not compared whole. */
const NEAR_FILES_MAX = 1_000;

const MODULE = /^-m[ \t]+([\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*)$/u;

/** How the entrypoint is run. Throws `entrypoint_not_found`, `entrypoint_outside_project`, `entrypoint_not_runnable`. */
export async function checkEntrypoint(projectDir: string, entrypoint: string): Promise<Entrypoint> {
  const notRunnable = (why: string, cause?: unknown) =>
    new SvcError("entrypoint_not_runnable", { entrypoint, why }, { cause });
  const outside = () => new SvcError("entrypoint_outside_project", { entrypoint, project_dir: projectDir });
  const module = MODULE.exec(entrypoint);
  if (module) return { kind: "module", path: module[1] ?? "" };
  if (/^-m([ \t]|$)/.test(entrypoint)) throw notRunnable("does not name a module as `-m package.module` does");

  const root = await realOrSame(projectDir);
  const absolute = isAbsolute(entrypoint) ? normalize(entrypoint) : resolve(root, entrypoint);
  // An absolute path may reach the project by another name, through a symlink.
  const lexical = [root, resolve(projectDir)].find((base) => isWithin(base, absolute));
  if (lexical === undefined) throw outside();
  let real: string;
  let stats: Stats;
  try {
    real = await realpath(absolute);
    stats = await stat(real);
  } catch (cause) {
    if (isMissing(cause)) {
      const near = await nearFile(absolute, lexical);
      throw new SvcError("entrypoint_not_found", { entrypoint, project_dir: projectDir, near }, { cause });
    }
    throw notRunnable(whyUnreadable(cause), cause);
  }
  if (!isWithin(root, real)) throw outside();
  if (stats.isDirectory()) throw notRunnable("is a directory");
  if (!stats.isFile()) throw notRunnable("is not a plain file");
  await access(real, constants.R_OK).catch((cause: unknown) => {
    throw notRunnable("cannot be read: permission denied", cause);
  });

  const inside = relative(lexical, absolute).split(sep).join("/");
  const executable = await access(real, constants.X_OK).then(
    () => (stats.mode & 0o111) !== 0,
    () => false,
  );
  const start = startOf(inside, await headOf(real), executable);
  if ("refused" in start) throw notRunnable(start.refused);
  return { ...start, path: plainPath(inside) };
}

/** The file in the same folder whose name is nearly this one, relative to the project; null if there is none. */
async function nearFile(absolute: string, root: string): Promise<string | null> {
  const entries = await readdir(dirname(absolute), { withFileTypes: true }).catch(() => []);
  const files = entries.flatMap((each) => (each.isFile() ? [each.name] : [])).slice(0, NEAR_FILES_MAX);
  const near = nearest(basename(absolute), files);
  return near === null
    ? null
    : relative(root, join(dirname(absolute), near))
        .split(sep)
        .join("/");
}

/** Keeps a path from being read as an option. */
const plainPath = (inside: string): string => (inside.startsWith("-") ? `./${inside}` : inside);

async function headOf(path: string): Promise<Buffer> {
  // NONBLOCK: if a pipe has replaced the file, opening it must not block.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * How the entrypoint is run where its code was kept and sent: the directory may have changed since, or be gone. Reads
 * the kept file first, then the directory; if both are missing, the name alone decides.
 */
export async function keptEntrypoint(projectDir: string, entrypoint: string, code: SnapshotPlace): Promise<Entrypoint> {
  const kept = MODULE.test(entrypoint) ? null : await keptStart(projectDir, entrypoint, code).catch(() => null);
  if (kept !== null) return kept;
  try {
    return await checkEntrypoint(projectDir, entrypoint);
  } catch (e) {
    if (!(e instanceof SvcError && e.code === "entrypoint_not_found")) throw e;
    const path = relative(projectDir, resolve(projectDir, entrypoint));
    return { kind: path.endsWith(".py") ? "python" : path.endsWith(".sh") ? "sh" : "exec", path };
  }
}

async function keptStart(projectDir: string, entrypoint: string, code: SnapshotPlace) {
  const root = await realOrSame(projectDir);
  const absolute = resolve(root, entrypoint);
  const lexical = [root, resolve(projectDir)].find((base) => isWithin(base, absolute)) ?? root;
  const inside = relative(lexical, absolute).split(sep).join("/");
  const file = (await readSnapshot(code))?.files.find(({ path }) => path === inside);
  if (file === undefined || file.sha256 === null) return null;
  const start = startOf(inside, await headOf(blobPath(code.codeDir, file.sha256)), file.mode === "executable");
  return "refused" in start ? null : { ...start, path: plainPath(inside) };
}

/**
 * Checks that the interpreter in the entrypoint's first line exists on this computer. Throws `entrypoint_not_runnable`,
 * which quotes the line.
 *
 * @param path the folders to search for programs, in the form of PATH.
 */
export async function checkInterpreter(
  projectDir: string,
  entrypoint: string,
  entry: Entrypoint,
  path: string,
): Promise<void> {
  const { shebang } = entry;
  if (shebang === undefined) return;
  const missing = await missingOf(shebang, projectDir, path);
  if (missing === null) return;
  const why = `begins with \`${shebang.line}\`, and there is no ${missing} on this computer: correct the line, or install what it names`;
  throw new SvcError("entrypoint_not_runnable", { entrypoint, why });
}

async function missingOf(shebang: Shebang, cwd: string, path: string): Promise<string | null> {
  const { interpreter, program } = shebang;
  if (!(await isProgram(resolve(cwd, interpreter)))) return `program ${interpreter}`;
  if (program === null || program === interpreter) return null;
  if (program.includes("/")) return (await isProgram(resolve(cwd, program))) ? null : `program ${program}`;
  return (await programOnPath(program, path)) === null ? `program ${program} on the PATH` : null;
}

export async function programOnPath(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(delimiter)) {
    const candidate = join(folder, name);
    if (isAbsolute(folder) && (await isProgram(candidate))) return candidate;
  }
  return null;
}

export async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
