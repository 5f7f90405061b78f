// The packages to install before a run's script starts: chosen from the project's files, installed on the machine by
// python/svc/_install.py.

import { z } from "zod";

/** A folder of the project, with `/`; empty for the project itself. */
const Folder = z.string();

export const InstallStep = z.discriminatedUnion("do", [
  /** A requirements file, by its name in its folder. */
  z.object({ do: z.literal("requirements"), folder: Folder, file: z.string() }),
  /** Packages that a file of another form declares. */
  z.object({
    do: z.literal("packages"),
    folder: Folder,
    file: z.string(),
    packages: z.array(z.string()),
    /** Versions pinned by a lock file, as `name==version`. */
    constraints: z.array(z.string()),
    indexes: z.array(z.string()),
  }),
  /** The project itself, built without its dependencies. If that fails, `paths` are put on Python's path instead. */
  z.object({
    do: z.literal("project"),
    folder: Folder,
    file: z.string(),
    /** The version to use where a build would ask git for one. */
    version: z.string(),
    /** Whether only the built project knows its dependencies. */
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
  /** The project files that determined the plan, in order. */
  files: z.array(z.string()),
});
export type InstallRecipe = z.infer<typeof InstallRecipe>;

export const InstallPlan = z
  .object({
    /** `nothing`, a `command` of the user's own, or `packages` that the project's files declare. */
    does: z.enum(["nothing", "command", "packages"]),
    /** One sentence. */
    words: z.string(),
    /** The actions in order, each as a sentence. */
    steps: z.array(z.string()),
    /** The declared packages, except those in requirements files; the first fifty. */
    packages: z.array(z.string()),
    /** Possible surprises: files that are ignored, groups that are not installed. */
    notes: z.array(z.string()),
  })
  .meta({ id: "InstallPlan", description: "The packages to install before the script starts." });
export type InstallPlan = z.infer<typeof InstallPlan>;

export const StartPlan = z
  .object({
    /** The command of the first node, as a list of words. */
    command: z.array(z.string()),
    /** The reason for this way of starting it. */
    words: z.string(),
    /** The interpreter of a local run, or a placeholder for the one on the machine. */
    python: z.string(),
  })
  .meta({ id: "StartPlan", description: "The command that starts the script, and its Python." });
export type StartPlan = z.infer<typeof StartPlan>;
