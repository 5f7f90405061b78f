// Pins the data of a run: checks it at submission, and keeps the manifests of that moment, whatever happens to the
// names later.

import { copyFileSync, linkSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { quotedName } from "../../domain/quoted-name.ts";
import { asSvcError, isMissing, SvcError, systemCode } from "../../errors/index.ts";
import type { DataManifest } from "../../schemas/data.ts";
import { readManifest, readManifestFile } from "./store.ts";
import { doubts } from "./verify.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** A manifest is replaced and never modified in place, so a hard link to it keeps its content. */
const pinFile = (home: string, jobId: string, name: string): string => homeLayout.pinnedData(home, jobId, name);

/**
 * Throws `data_unavailable`, naming the field, if a name is unknown or its files differ from the manifest. Reads no
 * data.
 */
export async function checkData(home: string, names: readonly string[]): Promise<void> {
  for (const [i, name] of names.entries()) {
    const refuse = (why: string, cause?: unknown, unknown = false): never => {
      const error = new SvcError("data_unavailable", { name: quotedName(name), why, unknown }, { cause });
      throw new SvcError(error.code, error.data, {
        cause,
        errors: [{ field: `spec.data[${i}]`, message: error.message }],
      });
    };
    let manifest: DataManifest;
    try {
      manifest = readManifest(home, name);
    } catch (cause) {
      const { code, message } = asSvcError(cause);
      if (code === "data_not_found") refuse("no data has that name", cause, true);
      refuse(message.replace(/\.$/, ""), cause);
      continue;
    }
    const why = await doubts(manifest);
    if (why !== null) refuse(why);
  }
}

/** Call before the job is recorded. Idempotent. Returns a function that undoes it, in case the job is not recorded. */
export function pinData(home: string, jobId: string, names: readonly string[]): () => void {
  for (const name of new Set(names)) {
    const pin = pinFile(home, jobId, name);
    mkdirSync(join(pin, ".."), { recursive: true, mode: 0o700 });
    try {
      linkSync(homeLayout.dataManifest(home, name), pin);
    } catch (cause) {
      const code = systemCode(cause);
      if (code === "EEXIST") continue;
      if (isMissing(cause))
        throw new SvcError("data_unavailable", { name, why: "it was removed meanwhile" }, { cause });
      copyFileSync(homeLayout.dataManifest(home, name), pin); // a file system without hard links
    }
  }
  return () => {
    if (names.length > 0) rmSync(homeLayout.run(home, jobId), { recursive: true, force: true });
  };
}

/** Each manifest once, in the order of the spec. Throws `data_manifest_damaged`. */
export const pinnedData = (home: string, jobId: string, names: readonly string[]): DataManifest[] =>
  [...new Set(names)].map((name) => readManifestFile(pinFile(home, jobId, name), name));
