// The S3 protocol, through its vendor's library: it knows the whole default chain of credentials and corrects a wrong
// clock.
//
// B1. Every request's body is signed by its SHA-256 and carries its MD5, so that a store refuses a body that differs.
//     No `aws-chunked` bodies: stores that do not know them keep the framing as content (seen with s3rver 3.7.1).
// B2. The store's answers are compared: the ETag of the whole object, and of each part of an upload that is resumed. If
//     they are not MD5s by design (the store's own encryption), B1 must suffice. If they differ without a reason, the
//     object is read back and its SHA-256 decides.
// B3. An unfinished upload is resumed: svc asks the store for its parts, and correct ones stay.
// B4. An upload whose name was lost in a crash is found by its key, and older uploads of that key are aborted.

import { createHash } from "node:crypto";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
  type S3ClientConfig,
} from "@aws-sdk/client-s3";
import { defaultProvider } from "@aws-sdk/credential-provider-node";
import { throughProxy } from "../domain/proxy-env.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import { isBug, networkWords, plainWords, type ObjectStore, type SourceFile, type UploadTurn } from "./object-store.ts";
import { PACE, Quiet, type UploadPace } from "./quiet.ts";
import { boundAnswers } from "./s3-bounds.ts";
import { sendInPieces } from "./s3-pieces.ts";
import { followRegion, whereTo } from "./s3-redirects.ts";
import type { SinkAccess } from "./sink-access.ts";

const PARALLEL_PARTS = 3;
const METADATA_MS = 1_000;

interface Watched {
  abortSignal: AbortSignal;
  /** Call it for each piece of the body that was sent or received. */
  moved: () => void;
}

/** The checksum of the object in an answer. */
interface Answered {
  ETag?: string | undefined;
  ServerSideEncryption?: string | undefined;
  SSECustomerAlgorithm?: string | undefined;
}

export async function openS3(access: SinkAccess, pace = PACE): Promise<ObjectStore> {
  const config: S3ClientConfig = {
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    // `followRegion` does this: the library's own way is unsafe with several concurrent requests.
    followRegionRedirects: false,
    maxAttempts: 2,
    requestHandler: {
      connectionTimeout: 10_000,
      httpsAgent: { keepAlive: true, maxSockets: 50, ...throughProxy(process.env) },
    },
    credentials:
      access.keys ??
      defaultProvider({
        // A key that the owner renews in the shared files counts at once.
        ignoreCache: true,
        timeout: METADATA_MS,
        maxRetries: 0,
        ...(access.profile === null ? {} : { profile: access.profile }),
      }),
    forcePathStyle: access.endpoint !== null || access.bucket.includes("."),
    ...(access.endpoint === null ? {} : { endpoint: access.endpoint }),
    ...(access.region === null ? {} : { region: access.region }),
    ...(access.profile === null ? {} : { profile: access.profile }),
  };
  // Without a configured region, the store's first answer names the bucket's.
  const place = { region: (await regionOf(new S3Client(config))) ?? "us-east-1" };
  config.region = () => Promise.resolve(place.region);
  const [client, once] = [new S3Client(config), new S3Client({ ...config, maxAttempts: 1 })];
  for (const each of [client, once]) {
    boundAnswers(each);
    sendInPieces(each);
    followRegion(each, place, access.endpoint === null);
  }
  return new S3Store(client, once, { access, pace });
}

const regionOf = (client: S3Client): Promise<string | null> =>
  client.config.region().then(
    (region) => region,
    () => null,
  );

class S3Store implements ObjectStore {
  readonly #client: S3Client;
  readonly #once: S3Client;
  readonly #access: SinkAccess;
  readonly #pace: UploadPace;

  /** @param once a client without retries: a retried CreateMultipartUpload could leave an upload behind. */
  constructor(client: S3Client, once: S3Client, { access, pace }: { access: SinkAccess; pace: UploadPace }) {
    this.#client = client;
    this.#once = once;
    this.#access = access;
    this.#pace = pace;
  }

  async holds(file: SourceFile, signal: AbortSignal): Promise<boolean> {
    try {
      const head = await this.#ask(signal, 0, (o) => this.#client.send(new HeadObjectCommand(this.#of(file.key)), o));
      const said = head.ContentLength === file.size && head.Metadata?.["sha256"] === file.sha256;
      // The metadata is svc's own claim about the sent content; the ETag is the store's about the stored one.
      return said && (isOpaque(head) || md5Of(head.ETag ?? "") === expectedEtag(file));
    } catch (e) {
      if (statusOf(e) === 404 || statusOf(e) === 403) return false;
      throw e;
    }
  }

  upload(file: SourceFile, turn: UploadTurn): Promise<void> {
    return file.size <= file.partBytes ? this.#put(file, turn) : this.#inParts(file, turn);
  }

  async #put(file: SourceFile, turn: UploadTurn): Promise<void> {
    const answer = await turn.lend(file.size, async () => {
      const Body = await file.read(0, file.size);
      const command = new PutObjectCommand({ ...this.#headers(file), Body, ContentMD5: file.md5.toString("base64") });
      return this.#ask(turn.signal, file.size, (o) => this.#client.send(command, o));
    });
    await this.#prove(file, answer, turn.signal);
    turn.sent(file.size);
  }

  async #inParts(file: SourceFile, turn: UploadTurn): Promise<void> {
    const { signal } = turn;
    const left = turn.resume ?? (await this.#unfinished(file.key, signal));
    const there = left === null ? null : await this.#parts(file, left, signal);
    const uploadId = there === null ? await this.#begin(file, signal) : left!;
    if (uploadId !== turn.resume) await turn.remember(uploadId);
    const etags = there ?? new Map<number, string>();
    const lengthOf = (i: number): number => Math.min(file.partBytes, file.size - i * file.partBytes);
    let sent = [...etags.keys()].reduce((sum, i) => sum + lengthOf(i), 0);
    turn.sent(sent);
    const missing = [...file.partMd5s.keys()].filter((i) => !etags.has(i)).values();
    const sendNext = async (): Promise<void> => {
      for (const i of missing) {
        const answer = await turn.lend(lengthOf(i), async () => {
          const Body = await file.read(i * file.partBytes, lengthOf(i));
          const ContentMD5 = file.partMd5s[i]!.toString("base64");
          const part = { ...this.#of(file.key), UploadId: uploadId, PartNumber: i + 1, Body, ContentMD5 };
          return this.#ask(signal, Body.length, (o) => this.#client.send(new UploadPartCommand(part), o));
        });
        etags.set(i, answer.ETag ?? "");
        turn.sent((sent += lengthOf(i)));
      }
    };
    // Each worker takes the next part from one iterator. All are awaited: none may still run when the upload is
    // retried.
    const lines = await Promise.allSettled(Array.from({ length: PARALLEL_PARTS }, sendNext));
    for (const line of lines) if (line.status === "rejected") throw line.reason;
    await this.#complete(file, uploadId, etags, signal);
  }

  async #begin(file: SourceFile, signal: AbortSignal): Promise<string> {
    const command = new CreateMultipartUploadCommand(this.#headers(file));
    const begin = () => this.#ask(signal, 0, (o) => this.#once.send(command, o));
    // If the store refused a wrong clock, its answer corrects the clock.
    const { UploadId } = await begin().catch((e: unknown) =>
      statusOf(e) === 403 ? begin() : Promise.reject(e as Error),
    );
    if (!UploadId) throw this.#unreachable("it began an upload without naming it");
    return UploadId;
  }

  /** B4. */
  async #unfinished(key: string, signal: AbortSignal): Promise<string | null> {
    const [newest, ...older] = await this.#begun(key, signal);
    for (const uploadId of older) await this.#abort(key, uploadId, signal);
    return newest ?? null;
  }

  /** Unfinished uploads of a key, the newest first. */
  async #begun(key: string, signal: AbortSignal): Promise<string[]> {
    const command = new ListMultipartUploadsCommand({ Bucket: this.#access.bucket, Prefix: key });
    const listed = await this.#ask(signal, 0, (o) => this.#client.send(command, o)).catch((e: unknown) => {
      // Not every key may list; then only a crash between two answers could leave an upload behind.
      if (statusOf(e) === 403 || statusOf(e) === 404 || statusOf(e) === 501) return { Uploads: [] };
      throw e;
    });
    return (listed.Uploads ?? [])
      .filter((u) => u.Key === key)
      .sort((a, b) => (b.Initiated?.getTime() ?? 0) - (a.Initiated?.getTime() ?? 0))
      .flatMap((u) => u.UploadId ?? []);
  }

  /** The correct parts in the store; null if it has forgotten the upload. */
  async #parts(file: SourceFile, UploadId: string, signal: AbortSignal): Promise<Map<number, string> | null> {
    const etags = new Map<number, string>();
    let marker: string | undefined;
    do {
      const command = new ListPartsCommand({ ...this.#of(file.key), UploadId, PartNumberMarker: marker });
      const page = await this.#ask(signal, 0, (o) => this.#client.send(command, o)).catch((e: unknown) => {
        if (statusOf(e) === 404) return null;
        throw e;
      });
      if (page === null) return null;
      for (const { PartNumber = 0, ETag = "" } of page.Parts ?? [])
        if (md5Of(ETag) === file.partMd5s[PartNumber - 1]?.toString("hex")) etags.set(PartNumber - 1, ETag);
      marker = page.IsTruncated && page.NextPartNumberMarker !== marker ? page.NextPartNumberMarker : undefined;
    } while (marker !== undefined);
    return etags;
  }

  async #complete(
    file: SourceFile,
    UploadId: string,
    etags: ReadonlyMap<number, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const Parts = file.partMd5s.map((_, i) => ({ PartNumber: i + 1, ETag: etags.get(i) }));
    const command = new CompleteMultipartUploadCommand({ ...this.#of(file.key), UploadId, MultipartUpload: { Parts } });
    const answer = await this.#ask(signal, 0, (o) => this.#client.send(command, o)).catch(async (e: unknown) => {
      // The answer was lost: the upload is unknown because it was completed.
      if (statusOf(e) === 404 && (await this.holds(file, signal))) return null;
      throw e;
    });
    if (answer === null) return;
    await this.#prove(file, answer, signal);
  }

  /** B2. */
  async #prove(file: SourceFile, answer: Answered, signal: AbortSignal): Promise<void> {
    if (md5Of(answer.ETag ?? "") === expectedEtag(file) || isOpaque(answer)) return;
    const read = await this.#readBack(file, signal);
    if (read.size === file.size && read.sha256 === file.sha256) return;
    throw new SvcError("sink_mismatch", {
      sink: this.#access.url,
      path: file.key,
      why: `${file.size} bytes of SHA-256 ${file.sha256.slice(0, 12)}… were sent, ${read.size} of ${read.sha256.slice(0, 12)}… are there`,
    });
  }

  #readBack({ key }: SourceFile, signal: AbortSignal): Promise<{ size: number; sha256: string }> {
    return this.#ask(signal, 0, async (o) => {
      const hash = createHash("sha256");
      let size = 0;
      const { Body } = await this.#client.send(new GetObjectCommand(this.#of(key)), o);
      for await (const piece of Body as AsyncIterable<Buffer>) {
        o.abortSignal.throwIfAborted();
        o.moved();
        hash.update(piece);
        size += piece.length;
      }
      return { size, sha256: hash.digest("hex") };
    });
  }

  async abandon(key: string, resume: string | null, signal: AbortSignal): Promise<void> {
    const ids = resume === null ? await this.#begun(key, signal) : [resume];
    for (const id of ids) await this.#abort(key, id, signal);
  }

  async #abort(key: string, UploadId: string, signal: AbortSignal): Promise<void> {
    const command = new AbortMultipartUploadCommand({ ...this.#of(key), UploadId });
    await this.#ask(signal, 0, (o) => this.#client.send(command, o)).catch((e: unknown) => {
      if (statusOf(e) !== 404) throw e;
    });
  }

  close(): void {
    this.#client.destroy();
    this.#once.destroy();
  }

  #of(Key: string) {
    return { Bucket: this.#access.bucket, Key };
  }

  #headers(file: SourceFile) {
    return { ...this.#of(file.key), ContentType: file.contentType, Metadata: { sha256: file.sha256 } };
  }

  /** One call, with a timeout on silence and its failure as an svc error. */
  async #ask<T>(signal: AbortSignal, bytes: number, call: (o: Watched) => Promise<T>): Promise<T> {
    const quiet = new Quiet(bytes, this.#pace);
    try {
      return await call({ abortSignal: AbortSignal.any([signal, quiet.signal]), moved: quiet.moved });
    } catch (e) {
      signal.throwIfAborted();
      throw this.#inWords(e, quiet.words);
    } finally {
      quiet.end();
    }
  }

  #inWords(e: unknown, quietFor: string): SvcError {
    if (isBug(e)) return asSvcError(e);
    const { name = "", message = "" } = e as { name?: string; message?: string };
    const status = statusOf(e);
    if (name === "CredentialsProviderError" || name === "TokenProviderError")
      return new SvcError(
        "sink_credentials",
        { sink: this.#access.url, missing: plainWords(message, this.#access.secrets) },
        { cause: e },
      );
    if (name === "AbortError" || name === "TimeoutError") return this.#unreachable(quietFor, e);
    if (status === null) return this.#unreachable(networkWords(e), e);
    if (status >= 300 && status < 400)
      return new SvcError("sink_refused", { sink: this.#access.url, why: whereTo(e) }, { cause: e });
    const said = plainWords(message, this.#access.secrets);
    const why = `${WORDS[name] ?? `status ${status}`}${said === "" || said === "UnknownError" ? "" : ` (${said})`}`;
    // Failures that pass by themselves: throttling, a store that is partly down, a token that is being renewed.
    const passes = status >= 500 || status === 429 || status === 408 || status === 409 || PASSING.has(name);
    return passes
      ? this.#unreachable(why, e)
      : new SvcError("sink_refused", { sink: this.#access.url, why }, { cause: e });
  }

  #unreachable(why: string, cause?: unknown): SvcError {
    return new SvcError("sink_unreachable", { sink: this.#access.url, why }, { cause });
  }
}

const WORDS: Readonly<Record<string, string>> = {
  NoSuchBucket: "there is no such bucket",
  NotFound: "there is no such bucket",
  AccessDenied: "these credentials may not write there",
  Forbidden: "these credentials may not write there",
  InvalidAccessKeyId: "it does not know the access key id",
  SignatureDoesNotMatch: "the secret access key is not the one of this access key id",
  ExpiredToken: "the session token has expired",
  InvalidToken: "the session token is not valid",
  RequestTimeTooSkewed: "the clock of this computer is wrong",
  SlowDown: "it asks to go slower",
  BadDigest: "it got something else than was sent",
};

/** Corrupted or lost on the way, reported with status 400. */
const PASSING = new Set(["BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "RequestTimeout"]);

/** The HTTP status behind a failure of svc or the library; null without an answer. */
function statusOf(e: unknown): number | null {
  const { $metadata, cause } = e as { $metadata?: { httpStatusCode?: number }; cause?: unknown };
  if ($metadata !== undefined) return $metadata.httpStatusCode ?? null;
  return cause === undefined || cause === null ? null : statusOf(cause);
}

/** An object encrypted with the store's own keys has a meaningless ETag. */
const isOpaque = (answer: Answered): boolean =>
  answer.SSECustomerAlgorithm !== undefined || answer.ServerSideEncryption?.startsWith("aws:kms") === true;

const expectedEtag = ({ size, partBytes, md5, partMd5s }: SourceFile): string =>
  size <= partBytes
    ? md5.toString("hex")
    : `${createHash("md5").update(Buffer.concat(partMd5s)).digest("hex")}-${partMd5s.length}`;

const md5Of = (etag: string): string => etag.replaceAll('"', "").toLowerCase();
