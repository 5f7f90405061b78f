// What a sink needs of an object store, whichever protocol it speaks.

import { Redactor } from "../domain/redaction.ts";
import { oneLine } from "../domain/terminal-text.ts";

/** A file as it is sent: its fingerprints were taken before, and `read` gives the same bytes for as long as it is sent. */
export interface SourceFile {
  /** Full name of the object in its bucket. */
  key: string;
  size: number;
  /** Hexadecimal. */
  sha256: string;
  /** 16 bytes, of the whole. */
  md5: Buffer;
  contentType: string;
  /** Larger files are sent in parts of this size, the last one shorter. Always the same for the same size. */
  partBytes: number;
  /** 16 bytes each. */
  partMd5s: readonly Buffer[];
  read(offset: number, length: number): Promise<Buffer>;
}

export interface UploadTurn {
  signal: AbortSignal;
  /** What an earlier try left of this very content. */
  resume: string | null;
  /** Durable when it resolves: an upload is begun only under a name that a successor will know. It may open the upload to others. */
  remember(resume: string): Promise<void>;
  /** How many bytes the store has. */
  sent(bytes: number): void;
  /** Runs `fn` when so much memory is free. */
  lend<T>(bytes: number, fn: () => Promise<T>): Promise<T>;
}

/**
 * Throws `sink_refused`, `sink_credentials` where somebody has to act, `sink_unreachable` for what may pass, and `sink_mismatch`
 * where the store has something else than was sent. Every call may be repeated.
 */
export interface ObjectStore {
  /** Whether just this content stands under the key, by all that the store tells of it. False also where the credentials may not look. */
  holds(file: SourceFile, signal: AbortSignal): Promise<boolean>;
  /** Resolves when the store has all of it and has proven so. */
  upload(file: SourceFile, turn: UploadTurn): Promise<void>;
  /**
   * Ends what is unfinished, so that it costs nothing; without a name, whatever can be found under the key. What is not there is
   * no error.
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

/** Words of a stranger, in one line and without what must not be repeated. */
export function plainWords(text: string, secrets: readonly string[]): string {
  return new Redactor(secrets).redactText(oneLine(text)).slice(0, 300).replace(/\.+$/, "");
}

/** A fault of ours, and none of the network's. */
export const isBug = (e: unknown): boolean =>
  e instanceof RangeError || e instanceof ReferenceError || (e instanceof TypeError && e.cause === undefined);

/** Why a call got no answer, of whichever library. */
export function networkWords(error: unknown): string {
  const { code, message, cause } = error as { code?: unknown; message?: unknown; cause?: unknown };
  if (typeof code === "string" && code !== "ABORT_ERR") return NETWORK[code] ?? `error ${code}`;
  if (cause !== undefined && cause !== null) return networkWords(cause);
  return typeof message === "string" && message !== "" ? plainWords(message, []) : "there was no answer";
}

const NETWORK: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name cannot be resolved",
  EAI_AGAIN: "its name cannot be resolved at the moment",
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  ETIMEDOUT: "the connection timed out",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no network",
};
