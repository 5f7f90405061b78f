// Decides what to install on a machine before the script starts. Reads the code that was kept at submission: the
// directory may have changed since. The preview before renting shows the same decision.

import { DESCRIPTORS } from "../../providers/descriptors.ts";
import { withoutPasswords } from "../../domain/secret-names.ts";
import { commandLine } from "../../domain/shell-words.ts";
import { SvcError } from "../../errors/index.ts";
import { readSnapshot, type SnapshotPlace } from "../../files/code/code-snapshot.ts";
import { keptEntrypoint, type Entrypoint } from "../../files/entrypoint.ts";
import { installRecipe, type Recipe } from "../../files/install/install-recipe.ts";
import { hearingPasswords, snapshotReader, type ProjectReader } from "../../files/install/project-reader.ts";
import type { InstallPlan, InstallRecipe, InstallStep } from "../../schemas/install.ts";
import type { RunSpec } from "../../schemas/spec.ts";

/** The work of the install step: a shell command, or the script that creates the environment with the run's Python. */
export type Install =
  { command: string } | { environment: InstallRecipe; notes: string[]; passwords: string[] } | { skipped: string };

type SpecPart = Pick<RunSpec, "install" | "provider" | "image" | "entrypoint">;
const PACKAGES_SHOWN = 50;
/** Replaces a version that only git could tell. */
const NO_VERSION = "0.0.0";
/**
 * @param code the place of the run's code; null for a run that works in place, with this computer's packages. Throws
 * `install_refused` for a dependency that cannot be installed on any machine.
 */
export async function installCommand(spec: SpecPart, code: SnapshotPlace | null, projectDir: string): Promise<Install> {
  const given = givenInstall(spec, code === null);
  if (given !== null || code === null) return given ?? { skipped: "it works in place" };
  const snapshot = await readSnapshot(code);
  if (snapshot === null) return { skipped: "the project's code is not kept" };
  const entry = await keptEntrypoint(projectDir, spec.entrypoint, code);
  return installOf(spec, { project: snapshotReader(code.codeDir, snapshot), entry, describe: snapshot.git?.describe });
}

export function givenInstall(spec: SpecPart, inPlace: boolean): Install | null {
  if (spec.install === "none") return { skipped: "install is none" };
  if (spec.install !== "auto") return { command: spec.install };
  return inPlace ? { skipped: "a local run uses the packages that its Python has" } : null;
}

export async function installOf(
  spec: SpecPart,
  { project, entry, describe }: { project: ProjectReader; entry: Entrypoint; describe?: string | null | undefined },
): Promise<Install> {
  const heard = hearingPasswords(project);
  const recipe: Recipe = await installRecipe({ project: heard, entry, version: versionOf(describe ?? null) });
  if (recipe.nothing !== null) return { skipped: recipe.nothing };
  const conda = recipe.steps.find((step) => step.do === "conda");
  if (conda !== undefined && spec.image === undefined && DESCRIPTORS[spec.provider].withoutConda) {
    const why = `needs conda or mamba, and the default image of ${spec.provider} has neither: add a requirements.txt, or set image to one that has it`;
    throw new SvcError("install_refused", { what: conda.file, why });
  }
  const { steps, files, notes } = recipe;
  // A file that only the installer reads, such as that of conda.
  for (const file of files) await heard.read(file);
  return { environment: { steps, files }, notes, passwords: [...heard.passwords] };
}

/**
 * The version that a build would derive from `git describe --tags --long`: the tag itself, or the next one's
 * development version.
 */
export function versionOf(describe: string | null): string {
  const [, tag = "", distance = "", hash = ""] = /^(.*)-([0-9]+)-g([0-9a-f]+)(?:-dirty)?$/.exec(describe ?? "") ?? [];
  const version = /[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?$/.exec(tag)?.[0];
  if (version === undefined) return hash === "" ? NO_VERSION : `${NO_VERSION}.dev${distance}+g${hash}`;
  if (distance === "0" && !describe?.endsWith("-dirty")) return version;
  const next = version.replace(/(?:a|b|rc)[0-9]+$/, "").replace(/[0-9]+$/, (last) => String(Number(last) + 1));
  return `${next}.dev${distance}+g${hash}`;
}

/** The variables by which the installer gets its work: other users of the machine can read a command line. */
const COMMAND_VARIABLE = "SVC_INSTALL_COMMAND";
const RECIPE_VARIABLE = "SVC_INSTALL_RECIPE";

/** What the machine starts, and the variables that it needs for it. `layout`: the folders of a rented machine. */
export function installStart(
  install: Exclude<Install, { skipped: string }>,
  { python, layout }: { python: string; layout: () => { packages: string; environment: string } },
): { argv: string[]; variables: Record<string, string> } {
  if ("command" in install) {
    const shell = `c=$${COMMAND_VARIABLE}; unset ${COMMAND_VARIABLE}; eval "$c"`;
    return { argv: ["/bin/sh", "-c", shell], variables: { [COMMAND_VARIABLE]: install.command } };
  }
  const { packages, environment } = layout();
  const argv = [python, "-u", `${packages}/svc/_install.py`, environment];
  return { argv, variables: { [RECIPE_VARIABLE]: JSON.stringify(install.environment) } };
}

/** The same as text, for a preview before anything is rented. */
export function installPlan(install: Install): InstallPlan {
  const nothing = { steps: [], packages: [], notes: [] };
  if ("skipped" in install) return { does: "nothing", words: `Nothing is installed: ${install.skipped}.`, ...nothing };
  if ("command" in install)
    return {
      does: "command",
      words: "The command that `install` names is run.",
      ...nothing,
      steps: [withoutPasswords(install.command)],
    };
  const { steps, files } = install.environment;
  const packages = [...new Set(steps.flatMap((step) => (step.do === "packages" ? step.packages : [])))];
  return {
    does: "packages",
    words: `Installed from ${listed(files)}, into an environment that keeps the image's torch.`,
    steps: steps.map(stepWords),
    packages: packages.slice(0, PACKAGES_SHOWN).map(withoutPasswords),
    notes: install.notes.map(withoutPasswords),
  };
}

const listed = (files: readonly string[]): string =>
  files.length < 2 ? (files[0] ?? "nothing") : `${files.slice(0, -1).join(", ")} and ${files.at(-1)}`;

const inFolder = (folder: string, words: string): string => (folder === "" ? words : `in ${folder}: ${words}`);

function stepWords(step: InstallStep): string {
  switch (step.do) {
    case "requirements":
      return inFolder(step.folder, commandLine(["pip", "install", "-r", step.file]));
    case "packages": {
      const count = step.packages.length === 1 ? "one requirement" : `${step.packages.length} requirements`;
      const locked = step.constraints.length > 0 ? ", in the versions of its lock file" : "";
      return inFolder(step.folder, `${count} of ${step.file}${locked}`);
    }
    case "project":
      return inFolder(
        step.folder,
        `the project itself (${step.file}); if it cannot be built, its folder is added to Python's path, with a warning`,
      );
    case "uv":
      return inFolder(step.folder, `uv sync --frozen${step.all ? " --all-packages" : ""}`);
    case "pylock":
      return inFolder(step.folder, `uv pip install -r ${step.file}`);
    case "conda":
      return `${step.file}, by mamba or conda, which the machine has to have`;
  }
}
