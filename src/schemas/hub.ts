// Downloads of models from the hub, and the models on this computer.

import { z } from "zod";
import { Instant, JobError } from "./job.ts";
import { line } from "./line.ts";

const PATTERNS_MAX = 1_000;

/** `owner/name`, or the name alone for the hub's oldest models. Each part is also a folder's name on every system. */
export const ModelId = line(200)
  .refine(
    (id) =>
      /^[A-Za-z0-9_][\w.-]{0,95}(\/[A-Za-z0-9_][\w.-]{0,95})?$/.test(id) &&
      !/--|\.\.|[.-](\/|$)|\.git$/.test(id) &&
      !/(^|\/)(con|prn|aux|nul|com\d|lpt\d)(\.|\/|$)/i.test(id),
    "must be owner/name, of letters, digits, `.`, `_` and `-`",
  )
  .meta({ id: "ModelId", title: "Model", description: "`owner/name`, as on the model's page." });

export const HubPullBody = z
  .strictObject({
    model_id: ModelId,
    revision: line(255)
      .refine((r) => !/(^|\/)\.{0,2}(\/|$)|[\\:*?"<>|]|\.lock$/.test(r), "must be a branch, a tag or a commit")
      .nullish()
      .meta({ title: "Revision", description: "A branch, a tag or a commit (default `main`)." }),
    local_dir: line(4_096).nullish().meta({
      title: "Folder",
      description:
        "An absolute path or one that begins with `~`. Default: the cache directory if one is set, otherwise `models/` in the home.",
    }),
    allow_patterns: z
      .union([line(1_024), z.array(line(1_024)).max(PATTERNS_MAX)])
      .nullish()
      .meta({
        title: "Only these files",
        description:
          "Shell patterns for whole paths; `*` also matches `/`. Files that match any pattern are downloaded.",
      }),
    token: line(4_096).nullish().meta({
      title: "Token",
      description: "Token for this pull only, instead of the configured one. It is not stored.",
    }),
  })
  .meta({ id: "HubPullBody" });
export type HubPullBody = z.infer<typeof HubPullBody>;

export const HubPullStatus = z.enum(["running", "succeeded", "failed", "cancelled", "interrupted"]);
export const HubPullPhase = z.enum(["waiting", "resolving", "checking", "downloading", "publishing"]);
export type HubPullPhase = z.infer<typeof HubPullPhase>;

export const HubPullNote = z
  .object({
    kind: z.enum(["queued", "retrying"]).meta({ description: "`queued`: another pull writes to the same place." }),
    message: z.string(),
    retry_in_seconds: z.int().nullable().meta({ description: "With `retrying`: the wait before the next attempt." }),
  })
  .meta({ id: "HubPullNote" });
export type HubPullNote = z.infer<typeof HubPullNote>;

export const HubPull = z
  .object({
    id: z.string(),
    model_id: z.string(),
    revision: z.string().meta({ description: "The requested revision." }),
    commit: z.string().nullable().meta({ description: "The commit of the revision; null until it is resolved." }),
    status: HubPullStatus,
    phase: HubPullPhase.nullable().meta({ description: "The current phase; null when the pull has ended." }),
    path: z.string().nullable().meta({ description: "The folder of the model; null until the download is complete." }),
    files_total: z.int().nullable(),
    files_done: z.int(),
    bytes_total: z.int().nullable(),
    bytes_done: z.int().meta({ description: "Bytes verified or downloading, including those from earlier pulls." }),
    bytes_per_second: z.int().nullable().meta({ description: "Over the last few seconds." }),
    note: HubPullNote.nullable().meta({ description: "Why the download is paused or waiting." }),
    error: JobError.nullable(),
    started_at: Instant,
    ended_at: Instant.nullable(),
  })
  .meta({ id: "HubPull" });
export type HubPull = z.infer<typeof HubPull>;

export const HubPulled = z
  .object({
    path: z.string().meta({ description: "The model's folder, absolute." }),
    revision: z.string().meta({ description: "The commit." }),
    files: z.int(),
    bytes: z.int(),
  })
  .meta({ id: "HubPulled" });
export type HubPulled = z.infer<typeof HubPulled>;

export const HubModel = z
  .object({
    model_id: z.string().nullable().meta({ description: "Null for a model that was registered from a folder." }),
    path: z.string(),
    revision: z.string().nullable().meta({ description: "The commit; null if unknown." }),
    files: z.int(),
    bytes: z.int(),
    pulled_at: Instant.nullable(),
    source: z.enum(["folder", "cache", "adopted"]).meta({
      description: "A folder managed by svc, the cache shared with the hub's own library, or a folder of the user.",
    }),
  })
  .meta({ id: "HubModel" });
export type HubModel = z.infer<typeof HubModel>;

export const HubAdoptBody = z.strictObject({ path: line(4_096) }).meta({ id: "HubAdoptBody" });
export type HubAdoptBody = z.infer<typeof HubAdoptBody>;

export const HubAdopted = z
  .object({
    path: z.string().meta({ description: "Absolute path, symlinks resolved." }),
    kind: z.enum(["transformers", "adapter", "diffusers", "sentence-transformers", "gguf"]),
    files: z.int(),
    bytes: z.int(),
    warnings: z
      .array(z.string())
      .meta({ description: "Files that are missing but often needed, such as a tokenizer." }),
  })
  .meta({ id: "HubAdopted" });
export type HubAdopted = z.infer<typeof HubAdopted>;

/** A live hint on the feed: the progress of a pull. Not replayed; `pull.started` and `pull.ended` are events. */
export const HubPullHint = z
  .object({ type: z.literal("pull.progress"), job_id: z.null(), pull: HubPull })
  .meta({ id: "HubPullHint" });
export type HubPullHint = z.infer<typeof HubPullHint>;
