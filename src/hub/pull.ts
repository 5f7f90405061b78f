// Performs one pull, from resolving the commit to the complete model on the disk.
//
// Q1. The revision is resolved once; everything after that names the commit, so that a moving branch cannot mix two
//     versions.
// Q2. Names, patterns, disk space and the right to read are checked before the first download.
// Q3. Nothing becomes visible before everything is there.

import { statfs } from "node:fs/promises";
import { bytes as inWords } from "../domain/bytes.ts";
import { SvcError } from "../errors/index.ts";
import type { HubPullNote, HubPullPhase, HubPulled } from "../schemas/hub.ts";
import { blobName, type Asked, type HubClient, type HubFile } from "./client.ts";
import { fetchBlob, hasBlob, partialBytes } from "./fetch-blob.ts";
import { firstObjection } from "./paths.ts";
import { chooserOf } from "./patterns.ts";
import type { Place } from "./place.ts";
import { Transient } from "./transfer.ts";
import { UNHEARD_MS_MAX, persistently, type RetryOptions } from "./retry.ts";

const FILES_AT_ONCE = 6;
/** Disk space left free for everything else: the store, logs, checkpoints. */
const ROOM_LEFT_BYTES = 256 * 1024 * 1024;

export interface PullProgress {
  phase: HubPullPhase;
  commit: string;
  files_total: number;
  files_done: number;
  bytes_total: number;
  bytes_done: number;
  note: HubPullNote | null;
}

export interface PullParts extends Omit<RetryOptions, "gained" | "waiting"> {
  client: HubClient;
  place: Place;
  asked: Asked;
  /** The commit to which an earlier try of the same pull resolved it. */
  commit: string | null;
  patterns: readonly string[] | null;
  /** Bytes that other pulls will still write to the same disk. */
  reserved: () => number;
  report: (change: Partial<PullProgress>) => void;
  /** Called with the reason whenever the hub does not answer the first request, and with null once it does. */
  unheard: (error: SvcError | null) => void;
  now: () => number;
}

export async function pullModel(parts: PullParts): Promise<HubPulled> {
  const { client, place, asked, signal, report } = parts;
  const patiently = <T>(work: () => Promise<T>, more: { unheardMsMax?: number } = {}): Promise<T> =>
    persistently(work, {
      ...parts,
      ...more,
      waiting: (error, ms) => report({ note: error && waitNote(error, ms) }),
    });

  report({ phase: "resolving" });
  await place.prepare();
  const ask = (): Promise<string> =>
    client.commitOf(asked, signal).catch((e: unknown) => {
      parts.unheard(e instanceof Transient && e.unheard ? e.error : null);
      throw e;
    });
  const commit = parts.commit ?? (await patiently(ask, { unheardMsMax: UNHEARD_MS_MAX }));
  parts.unheard(null);
  report({ commit });
  const all = await patiently(() => client.files(asked, commit, signal));
  const files = chosen(all, asked, parts.patterns);

  report({ phase: "checking", files_total: files.length, bytes_total: sizeOf(files) });
  const kept = await place.kept(files, signal);
  const missing = await missingBlobs(
    files.filter((file) => !kept.has(file.path)),
    place,
  );
  const state = new Tally(files, missing.fetch, report);
  await checkRoom(place, missing.bytes + parts.reserved());
  const largest = missing.fetch.toSorted((a, b) => b.size - a.size);
  if (largest[0]) await patiently(() => client.probe(asked, commit, largest[0] as HubFile, signal));

  report({ phase: "downloading" });
  await fetchAll(largest, commit, parts, state);

  report({ phase: "publishing", note: null });
  signal.throwIfAborted();
  const pulledAt = new Date(parts.now()).toISOString();
  const release = { modelId: asked.model, revision: asked.revision, commit, files, all, pulledAt };
  const path = await place.publish(release, kept);
  return { path, revision: commit, files: files.length, bytes: sizeOf(files) };
}

function chosen(all: readonly HubFile[], { model }: Asked, patterns: readonly string[] | null): HubFile[] {
  const wanted = chooserOf(patterns);
  const files = all.filter((file) => wanted(file.path));
  if (files.length === 0 && all.length > 0)
    throw new SvcError("hub_nothing_matches", {
      model,
      patterns: (patterns ?? []).slice(0, 5).join(", ") || "an empty list",
      files: all.length,
    });
  if (files.length === 0) throw new SvcError("hub_refused", { what: model, why: "the model has no files" });
  const objection = firstObjection(files.map((file) => file.path));
  if (objection)
    throw new SvcError("hub_path_refused", {
      model,
      path: JSON.stringify(objection.path.slice(0, 200)),
      why: objection.why,
    });
  return files;
}

/** Contents to download, each once, and their total size in bytes. */
async function missingBlobs(files: readonly HubFile[], place: Place): Promise<{ fetch: HubFile[]; bytes: number }> {
  const fetch = new Map<string, HubFile>();
  let bytes = 0;
  for (const file of files) {
    if (fetch.has(blobName(file)) || (await hasBlob(file, place.blob(file)))) continue;
    fetch.set(blobName(file), file);
    bytes += file.size - (await partialBytes(file, place.blob(file)));
  }
  return { fetch: [...fetch.values()], bytes };
}

async function checkRoom(place: Place, needed: number): Promise<void> {
  const { bavail, bsize } = await statfs(place.disk);
  const free = bavail * bsize;
  if (needed + ROOM_LEFT_BYTES <= free) return;
  throw new SvcError("hub_no_room", {
    path: place.disk,
    needed: inWords(needed),
    free: `${inWords(free)}, of which ${inWords(ROOM_LEFT_BYTES)} are kept`,
  });
}

/** Large files first, so that no large file is left alone at the end. */
async function fetchAll(files: readonly HubFile[], commit: string, parts: PullParts, tally: Tally): Promise<void> {
  const { client, place, asked } = parts;
  const failed = new AbortController();
  const signal = AbortSignal.any([parts.signal, failed.signal]);
  const todo = [...files];
  const worker = async (): Promise<void> => {
    for (let file = todo.shift(); file !== undefined; file = todo.shift()) {
      const options = {
        ...parts,
        signal,
        open: (one: HubFile, from: number, s: AbortSignal) => client.open(asked, commit, one, from, s),
        moved: (bytes: number) => tally.moved(bytes),
        waiting: (error: SvcError | null, ms: number) => tally.waiting(error && waitNote(error, ms)),
      };
      await fetchBlob(file, place.blob(file), options);
      tally.done(file);
    }
  };
  const workers = Array.from({ length: Math.min(FILES_AT_ONCE, files.length) }, worker);
  try {
    await Promise.all(workers);
  } catch (e) {
    failed.abort(e);
    await Promise.allSettled(workers);
    throw parts.signal.aborted ? parts.signal.reason : e;
  }
}

/** Progress, for people. */
class Tally {
  readonly #files: Map<string, HubFile[]>;
  readonly #report: PullParts["report"];
  #filesDone: number;
  #bytesDone: number;
  #waiting = 0;

  constructor(files: readonly HubFile[], fetch: readonly HubFile[], report: PullParts["report"]) {
    this.#report = report;
    this.#files = Map.groupBy(files, blobName);
    const open = fetch.flatMap((file) => this.#files.get(blobName(file)) ?? []);
    this.#filesDone = files.length - open.length;
    this.#bytesDone = sizeOf(files) - sizeOf(open);
    report({ files_done: this.#filesDone, bytes_done: this.#bytesDone });
  }

  moved(bytes: number): void {
    this.#bytesDone += bytes;
    this.#report({ bytes_done: this.#bytesDone });
  }

  /** The first copy's bytes were counted during the download; its duplicates are not downloaded. */
  done(file: HubFile): void {
    const twins = this.#files.get(blobName(file)) ?? [file];
    this.#filesDone += twins.length;
    this.#bytesDone += file.size * (twins.length - 1);
    this.#report({ files_done: this.#filesDone, bytes_done: this.#bytesDone });
  }

  waiting(note: HubPullNote | null): void {
    this.#waiting += note === null ? -1 : 1;
    if (note !== null) this.#report({ note });
    else if (this.#waiting === 0) this.#report({ note: null });
  }
}

const sizeOf = (files: readonly HubFile[]): number => files.reduce((sum, file) => sum + file.size, 0);
const waitNote = (error: SvcError, ms: number): HubPullNote => ({
  kind: "retrying",
  message: error.message,
  retry_in_seconds: Math.max(1, Math.round(ms / 1_000)),
});
