// The Python of a run on this computer, and the variables that make its subprocesses use the same one.
//
// Y1. The Python that the script's first line names comes first, as by hand; then `python` of the spec; then the one of svc.
// Y2. The path is used unresolved: the real file behind a virtual environment's symlink would not see its packages.

import { existsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { isReference } from "../../domain/secret-names.ts";
import { SvcError } from "../../errors/index.ts";
import { isProgram, programOnPath, type Entrypoint } from "../../files/entrypoint.ts";
import { askPython } from "../../providers/local/python.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { withoutTilde } from "../../platform/user-home.ts";

/** The minimum version of `python`: `svc` itself needs it. */
const MINOR_MIN = 10;
type Env = Readonly<Record<string, string | undefined>>;

export interface PythonPlace {
  spec: Pick<RunSpec, "python" | "env" | "entrypoint">;
  projectDir: string;
  entry: Pick<Entrypoint, "named">;
  env: Env;
  /** The Python of svc. */
  otherwise: () => Promise<string>;
}

/** The folders in which programs of the run are searched. */
export const searchPathOf = (spec: Pick<RunSpec, "env">, env: Env): string => {
  const given = spec.env["PATH"];
  return given === undefined || isReference(given) ? (env["PATH"] ?? "") : given;
};

/** Absolute path of the interpreter. Throws `python_refused`, `python_missing`, and `entrypoint_not_runnable` for one that a first line names. */
export async function localPython({ spec, projectDir, entry, env, otherwise }: PythonPlace): Promise<string> {
  const { named } = entry;
  if (named !== undefined) {
    const found = named.includes("/")
      ? resolve(projectDir, named)
      : await programOnPath(named, searchPathOf(spec, env));
    if (found !== null) return found;
    const why = `names ${named} in its first line, and there is none on the PATH of this computer`;
    throw new SvcError("entrypoint_not_runnable", { entrypoint: spec.entrypoint, why });
  }
  return spec.python === undefined ? otherwise() : chosenPython(spec.python, projectDir, searchPathOf(spec, env), env);
}

async function chosenPython(python: string, projectDir: string, path: string, env: Env): Promise<string> {
  const refused = (why: string) => new SvcError("python_refused", { python, why });
  const found = await located(python, projectDir, path);
  if (found === null)
    throw refused(
      python.includes("/") || python.startsWith("~")
        ? "there is no such program on this computer"
        : "no program of that name is on the PATH",
    );
  const told = await askPython(found, env);
  if (told === null) throw refused("its answer is not a Python interpreter's");
  const [major = 0, minor = 0] = told.version.split(".").map(Number);
  if (major < 3 || (major === 3 && minor < MINOR_MIN))
    throw refused(`it is Python ${told.version}, and svc needs 3.${MINOR_MIN} or newer`);
  return found;
}

/** A command, a path (also `~/…`, or relative to the project), or the folder of an environment. */
async function located(python: string, projectDir: string, path: string): Promise<string | null> {
  const spelled = withoutTilde(python);
  const onPath = spelled.includes("/") ? null : await programOnPath(spelled, path);
  if (onPath !== null) return onPath;
  const absolute = resolve(projectDir, spelled);
  for (const candidate of [absolute, join(absolute, "bin", "python")]) if (await isProgram(candidate)) return candidate;
  return null;
}

/**
 * Variables that make `python`, `pip` and `torchrun` in a run's subprocesses belong to this interpreter's environment.
 * Null removes a variable.
 *
 * @param env the environment that the run would inherit.
 */
export async function pythonVariables(python: string, env: Env): Promise<Record<string, string | null>> {
  const bin = dirname(python);
  const prefix = dirname(bin);
  const path = env["PATH"] ?? "";
  const first = (await programOnPath("python3", path)) ?? (await programOnPath("python", path));
  const isVirtual = existsSync(join(prefix, "pyvenv.cfg"));
  const isConda = existsSync(join(prefix, "conda-meta"));
  const dropped = (name: string): Record<string, null> => (env[name] === undefined ? {} : { [name]: null });
  return {
    ...(first !== null && dirname(first) === bin ? {} : { PATH: path === "" ? bin : `${bin}:${path}` }),
    ...(isVirtual ? { VIRTUAL_ENV: prefix, ...dropped("PYTHONHOME") } : dropped("VIRTUAL_ENV")),
    ...(isConda
      ? { CONDA_PREFIX: prefix, ...(env["CONDA_PREFIX"] === prefix ? {} : { CONDA_DEFAULT_ENV: basename(prefix) }) }
      : isVirtual
        ? {}
        : dropped("CONDA_PREFIX")),
  };
}
