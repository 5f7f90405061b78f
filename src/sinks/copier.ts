// Copies the files of one job to one sink: a pass uploads every local file that the store lacks, and then writes the
// list of the stored files.
//
// C1. The files to copy are the difference of two tables, queried again in every pass: nothing can be forgotten.
// C2. A row records that a copy was begun before its first byte leaves; the transaction that records its completion
//     removes it. A pass that finds such a row asks the store first: finished uploads are not sent again, unfinished
//     ones are resumed, those of old content and of dropped checkpoints are aborted.
// C3. A copy counts only when the store has proven its content (see `ObjectStore.upload`).
// C4. The list is written last, so that every file it names exists. A file that changes keeps its name; the list is
//     updated afterwards.
// C5. A failure of one file does not delay the others; a failure of the store ends the pass.

import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { asSvcError, nullIfMissing, SvcError } from "../errors/index.ts";
import { sinkPlaceOf, type Sink } from "../schemas/sink.ts";
import { sealText, unseal, unsealText } from "../secrets/sealed.ts";
import { CHECKPOINTS, LOG, MANIFEST } from "../store/sink-reads.ts";
import type { SinkKey } from "../store/sink-store.ts";
import type { SinkCopyRow, SinkUploadRow } from "../store/tables.ts";
import { fileFingerprint, fingerprintOf, readExactly, type Fingerprint } from "./fingerprint.ts";
import {
  KEY_BYTES_MAX,
  OBJECT_BYTES_MAX,
  partBytesOf,
  type ObjectStore,
  type SourceFile,
  type UploadTurn,
} from "./object-store.ts";
import type { SinkPorts } from "./ports.ts";
import { accessOf } from "./sink-access.ts";
import { homeLayout } from "../platform/home-layout.ts";

/** Files of one sink that are copied at the same time. */
const PARALLEL_FILES = 2;
/**
 * The log of an active run is uploaded whole again: no more often than this, and with no more bytes on average than
 * this.
 */
const LOG_EVERY_MS = 60_000;
const LOG_BYTES_PER_S = 100_000;
/** Failures that every file would meet. */
const STORES_OWN: ReadonlySet<string> = new Set(["sink_unreachable", "sink_refused", "sink_credentials"]);
/** The digest of no content at all. */
const NONE = "";

interface HomeFile {
  /** Path below the job's folder in the store. */
  path: string;
  local: string;
  size: number;
  /** Milliseconds; null for the log, which only grows. */
  modifiedAt: number | null;
}

export interface Passed {
  /** The run has ended and everything is copied or excluded for good. */
  finished: boolean;
  /** When the log may be uploaded again, in milliseconds from now; null if no upload is waiting for that. */
  logDueMs: number | null;
}

export class SinkCopier {
  readonly key: SinkKey;
  readonly #sink: Sink;
  readonly #o: SinkPorts;
  #store: ObjectStore | null = null;
  /** Fingerprints of files whose copy failed, so that a large file is not read again for every try. */
  readonly #prints = new Map<string, { of: HomeFile; prints: Fingerprint }>();

  constructor(key: SinkKey, sink: Sink, ports: SinkPorts) {
    this.key = key;
    this.#sink = sink;
    this.#o = ports;
  }

  /** Throws the first failure, after copying everything that could still be copied. Finished copies stay. */
  async pass(signal: AbortSignal): Promise<Passed> {
    try {
      // Read before the files: a later file asks for another pass.
      const over = this.#job().over;
      const store = await this.#open();
      const log = this.#dueLog(over);
      await this.#copyAll(store, [...(log.file ? [log.file] : []), ...this.#checkpoints()], { over, signal });
      const left = this.#checkpoints().length > 0;
      await this.#writeList(store, { complete: over && !left, signal });
      await this.#endUploads(store, { which: "dropped", over, signal });
      return { finished: over && !left, logDueMs: log.inMs };
    } catch (e) {
      // After any failure, the next try begins with the current credentials and addresses.
      this.close();
      throw e;
    }
  }

  /**
   * Writes the list of a job that has not begun: this proves write access before anything is rented. Resolves with the
   * list's fingerprint.
   */
  async begin(signal: AbortSignal): Promise<string> {
    try {
      const list = listOf(this.key.job_id, null, []);
      await this.#send(await this.#open(), MANIFEST, list, signal);
      return printOf(list);
    } finally {
      this.close();
    }
  }

  /** C2. Throws the first failure, after the others were ended. */
  async endUploads(which: "all" | "dropped", signal: AbortSignal): Promise<void> {
    try {
      if (this.#uploadsOf(which).length > 0) await this.#endUploads(await this.#open(), { which, over: true, signal });
    } finally {
      this.close();
    }
  }

  close(): void {
    this.#store?.close();
    this.#store = null;
  }

  async #open(): Promise<ObjectStore> {
    const { home, env, key } = this.#o;
    const sealed = unseal(homeLayout.sinkSecrets(home, this.key.job_id), key);
    return (this.#store ??= await this.#o.openStore(accessOf(this.#sink, { home, env, sealed })));
  }

  #job() {
    const job = this.#o.job(this.key.job_id);
    if (!job) throw new SvcError("job_not_found", { id: this.key.job_id });
    return job;
  }

  #objectKey(path: string): string {
    const place = sinkPlaceOf(this.#sink.kind, this.#sink.url);
    const prefix = typeof place === "string" || place.prefix === "" ? "" : `${place.prefix}/`;
    return `${prefix}${this.key.job_id}/${path}`;
  }

  // The files to copy

  #checkpoints(): HomeFile[] {
    if (!this.#sink.what.includes("checkpoints")) return [];
    const folder = homeLayout.checkpoints(this.#o.home, this.key.job_id);
    return this.#o.rows.uncopied(this.key).map(({ path, size, modified_at }) => ({
      path: `${CHECKPOINTS}${path}`,
      local: join(folder, path),
      size,
      modifiedAt: modified_at,
    }));
  }

  #dueLog(over: boolean): { file: HomeFile | null; inMs: number | null } {
    if (!this.#sink.what.includes("logs")) return { file: null, inMs: null };
    const size = this.#o.logBytes(this.key.job_id);
    const copy = this.#o.rows.copy({ ...this.key, path: LOG });
    if (size === (copy?.size ?? 0)) return { file: null, inMs: null };
    const paceMs = Math.max(LOG_EVERY_MS, (size / LOG_BYTES_PER_S) * 1_000);
    const waitMs = over || !copy ? 0 : copy.copied_at + paceMs - this.#o.clock.now();
    if (waitMs > 0) return { file: null, inMs: Math.min(waitMs, paceMs) };
    const local = homeLayout.log(this.#o.home, this.key.job_id);
    return { file: { path: LOG, local, size, modifiedAt: null }, inMs: null };
  }

  // Copying

  async #copyAll(store: ObjectStore, files: HomeFile[], how: { over: boolean; signal: AbortSignal }): Promise<void> {
    const failures: SvcError[] = [];
    const rest = files.values();
    const copyNext = async (): Promise<void> => {
      for (const file of rest) {
        if (failures.some((e) => STORES_OWN.has(e.code)) || how.signal.aborted) return;
        await this.#copy(store, file, how).catch((e: unknown) => void failures.push(asSvcError(e)));
      }
    };
    await Promise.all(Array.from({ length: PARALLEL_FILES }, copyNext));
    how.signal.throwIfAborted();
    if (failures[0]) throw failures[0];
  }

  async #copy(store: ObjectStore, file: HomeFile, how: { over: boolean; signal: AbortSignal }): Promise<void> {
    const why =
      Buffer.byteLength(this.#objectKey(file.path)) > KEY_BYTES_MAX
        ? `its name is longer than the ${KEY_BYTES_MAX} bytes that a store takes`
        : file.size > OBJECT_BYTES_MAX
          ? "it is larger than the 5 TiB that a store takes"
          : null;
    if (why !== null) return this.#leaveOut(store, file, why, how.signal);
    const handle = await open(file.local, constants.O_RDONLY | constants.O_NOFOLLOW).catch(
      (e: NodeJS.ErrnoException) => (e.code === "ELOOP" ? null : nullIfMissing(e)),
    );
    if (handle === null) return this.#leaveOut(store, file, "it is not in this home any more", how.signal);
    try {
      if (!(await isStill(file, handle))) {
        // A newer version was downloaded; its own record is about to request a copy.
        if (how.over) await this.#leaveOut(store, file, "it changed after the download", how.signal);
        return;
      }
      await this.#copyOpen(store, file, handle, how.signal);
    } finally {
      await handle.close();
    }
  }

  async #copyOpen(store: ObjectStore, file: HomeFile, handle: FileHandle, signal: AbortSignal): Promise<void> {
    const partBytes = partBytesOf(file.size);
    const known = this.#prints.get(file.path);
    const same = known?.of.size === file.size && known.of.modifiedAt === file.modifiedAt;
    const prints = same ? known.prints : await fileFingerprint(handle, file.size, partBytes, signal);
    this.#prints.set(file.path, { of: file, prints });
    const before = this.#o.rows.copy({ ...this.key, path: file.path });
    // If a copy of other content was begun since, the store may have that one.
    const begun = this.#upload(file.path) !== undefined;
    if (!begun && before?.sha256 === prints.sha256 && before.size === file.size)
      return this.#record(file, prints, false);
    const source = this.#source(file.path, file.size, prints, (at, length) => readExactly(handle, at, length));
    const { resume, mayBeThere } = await this.#takeUp(store, file, prints.sha256, signal);
    const turn: UploadTurn = {
      signal,
      resume,
      remember: (name) => this.#remember(file, prints.sha256, sealText(name, this.#o.key).toString("base64")),
      sent: (bytes) => this.#progress(file, bytes),
      lend: (bytes, fn) => this.#o.budget.lend(bytes, signal, fn),
    };
    if (!mayBeThere || !(await store.holds(source, signal)))
      await store.upload(source, turn).catch(async (e: unknown) => {
        // The stored content is known to be wrong: no upload is resumed, and no earlier copy counts.
        if (asSvcError(e).code === "sink_mismatch") await this.#remember(file, NONE, null);
        throw e;
      });
    await this.#record(file, prints, true);
  }

  /** C2. */
  async #takeUp(
    store: ObjectStore,
    file: HomeFile,
    sha256: string,
    signal: AbortSignal,
  ): Promise<{ resume: string | null; mayBeThere: boolean }> {
    const left = this.#upload(file.path);
    if (left?.sha256 === sha256) return { resume: this.#unsealed(left.resume), mayBeThere: true };
    if (left) await this.#endUpload(store, file.path, signal);
    await this.#remember(file, sha256, null);
    return { resume: null, mayBeThere: false };
  }

  async #endUpload(store: ObjectStore, path: string, signal: AbortSignal): Promise<void> {
    const left = this.#upload(path);
    if (left) await store.abandon(this.#objectKey(path), this.#unsealed(left.resume), signal);
  }

  #uploadsOf(which: "all" | "dropped"): SinkUploadRow[] {
    const wanted = new Set(which === "all" ? [] : [LOG, ...this.#checkpoints().map(({ path }) => path)]);
    return this.#o.rows.uploads(this.key).filter(({ path }) => !wanted.has(path));
  }

  /** A refusal is final once the run is over: it must not keep what was copied from being complete. */
  async #endUploads(
    store: ObjectStore,
    { which, over, signal }: { which: "all" | "dropped"; over: boolean; signal: AbortSignal },
  ): Promise<void> {
    let failure: unknown;
    for (const { path } of this.#uploadsOf(which)) {
      try {
        await this.#endUpload(store, path, signal);
      } catch (e) {
        signal.throwIfAborted();
        const { code, message } = asSvcError(e);
        if (code !== "sink_refused") failure ??= e;
        if (code !== "sink_refused" || !over) continue;
        this.#o.report(
          `svc could not abort the unfinished upload of ${path} of the run ${this.key.job_id}: ${message} Its parts cost money until you abort it, or a lifecycle rule of the bucket does. For svc to abort uploads, the key needs s3:AbortMultipartUpload.`,
        );
      }
      await this.#o.commit(() => this.#o.rows.dropUpload({ ...this.key, path }));
    }
    if (failure !== undefined) throw failure;
  }

  #upload(path: string) {
    return this.#o.rows.uploads(this.key).find((u) => u.path === path);
  }

  /** Also null if the key has changed since: then the store is asked for its content. */
  #unsealed(text: string | null): string | null {
    return text === null ? null : unsealText(Buffer.from(text, "base64"), this.#o.key);
  }

  #source(path: string, size: number, prints: Fingerprint, read: SourceFile["read"]): SourceFile {
    const contentType =
      path === LOG
        ? "text/plain; charset=utf-8"
        : path === MANIFEST
          ? "application/json; charset=utf-8"
          : "application/octet-stream";
    return { key: this.#objectKey(path), size, ...prints, contentType, partBytes: partBytesOf(size), read };
  }

  async #send(store: ObjectStore, path: string, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const source = this.#source(path, bytes.length, fingerprintOf(bytes), (at, length) =>
      Promise.resolve(bytes.subarray(at, at + length)),
    );
    const one = { ...source, partBytes: Math.max(source.partBytes, bytes.length) };
    await store.upload(one, {
      signal,
      resume: null,
      remember: () => Promise.resolve(),
      sent: () => {},
      lend: (length, fn) => this.#o.budget.lend(length, signal, fn),
    });
  }

  // Rows

  #remember(file: HomeFile, sha256: string, resume: string | null): Promise<void> {
    const row = { ...this.key, path: file.path, size: file.size, sha256, resume, sent: 0 };
    return this.#o.commit(() => this.#o.rows.putUpload(row));
  }

  /**
   * For display only: svc asks the store itself for its content. So this waits for no disk, and its failure is ignored.
   */
  #progress(file: HomeFile, sent: number): void {
    if (file.size <= partBytesOf(file.size)) return;
    const row = this.#upload(file.path);
    if (row) void this.#o.commit(() => this.#o.rows.progress({ ...this.key, path: file.path, sent })).catch(() => {});
  }

  #record(file: HomeFile, { sha256 }: Fingerprint, sent: boolean): Promise<void> {
    this.#prints.delete(file.path);
    return this.#o.commit((tx) => {
      const { path, size } = file;
      this.#o.rows.putCopy({
        ...this.key,
        path,
        size,
        modified_at: file.modifiedAt ?? size,
        sha256,
        why: null,
        copied_at: tx.at,
      });
      this.#o.rows.dropUpload({ ...this.key, path });
      this.#o.rows.copied(this.key, tx.at);
      if (sent && path !== LOG) tx.feed(this.key.job_id, "sink.copied", { sink: this.key.sink, path, size });
    });
  }

  async #leaveOut(store: ObjectStore, file: HomeFile, why: string, signal: AbortSignal): Promise<void> {
    await this.#endUpload(store, file.path, signal);
    await this.#o.commit((tx) => {
      const { path, size, modifiedAt } = file;
      const row = { path, size, modified_at: modifiedAt ?? size, sha256: null, why, copied_at: tx.at };
      this.#o.rows.putCopy({ ...this.key, ...row });
      this.#o.rows.dropUpload({ ...this.key, path });
      tx.feed(this.key.job_id, "sink.left_out", { sink: this.key.sink, path, why });
    });
  }

  /** C4. Written only if it has changed. */
  async #writeList(
    store: ObjectStore,
    { complete, signal }: { complete: boolean; signal: AbortSignal },
  ): Promise<void> {
    const { job_id } = this.key;
    const list = listOf(job_id, complete ? this.#job().status : null, this.#o.rows.copies(this.key));
    const print = printOf(list);
    if (this.#o.rows.get(this.key)?.manifest === print) return;
    await this.#send(store, MANIFEST, list, signal);
    await this.#o.commit(() => this.#o.rows.setManifest(this.key, print));
  }
}

/**
 * The content of `manifest.json`; `outcome` is null while more files may follow. Equal copies give equal bytes, so that
 * it need not be written twice.
 */
function listOf(jobId: string, outcome: string | null, copies: readonly SinkCopyRow[]): Buffer {
  const files = copies.filter((c) => c.why === null);
  const left = copies.filter((c) => c.why !== null);
  const list = {
    format: 1,
    job_id: jobId,
    status: outcome,
    complete: outcome !== null,
    files: files.map(({ path, size, sha256, modified_at }) => ({
      path,
      size,
      sha256,
      ...(path === LOG ? {} : { modified_at: new Date(modified_at).toISOString() }),
    })),
    left_out: left.map(({ path, why }) => ({ path, why })),
  };
  return Buffer.from(`${JSON.stringify(list, null, 2)}\n`);
}

const printOf = (list: Buffer): string => createHash("sha256").update(list).digest("hex");

/** Whether the file is still the recorded one. Times are recorded in whole milliseconds. */
async function isStill(file: HomeFile, handle: FileHandle): Promise<boolean> {
  const stats = await handle.stat();
  if (!stats.isFile()) return false;
  return file.modifiedAt === null
    ? stats.size >= file.size
    : stats.size === file.size && Math.abs(stats.mtimeMs - file.modifiedAt) < 1.5;
}
