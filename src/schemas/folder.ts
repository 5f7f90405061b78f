// A folder on this computer, for the form of a new run.

import { z } from "zod";

export const Folder = z
  .object({
    path: z.string().meta({ description: "The real path, absolute." }),
    parent: z.string().nullable().meta({ description: "The folder above; null at the top." }),
    folders: z.array(z.string()).meta({ description: "Names of the folders in it, hidden ones left out, in order." }),
    scripts: z.array(z.string()).meta({
      description: "Scripts (.py and .sh) in it and in its folders, relative to it: what a run may start with.",
    }),
    truncated: z.boolean().meta({ description: "Whether it has more folders or scripts than are listed." }),
  })
  .meta({ id: "Folder" });
export type Folder = z.infer<typeof Folder>;
