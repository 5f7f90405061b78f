// Previews what a run would install and how it would start its script, before anything is rented.

import { runsHere } from "../providers/descriptors.ts";
import { checkEntrypoint, type Entrypoint } from "../files/entrypoint.ts";
import { directoryReader } from "../files/install/project-reader.ts";
import type { InstallPlan, StartPlan } from "../schemas/install.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { givenInstall, installOf, installPlan } from "../steps/launch/install-command.ts";
import { shownCommand } from "../steps/launch/launcher-argv.ts";
import { localPython } from "../steps/launch/local-python.ts";

export interface PreviewRequest {
  projectDir: string;
  spec: RunSpec;
  /** The project files that would be sent. */
  files: readonly { path: string }[];
  env: NodeJS.ProcessEnv;
  /** The Python of this computer. */
  python: () => Promise<string>;
}

/** Throws the errors of a submission. */
export async function preview(request: PreviewRequest): Promise<{ install: InstallPlan; start: StartPlan }> {
  const { projectDir, spec, files, env } = request;
  const inPlace = runsHere(spec.provider);
  const entry = await checkEntrypoint(projectDir, spec.entrypoint);
  const install =
    givenInstall(spec, inPlace) ?? (await installOf(spec, { project: directoryReader(projectDir, files), entry }));
  const python = inPlace
    ? await localPython({ spec, projectDir, entry, env, otherwise: request.python })
    : "environment" in install
      ? "python of the environment that is made"
      : "python3 of the machine";
  const shown = inPlace ? python : "environment" in install ? "python" : "python3";
  const masterAddress = spec.nodes > 1 ? "NODE_0" : "127.0.0.1";
  const command = shownCommand({ spec, entry, python: shown, node: 0, masterAddress, inPlace });
  return { install: installPlan(install), start: { command, words: whyOf(entry), python } };
}

function whyOf({ kind, shebang, named }: Entrypoint): string {
  const line = shebang === undefined ? "" : ` (\`${shebang.line}\`)`;
  switch (kind) {
    case "module":
      return "A module is started by the run's Python.";
    case "python":
      return named === undefined
        ? "A Python script is started by the run's Python."
        : `A Python script is started by the Python that its first line names${line}.`;
    case "exec":
      return shebang === undefined
        ? "A program starts unchanged."
        : `An executable script is started as its first line says${line}.`;
    case "interpreter":
      return `A script that is not executable is handed to the interpreter that its first line names${line}.`;
    case "sh":
      return "A shell script without a first line `#!…` is run by bash, or by sh where there is no bash.";
  }
}
