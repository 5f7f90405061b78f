// Where a model is put together. There are two layouts: a folder of its own, and the cache of the hub's own library.
// docs/adr/0019 says why.

import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { isMissing, SvcError, systemCode } from "../errors/index.ts";
import type { HubFile } from "./client.ts";

export interface Release {
  modelId: string;
  /** As asked for. */
  revision: string;
  commit: string;
  /** Those that were chosen, and all that the commit has. */
  files: readonly HubFile[];
  all: readonly HubFile[];
  pulledAt: string;
}

/** Of one content. */
export interface BlobPlaces {
  /** Where the whole one is to lie, and where its beginning lies until then. */
  whole: string;
  partial: string;
}

export interface Place {
  /** What no two pulls may write at once. */
  readonly key: string;
  /** A folder that exists, on the disk that the model will fill. */
  readonly disk: string;
  /** Makes ready: finishes what a crash left half-way, refuses what cannot be. */
  prepare(): Promise<void>;
  blob(file: HubFile): BlobPlaces;
  /** Files that lie there already as they are listed. */
  kept(files: readonly HubFile[], signal: AbortSignal): Promise<Set<string>>;
  /** Shows the whole model at once; resolves with its folder. Every blob that is not kept is there by now. */
  publish(release: Release, kept: ReadonlySet<string>): Promise<string>;
}

/** Null where nothing is there. What cannot be looked at may be something, and is left alone: `hub_folder_refused`. */
export async function statsOf(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (thrown) {
    if (isMissing(thrown)) return null;
    const why = `cannot be looked at (${systemCode(thrown)})`;
    throw new SvcError("hub_folder_refused", { path, why }, { cause: thrown });
  }
}

/** How the hub's library knows a file that it downloaded into a folder. */
export const TREE_FORMAT = 1;

/** The list of a commit's files, as that library keeps it beside them. */
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

/** Backup programs leave such folders out. */
export const CACHEDIR_TAG =
  "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag. See https://bford.info/cachedir/ for what it means.\n";
