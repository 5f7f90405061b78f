// Removing runs, and single checkpoints of ended runs.

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

export const CheckpointRemovalBody = z
  .strictObject({
    names: z.array(z.string().min(1).max(4_096)).min(1).max(200).meta({
      description: "Names of checkpoints, as `resume-points` lists them, or of files that belong to no checkpoint.",
    }),
    dry_run: z.boolean().default(false).meta({ description: "Only checks and measures; nothing is deleted." }),
  })
  .meta({ id: "CheckpointRemovalBody" });
export type CheckpointRemovalBody = z.infer<typeof CheckpointRemovalBody>;

export const CheckpointsRemoved = z
  .object({
    id: z.string(),
    dry_run: z.boolean(),
    checkpoints: z.array(
      z.object({
        name: z.string(),
        files: z.int().meta({ description: "0 if it had been removed before." }),
        bytes: z.int().meta({ description: "The sum of the lengths of its files." }),
      }),
    ),
    freed_bytes: z.int().meta({
      description: "Disk space that is free now. A file with several hard links among the removed ones counts once.",
    }),
    linked_bytes: z.int().meta({
      description: "Disk space that stays in use, because other files are hard links to the same content.",
    }),
    left_bytes: z
      .int()
      .meta({ description: "Disk space of files that could not be deleted yet. svc retries until it succeeds." }),
  })
  .meta({ id: "CheckpointsRemoved" });
export type CheckpointsRemoved = z.infer<typeof CheckpointsRemoved>;
