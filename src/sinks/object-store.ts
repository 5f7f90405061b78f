// The interface of an object store to a sink. Each protocol has one file that implements it, and `src/app/sinks.ts` chooses by the kind of the sink.

import { Redactor } from "../domain/redaction.ts";
import { connectionWords } from "../errors/connection-words.ts";
import { oneLine } from "../domain/terminal-text.ts";

/**
 * A file ready to send: its fingerprints were computed before, and `read` returns the same bytes throughout the upload.
 */
export interface SourceFile {
  /** Full name of the object in its bucket. */
  key: string;
  size: number;
  /** Hexadecimal. */
  sha256: string;
  /** 16 bytes, of the whole file. */
  md5: Buffer;
  contentType: string;
  /** Larger files are sent in parts of this size, the last one shorter. Always the same for the same file size. */
  partBytes: number;
  /** 16 bytes each. */
  partMd5s: readonly Buffer[];
  read(offset: number, length: number): Promise<Buffer>;
}

export interface UploadTurn {
  signal: AbortSignal;
  /** The state that an earlier try saved for this content. */
  resume: string | null;
  /**
   * Durable when it resolves: an upload is begun only under a name that a successor will know. The name may give others
   * access to the upload.
   */
  remember(resume: string): Promise<void>;
  /** Reports the number of bytes that the store has. */
  sent(bytes: number): void;
  /** Runs `fn` once this much memory is free. */
  lend<T>(bytes: number, fn: () => Promise<T>): Promise<T>;
}

/**
 * Throws `sink_refused` or `sink_credentials` if the owner has to act, `sink_unreachable` for a failure that may pass,
 * and `sink_mismatch` if the stored content differs from the sent one. Every call is idempotent.
 */
export interface ObjectStore {
  /**
   * Whether exactly this content is stored under the key, by all that the store reports. Also false if the credentials
   * do not allow reading.
   */
  holds(file: SourceFile, signal: AbortSignal): Promise<boolean>;
  /** Resolves when the store has confirmed that it has all of it. */
  upload(file: SourceFile, turn: UploadTurn): Promise<void>;
  /**
   * Aborts an unfinished upload, so that it costs nothing; without a name, every upload found under the key. A missing
   * upload does not fail.
   */
  abandon(key: string, resume: string | null, signal: AbortSignal): Promise<void>;
  close(): void;
}

const MIB = 1024 * 1024;
const PART_BYTES_MIN = 8 * MIB;
/** A store takes 10,000 parts. */
const PARTS_MAX = 9_000;
/** The largest object of both protocols. */
export const OBJECT_BYTES_MAX = 5 * 1024 ** 4;
export const KEY_BYTES_MAX = 1_024;

export const partBytesOf = (size: number): number => Math.max(PART_BYTES_MIN, Math.ceil(size / PARTS_MAX / MIB) * MIB);

/** Another computer's message, in one line and without secrets. */
export function plainWords(text: string, secrets: readonly string[]): string {
  return new Redactor(secrets).redactText(oneLine(text)).slice(0, 300).replace(/\.+$/, "");
}

/** A bug in svc, not a network failure. */
export const isBug = (e: unknown): boolean =>
  e instanceof RangeError || e instanceof ReferenceError || (e instanceof TypeError && e.cause === undefined);

/** Why a call got no answer, for any of the libraries. */
export function networkWords(error: unknown): string {
  const words = connectionWords(error);
  if (words !== null) return words;
  let first = error;
  while (first instanceof Error && first.cause !== undefined && first.cause !== null) first = first.cause;
  return first instanceof Error && first.message !== "" ? plainWords(first.message, []) : "no answer came";
}
