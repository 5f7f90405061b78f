// The differences between two code snapshots, in the shapes of the API and the CLI.

import { z } from "zod";
import { CodeFile, LeftOut } from "./job.ts";

/** The longer list of excluded files, which the home keeps: at most 2,000 names of each kind. */
export const LeftOutList = LeftOut.extend({ ignored_names: z.array(z.string()) }).meta({ id: "LeftOutList" });
export type LeftOutList = z.infer<typeof LeftOutList>;

export const CodeFiles = z
  .object({ id: z.string(), files: z.array(CodeFile), bytes: z.int() })
  .meta({ id: "CodeFiles" });

export const CodeChange = z
  .object({
    path: z.string(),
    /** The file's earlier path: differs from `path` only for `renamed`; null for `added`. */
    old_path: z.string().nullable(),
    status: z.enum(["added", "removed", "changed", "renamed", "mode"]),
    old_mode: CodeFile.shape.mode.nullable(),
    new_mode: CodeFile.shape.mode.nullable(),
    old_size: z.int().nullable(),
    new_size: z.int().nullable(),
    /** Not text: a NUL byte near its beginning, or not UTF-8. */
    binary: z.boolean(),
    added_lines: z.int(),
    removed_lines: z.int(),
    /** Unified hunks (`@@ -1,3 +1,4 @@`); null if there are none. `note` then gives the reason unless it is obvious. */
    patch: z.string().nullable(),
    note: z.string().nullable(),
  })
  .meta({ id: "CodeChange" });
export type CodeChange = z.infer<typeof CodeChange>;

/** A job's snapshot, or the current state of a directory. */
const Side = z.object({
  job_id: z.string().nullable(),
  code_snapshot: z.string().nullable(),
  directory: z.string().nullable(),
});

export const CodeDiff = z
  .object({
    from: Side,
    to: Side,
    changes: z.array(CodeChange),
    added_lines: z.int(),
    removed_lines: z.int(),
  })
  .meta({ id: "CodeDiff", description: "The changes from one side to the other." });
export type CodeDiff = z.infer<typeof CodeDiff>;
