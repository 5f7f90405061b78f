// Lists the models on this computer: in folders of the home, in the cache, and the user's own that were adopted.

import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "../platform/replace-file.ts";
import { nullIfMissing } from "../errors/index.ts";
import type { HubModel } from "../schemas/hub.ts";
import { repoFolder } from "./cache-place.ts";
import { MARKER } from "./folder-place.ts";
import { homeLayout } from "../platform/home-layout.ts";

const Marker = z.object({
  model_id: z.string(),
  revision: z.string(),
  files: z.int(),
  bytes: z.int(),
  pulled_at: z.string(),
});
const Own = z.array(z.object({ path: z.string(), files: z.int(), bytes: z.int() }));

/** A folder's model, by the marker that a pull left there; null if it has no valid marker. */
async function folderModel(path: string): Promise<HubModel | null> {
  try {
    const marker = Marker.parse(JSON.parse(await readFile(join(path, MARKER), "utf8")));
    return { ...marker, path, source: "folder" };
  } catch {
    return null;
  }
}

const foldersOf = async (path: string): Promise<string[]> =>
  (await readdir(path, { withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map((entry) => join(path, entry.name));

/** `owner/name` is two folders deep, the oldest names one. Folders that begin with a dot are work in progress. */
async function inFolders(root: string): Promise<HubModel[]> {
  const found: HubModel[] = [];
  for (const owner of (await foldersOf(root)).filter(visible)) {
    const model = await folderModel(owner);
    if (model) found.push(model);
    else
      for (const folder of (await foldersOf(owner)).filter(visible)) {
        const inner = await folderModel(folder);
        if (inner) found.push(inner);
      }
  }
  return found;
}
const visible = (path: string): boolean => !/[\\/]\.[^\\/]*$/.test(path);

async function inCache(cache: string): Promise<HubModel[]> {
  const found: HubModel[] = [];
  for (const repo of await foldersOf(cache)) {
    const name = /models--([^\\/]+)$/.exec(repo)?.[1];
    if (name === undefined) continue;
    for (const snapshot of await foldersOf(join(repo, "snapshots"))) {
      const { files, bytes } = await measure(snapshot);
      const at = (await stat(snapshot)).mtime.toISOString();
      const revision = snapshot.split(/[\\/]/).at(-1) ?? null;
      found.push({
        model_id: name.replace("--", "/"),
        path: snapshot,
        revision,
        files,
        bytes,
        pulled_at: at,
        source: "cache",
      });
    }
  }
  return found;
}

async function measure(folder: string): Promise<{ files: number; bytes: number }> {
  let [files, bytes] = [0, 0];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      const inner = await measure(path);
      files += inner.files;
      bytes += inner.bytes;
      continue;
    }
    files++;
    bytes += (await stat(path).catch(() => null))?.size ?? 0;
  }
  return { files, bytes };
}

export interface ModelPlaces {
  home: string;
  /** The folder that holds `models--…`; null if none is configured. */
  cache: string | null;
  /** Folders outside the home into which models were pulled. */
  others: readonly string[];
}

export async function listModels(places: ModelPlaces): Promise<HubModel[]> {
  const others = await Promise.all(places.others.map(folderModel));
  const all = [
    ...(await inFolders(homeLayout.models(places.home))),
    ...(places.cache === null ? [] : await inCache(places.cache)),
    ...others.filter((model) => model !== null),
    ...adopted(places.home),
  ];
  const seen = new Set<string>();
  return all
    .filter(({ path }) => !seen.has(path) && seen.add(path))
    .toSorted((a, b) => (a.model_id ?? a.path).localeCompare(b.model_id ?? b.path));
}

/**
 * Removes svc's copies of a model: its folder in the home and its part of the cache. A folder that the user chose
 * stays. Resolves with the removed paths.
 */
export async function removeModel(modelId: string, places: ModelPlaces): Promise<string[]> {
  const folder = join(homeLayout.models(places.home), ...modelId.split("/"));
  const repo = places.cache === null ? null : join(places.cache, repoFolder(modelId));
  const gone: string[] = [];
  for (const path of [folder, repo]) {
    if (path === null || (await stat(path).catch(nullIfMissing)) === null) continue;
    if (path === folder && (await folderModel(folder)) === null) continue;
    await rm(path, { recursive: true, force: true });
    gone.push(path);
  }
  return gone;
}

function adopted(home: string): HubModel[] {
  return readOwn(home).map((own) => ({ ...own, model_id: null, revision: null, pulled_at: null, source: "adopted" }));
}

function readOwn(home: string): z.infer<typeof Own> {
  try {
    return Own.parse(JSON.parse(readFileSync(homeLayout.adoptedModels(home), "utf8")));
  } catch {
    return [];
  }
}

/** Records the user's own model, so that it is listed. */
export async function rememberOwn(home: string, own: { path: string; files: number; bytes: number }): Promise<void> {
  const { path, files, bytes } = own;
  const rest = readOwn(home).filter((one) => one.path !== path);
  await mkdir(homeLayout.hub(home), { recursive: true, mode: 0o700 });
  replaceFile(homeLayout.adoptedModels(home), `${JSON.stringify([...rest, { path, files, bytes }])}\n`);
}
