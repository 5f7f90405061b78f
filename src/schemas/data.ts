// Data manifests: named lists of files with size and digest, in the shapes of the API and of the stored file.

import { z } from "zod";
import { Instant } from "./job.ts";

/** Name of a data manifest: valid as a file name on every system, and as one part of a path. */
export const DATA_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

const Left = z.object({
  path: z.string(),
  why: z.string(),
  leaves: z.literal(true).optional().meta({
    description: "A symlink that leaves the folder: it is added with `follow_links`.",
  }),
});
export type DataLeftOut = z.infer<typeof Left>;

export const DataSummary = z
  .object({
    name: z.string(),
    files: z.int(),
    bytes: z.int(),
    /** Digest of the whole: SHA-256 of all files' digests, sizes and paths in order. Times and places do not enter. */
    sha256: z.string(),
    /** The folders of the files on this computer, absolute. */
    roots: z.array(z.string()),
    follow_links: z.boolean(),
    created_at: Instant,
    /** When all files last matched the manifest. */
    checked_at: Instant,
    /** Files that were found but are not part of the data; at most 1,000 of `left_out_count`. */
    left_out: z.array(Left),
    left_out_count: z.int(),
  })
  .meta({ id: "DataSummary" });
export type DataSummary = z.infer<typeof DataSummary>;

export const DataList = z
  .object({ data: z.array(DataSummary), damaged: z.array(z.object({ name: z.string(), why: z.string() })) })
  .meta({ id: "DataList" });

export const DataFile = z.object({ path: z.string(), size: z.int(), sha256: z.string() });
export type DataFile = z.infer<typeof DataFile>;

export const DataDetail = z
  .object({ data: DataSummary, files: z.array(DataFile), next_cursor: z.string().nullable() })
  .meta({ id: "DataDetail", description: "Files sorted by path, a page at a time." });

export const DataReport = z
  .object({
    name: z.string(),
    ok: z.boolean(),
    files: z.int(),
    bytes: z.int(),
    changed: z.array(Left),
    missing: z.array(z.string()),
    unreadable: z.array(Left),
    /** Existing files that the manifest does not name. */
    extra: z.array(z.string()),
    /** The files that had to be read: those whose size or times differ from the recorded ones. */
    read_files: z.int(),
    read_bytes: z.int(),
  })
  .meta({ id: "DataReport" });
export type DataReport = z.infer<typeof DataReport>;

/**
 * A stored manifest. A file is `[path, size, sha256, mtime, ctime, inode]`, times in milliseconds; an inode of -1 means
 * that its times cannot be trusted, because it was modified at about the time it was read.
 */
export const DataManifest = z.object({
  version: z.literal(1),
  name: z.string().regex(DATA_NAME),
  sha256: z.string(),
  bytes: z.int(),
  follow_links: z.boolean(),
  created_at: Instant,
  /** Taken from the modification time of the manifest file. */
  checked_at: Instant.default("1970-01-01T00:00:00.000Z"),
  /** `into` is the path of the root within the data: empty if its files are at the top. */
  roots: z.array(z.object({ path: z.string(), into: z.string(), folder: z.boolean() })),
  files: z.array(z.tuple([z.string(), z.number(), z.string(), z.number(), z.number(), z.number()])),
  left_out: z.array(Left),
  left_out_count: z.int(),
});
export type DataManifest = z.infer<typeof DataManifest>;
