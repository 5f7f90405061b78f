// What a run starts: a script of the project, or a module.

import type { Stats } from "node:fs";
import { access, constants, realpath, stat } from "node:fs/promises";
import { isAbsolute, normalize, relative, resolve, sep } from "node:path";
import { isMissing, SvcError } from "../errors/index.ts";
import { isWithin, realOrSame, whyUnreadable } from "./project-files.ts";

export interface Entrypoint {
  kind: "python" | "module" | "sh" | "exec";
  /** Relative to the project, with `/`, never beginning with `-`; for `module` the module's name. */
  path: string;
}

const MODULE = /^-m[ \t]+([\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*)$/u;

/** How the entrypoint is run. Throws `entrypoint_not_found`, `entrypoint_outside_project`, `entrypoint_not_runnable`. */
export async function checkEntrypoint(projectDir: string, entrypoint: string): Promise<Entrypoint> {
  const notRunnable = (why: string, cause?: unknown) =>
    new SvcError("entrypoint_not_runnable", { entrypoint, why }, { cause });
  const outside = () => new SvcError("entrypoint_outside_project", { entrypoint, project_dir: projectDir });
  const module = MODULE.exec(entrypoint);
  if (module) return { kind: "module", path: module[1]! };
  if (/^-m([ \t]|$)/.test(entrypoint)) throw notRunnable("does not name a module as `-m package.module` does");

  const root = await realOrSame(projectDir);
  const absolute = isAbsolute(entrypoint) ? normalize(entrypoint) : resolve(root, entrypoint);
  // An absolute path may spell the project by another name, through a link.
  const lexical = [root, resolve(projectDir)].find((base) => isWithin(base, absolute));
  if (lexical === undefined) throw outside();
  let real: string;
  let stats: Stats;
  try {
    real = await realpath(absolute);
    stats = await stat(real);
  } catch (cause) {
    if (isMissing(cause)) {
      throw new SvcError("entrypoint_not_found", { entrypoint, project_dir: projectDir }, { cause });
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
  const path = inside.startsWith("-") ? `./${inside}` : inside;
  if (path.endsWith(".py")) return { kind: "python", path };
  if (path.endsWith(".sh")) return { kind: "sh", path };
  if ((stats.mode & 0o111) === 0) throw notRunnable("is not executable");
  return { kind: "exec", path };
}
