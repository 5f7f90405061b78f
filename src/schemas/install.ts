// What is installed for a run's script before it starts: decided from the project's files, carried out on the machine by
// python/svc/_install.py.

import { z } from "zod";

/** A folder of the project, with `/`; empty for the project itself. */
const Folder = z.string();

export const InstallStep = z.discriminatedUnion("do", [
  /** A requirements file, by the name that it has in its folder. */
  z.object({ do: z.literal("requirements"), folder: Folder, file: z.string() }),
  /** Packages that a file of another form declares. */
  z.object({
    do: z.literal("packages"),
    folder: Folder,
    file: z.string(),
    packages: z.array(z.string()),
    /** Versions that a lock file has chosen, as `name==version`. */
    constraints: z.array(z.string()),
    indexes: z.array(z.string()),
  }),
  /** The project itself, built without its dependencies. Where that fails, `paths` are put on Python's path instead. */
  z.object({
    do: z.literal("project"),
    folder: Folder,
    file: z.string(),
    /** Stands where a build would ask git for a version. */
    version: z.string(),
    /** Whether only the built project says what it depends on. */
    dynamic: z.boolean(),
    paths: z.array(z.string()),
  }),
  z.object({
    do: z.literal("uv"),
    folder: Folder,
    name: z.string().nullable(),
    version: z.string(),
    /** Whether all members of a workspace are installed. */
    all: z.boolean(),
    paths: z.array(z.string()),
  }),
  z.object({ do: z.literal("pylock"), folder: Folder, file: z.string() }),
  z.object({ do: z.literal("conda"), folder: Folder, file: z.string() }),
]);
export type InstallStep = z.infer<typeof InstallStep>;

export const InstallRecipe = z.object({
  steps: z.array(InstallStep),
  /** The files that decided, in order. */
  files: z.array(z.string()),
});
export type InstallRecipe = z.infer<typeof InstallRecipe>;

export const InstallPlan = z
  .object({
    /** `nothing`, a `command` of the user's own, or `packages` that the project's files declare. */
    does: z.enum(["nothing", "command", "packages"]),
    /** One sentence. */
    words: z.string(),
    /** What is done, in order, each in words. */
    steps: z.array(z.string()),
    /** What is declared, as far as it is written in files other than requirements files; the first fifty. */
    packages: z.array(z.string()),
    /** What a person might miss: files that do not count, groups that are not installed. */
    notes: z.array(z.string()),
  })
  .meta({ id: "InstallPlan", description: "The packages to install before the script starts." });
export type InstallPlan = z.infer<typeof InstallPlan>;

export const StartPlan = z
  .object({
    /** The command of the first node, as words. */
    command: z.array(z.string()),
    /** Why it is started so. */
    words: z.string(),
    /** The interpreter of a local run, or what stands for the one of the machine. */
    python: z.string(),
  })
  .meta({ id: "StartPlan", description: "The command that starts the script, and its Python." });
export type StartPlan = z.infer<typeof StartPlan>;
