// Removing runs, and keeping only some of their checkpoints.

import { z } from "zod";

export const Removed = z
  .object({
    id: z.string(),
    freed_bytes: z
      .int()
      .meta({ description: "What the run's own files took; code that other runs use as well is not counted." }),
  })
  .meta({ id: "Removed" });
export type Removed = z.infer<typeof Removed>;
