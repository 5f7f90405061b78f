// The places in which a model is assembled. There are two layouts: a folder of its own, and the cache of the hub's own
// library. docs/internals/adr/0019 says why.

import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { isMissing, SvcError, systemCode } from "../errors/index.ts";
import type { HubFile } from "./client.ts";

export interface Release {
  modelId: string;
  /** The revision in the request: a branch, a tag or a commit. */
  revision: string;
  commit: string;
  /** `files` are the chosen files, `all` every file of the commit. */
  files: readonly HubFile[];
  all: readonly HubFile[];
  pulledAt: string;
}

/** The two paths of one content. */
export interface BlobPlaces {
  /** `whole` is the path of the complete file, `partial` of its beginning until then. */
  whole: string;
  partial: string;
}

export interface Place {
  /** Two pulls with the same key must not write at once. */
  readonly key: string;
  /** An existing folder on the disk that the model will fill. */
  readonly disk: string;
  /** Finishes work that a crash left, and refuses an impossible place. */
  prepare(): Promise<void>;
  blob(file: HubFile): BlobPlaces;
  /** Files that already exist as listed. */
  kept(files: readonly HubFile[], signal: AbortSignal): Promise<Set<string>>;
  /** Makes the whole model visible at once; resolves with its folder. Every blob that is not kept exists by now. */
  publish(release: Release, kept: ReadonlySet<string>): Promise<string>;
}

/** Null if nothing exists there. An unreadable path may hold something, and is left alone: `hub_folder_refused`. */
export async function statsOf(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (thrown) {
    if (isMissing(thrown)) return null;
    const why = `cannot be looked at (${systemCode(thrown)})`;
    throw new SvcError("hub_folder_refused", { path, why }, { cause: thrown });
  }
}

/** The format by which the hub's library recognises a file that it downloaded into a folder. */
export const TREE_FORMAT = 1;

/** The list of a commit's files, in the form that the library keeps next to them. */
export function treeListing(all: readonly HubFile[]): string {
  const files = Object.fromEntries(
    all
      .toSorted((a, b) => (a.path < b.path ? -1 : 1))
      .map((file) => [
        file.path,
        {
          size: file.size,
          blob_id: file.oid,
          ...(file.sha256 === null ? {} : { lfs_sha256: file.sha256, lfs_size: file.size }),
          ...(file.xetHash === null ? {} : { xet_hash: file.xetHash }),
        },
      ]),
  );
  return JSON.stringify({ format_version: TREE_FORMAT, files }, null, 1);
}

/** Backup programs skip folders with this file. */
export const CACHEDIR_TAG =
  "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag. See https://bford.info/cachedir/ for what it means.\n";
