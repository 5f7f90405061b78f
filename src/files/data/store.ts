// The data manifests of a home: one file each, replaced atomically, so that a reader finds either the old or the new
// one.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs";
import { quotedName } from "../../domain/quoted-name.ts";
import { isInside } from "../../domain/relative-path.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { isMissing, orDiskFull, SvcError, systemCode } from "../../errors/index.ts";
import { DATA_NAME, DataManifest, type DataSummary } from "../../schemas/data.ts";
import { homeLayout } from "../../platform/home-layout.ts";

const ENDING = ".json";

/** Throws `data_name_refused`. Names that differ only in case would be one file on some systems. */
export function checkDataName(home: string, name: string): void {
  const refuse = (why: string): never => {
    throw new SvcError("data_name_refused", { name: JSON.stringify(name.slice(0, 100)), why });
  };
  if (!DATA_NAME.test(name) || name.endsWith(".")) refuse("it is not a plain name");
  if (/^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)/i.test(name)) refuse("some systems keep this name for themselves");
  const other = namesOf(home).find((known) => known !== name && known.toLowerCase() === name.toLowerCase());
  if (other !== undefined) refuse(`there is ${other}, which differs in case alone`);
}

/** In order. Empty for a home without data. */
export function namesOf(home: string): string[] {
  let entries: string[];
  try {
    entries = readdirSync(homeLayout.data(home));
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return [];
    throw cause;
  }
  const names = entries.filter((entry) => entry.endsWith(ENDING)).map((entry) => entry.slice(0, -ENDING.length));
  return names.filter((name) => DATA_NAME.test(name)).toSorted();
}

/** Throws `data_not_found`, `data_manifest_damaged`. */
export function readManifest(home: string, name: string): DataManifest {
  const asked = quotedName(name, 100);
  if (!DATA_NAME.test(name)) throw new SvcError("data_not_found", { name: asked });
  return readManifestFile(homeLayout.dataManifest(home, name), name);
}

/** Reads a manifest from a given path, such as the copy that a run keeps. */
export function readManifestFile(file: string, name: string): DataManifest {
  let text: string;
  let checkedAt: Date;
  try {
    text = readFileSync(file, "utf8");
    checkedAt = statSync(file).mtime;
  } catch (cause) {
    if (isMissing(cause)) throw new SvcError("data_not_found", { name }, { cause });
    const why = `it cannot be read (${systemCode(cause)})`;
    throw new SvcError("data_manifest_damaged", { name, why }, { cause });
  }
  try {
    const manifest = DataManifest.parse(JSON.parse(text));
    if (manifest.files.every(([path]) => isInside(path))) return { ...manifest, checked_at: checkedAt.toISOString() };
  } catch (cause) {
    throw new SvcError("data_manifest_damaged", { name, why: "it is not a manifest" }, { cause });
  }
  throw new SvcError("data_manifest_damaged", { name, why: "a path in it leads out of the data" });
}

/** Changes whenever the manifest is replaced; null if it does not exist. */
export function stampOf(home: string, name: string): string | null {
  if (!DATA_NAME.test(name)) return null;
  const stats = statSync(homeLayout.dataManifest(home, name), { throwIfNoEntry: false });
  return stats ? `${stats.ino} ${stats.mtimeMs} ${stats.size}` : null;
}

/**
 * Records that every file matched at `now`, as the manifest's modification time: the manifest need not be
 * rewritten.
 */
export function markChecked(home: string, name: string, now: number): void {
  utimesSync(homeLayout.dataManifest(home, name), now / 1_000, now / 1_000);
}

export function writeManifest(home: string, manifest: DataManifest): void {
  mkdirSync(homeLayout.data(home), { recursive: true, mode: 0o700 });
  try {
    replaceFile(homeLayout.dataManifest(home, manifest.name), JSON.stringify(manifest));
  } catch (cause) {
    throw orDiskFull(cause, homeLayout.data(home));
  }
}

/** Forgets the data; its files are not touched. Throws `data_not_found`. */
export function removeManifest(home: string, name: string): void {
  if (!DATA_NAME.test(name) || !existsSync(homeLayout.dataManifest(home, name)))
    throw new SvcError("data_not_found", { name });
  rmSync(homeLayout.dataManifest(home, name), { force: true });
}

export const summaryOf = (manifest: DataManifest): DataSummary => ({
  name: manifest.name,
  files: manifest.files.length,
  bytes: manifest.bytes,
  sha256: manifest.sha256,
  roots: manifest.roots.map(({ path }) => path),
  follow_links: manifest.follow_links,
  created_at: manifest.created_at,
  checked_at: manifest.checked_at,
  left_out: manifest.left_out,
  left_out_count: manifest.left_out_count,
});

export interface Listed {
  data: DataSummary[];
  /** Manifests that cannot be used, with the reason. */
  damaged: { name: string; why: string }[];
}

/** Every manifest, in order of name: one that is damaged does not hide the others. */
export function listData(home: string): Listed {
  const listed: Listed = { data: [], damaged: [] };
  for (const name of namesOf(home)) {
    try {
      listed.data.push(summaryOf(readManifest(home, name)));
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      // Removed since it was listed: simply absent.
      if (e.code !== "data_not_found") listed.damaged.push({ name, why: e.message });
    }
  }
  return listed;
}

/** Digest of the whole data: of the files' digests, sizes and paths, in order of path. */
export function digestOfAll(files: DataManifest["files"]): string {
  const whole = createHash("sha256");
  for (const [path, size, sha256] of files) whole.update(`${sha256} ${size} ${path}\0`);
  return whole.digest("hex");
}
