// Removing runs, and keeping only some of their checkpoints.

import { z } from "zod";

export const Removed = z
  .object({
    id: z.string(),
    freed_bytes: z
      .int()
      .meta({ description: "Disk space freed by the run's own files; code shared with other runs is not counted." }),
  })
  .meta({ id: "Removed" });
export type Removed = z.infer<typeof Removed>;
