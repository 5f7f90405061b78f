// The JSON API of Google Cloud Storage: simple uploads for small files, resumable sessions for large ones. Its own
// library does not expose the state of a session, so another process could not resume it; svc needs only a small part
// of the protocol.
//
// G1. The MD5 of the whole is sent before the content: the store refuses a content that does not match. Its answer is
//     compared again.
// G2. Any holder of a session's address can write to it: it must be at the store's own address, and is stored sealed.
// G3. Only the store knows how much of a session has arrived: svc asks it and resumes from there.

import { createHash, randomUUID } from "node:crypto";
import { z } from "zod";
import { boundedJson } from "../domain/bounded-json.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import { isBug, networkWords, plainWords, type ObjectStore, type SourceFile, type UploadTurn } from "./object-store.ts";
import { readKeyFile } from "../providers/cloudvm/auth.ts";
import { TokenSource } from "../providers/cloudvm/tokens.ts";
import { PACE, Quiet, webStreamOf, type UploadPace } from "./quiet.ts";
import type { SinkAccess } from "./sink-access.ts";

/** Only the facts of one object, and refusals, are read whole. */
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
const ANSWER_BYTES_MAX = 1024 * 1024;
/** Consecutive answers without progress before an upload is given up for now. */
const STANDSTILLS_MAX = 5;

const ObjectFacts = z.looseObject({
  size: z.coerce.number(),
  md5Hash: z.string().optional(),
  metadata: z.record(z.string(), z.string()).optional().catch(undefined),
});
type ObjectFacts = z.infer<typeof ObjectFacts>;
const Refusal = z.looseObject({ error: z.union([z.string(), z.looseObject({ message: z.string() })]) });

interface Ask {
  method: "GET" | "POST" | "PUT" | "DELETE";
  url: string;
  headers?: Record<string, string>;
  body?: Buffer;
  /** Receives the pieces of a long answer, whose text is then empty. */
  content?: (piece: Uint8Array) => void;
  /** A session's address is itself a key. */
  withToken?: boolean;
  /** Statuses that count as success. */
  good: readonly number[];
}

interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** Sent in pieces, so that a slow line shows progress. */
function bodyOf({ body }: Ask, moved: () => void) {
  if (body === undefined) return {};
  if (body.length === 0) return { body: new Uint8Array() };
  return { body: webStreamOf(body, moved), duplex: "half" as const };
}

/** Without it, the body would be sent with chunked transfer encoding, which not every store accepts. */
const lengthOf = ({ body }: Ask): Record<string, string> =>
  body === undefined || body.length === 0 ? {} : { "content-length": String(body.length) };

export function openGcs(access: SinkAccess, now: () => number, pace = PACE): ObjectStore {
  try {
    const tokens = new TokenSource(readKeyFile(access.keyFile ?? "", access.kind), now, {
      whose: access.kind,
      scope: SCOPE,
    });
    return new GcsStore(access, tokens, pace);
  } catch (e) {
    throw inWords(access, e);
  }
}

class GcsStore implements ObjectStore {
  readonly #access: SinkAccess;
  readonly #tokens: TokenSource;
  readonly #base: string;
  readonly #pace: UploadPace;

  constructor(access: SinkAccess, tokens: TokenSource, pace: UploadPace) {
    this.#access = access;
    this.#pace = pace;
    this.#tokens = tokens;
    this.#base = (access.endpoint ?? "https://storage.googleapis.com").replace(/\/+$/, "");
  }

  async holds({ key, size, sha256, md5 }: SourceFile, signal: AbortSignal): Promise<boolean> {
    const ask: Ask = { method: "GET", url: this.#object(key), good: [200, 403, 404] };
    const answer = await this.#ask(ask, signal);
    const facts = ObjectFacts.safeParse(boundedJson(answer.text));
    if (answer.status !== 200 || !facts.success) return false;
    // The metadata is svc's own claim about the sent content; the MD5 is the store's about the stored one.
    const has = facts.data.size === size && facts.data.metadata?.["sha256"] === sha256;
    return has && facts.data.md5Hash === md5.toString("base64");
  }

  upload(file: SourceFile, turn: UploadTurn): Promise<void> {
    return file.size <= file.partBytes ? this.#put(file, turn) : this.#inParts(file, turn);
  }

  async #put(file: SourceFile, turn: UploadTurn): Promise<void> {
    const boundary = `svc-${randomUUID()}`;
    const facts = await turn.lend(file.size, async () => {
      const body = Buffer.concat([
        Buffer.from(
          `--${boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n${JSON.stringify(describe(file))}\r\n`,
        ),
        Buffer.from(`--${boundary}\r\ncontent-type: ${file.contentType}\r\n\r\n`),
        await file.read(0, file.size),
        Buffer.from(`\r\n--${boundary}--\r\n`),
      ]);
      const headers = { "content-type": `multipart/related; boundary=${boundary}` };
      const url = this.#uploadUrl("multipart", file.key);
      return this.#facts(await this.#ask({ method: "POST", url, headers, body, good: [200, 201] }, turn.signal));
    });
    await this.#prove(file, facts, turn.signal);
    turn.sent(file.size);
  }

  async #inParts(file: SourceFile, turn: UploadTurn): Promise<void> {
    let session = turn.resume;
    // G3. The upload of an earlier try may be complete, or forgotten.
    let at = session === null ? null : await this.#arrived(session, file, turn.signal);
    if (at === null) {
      session = await this.#begin(file, turn.signal);
      await turn.remember(session);
      at = 0;
    }
    let standstills = 0;
    while (typeof at === "number") {
      turn.sent(at);
      const from: number = at;
      const length = Math.min(file.partBytes, file.size - from);
      at = await turn.lend(length, async () => {
        const body = await file.read(from, length);
        return this.#piece(session!, { from, body, size: file.size }, turn.signal);
      });
      standstills = typeof at === "number" && at <= from ? standstills + 1 : 0;
      if (at === null || standstills > STANDSTILLS_MAX) throw this.#unreachable("it stopped taking the file");
    }
    await this.#prove(file, at, turn.signal);
    turn.sent(file.size);
  }

  async #begin(file: SourceFile, signal: AbortSignal): Promise<string> {
    const body = Buffer.from(JSON.stringify(describe(file)));
    const headers = {
      "content-type": "application/json; charset=UTF-8",
      "x-upload-content-type": file.contentType,
      "x-upload-content-length": String(file.size),
    };
    const url = this.#uploadUrl("resumable", file.key);
    const answer = await this.#ask({ method: "POST", url, headers, body, good: [200, 201] }, signal);
    const session = answer.headers.get("location") ?? "";
    // G2.
    if (!URL.canParse(session) || new URL(session).origin !== new URL(this.#base).origin)
      throw this.#unreachable("it began an upload at another address than its own");
    return session;
  }

  /** Number of bytes that the session has; the object's facts if it is complete; null if the store has forgotten it. */
  #arrived(session: string, file: SourceFile, signal: AbortSignal): Promise<number | ObjectFacts | null> {
    return this.#inSession(session, `bytes */${file.size}`, Buffer.alloc(0), signal);
  }

  #piece(session: string, part: { from: number; body: Buffer; size: number }, signal: AbortSignal) {
    const { from, body, size } = part;
    return this.#inSession(session, `bytes ${from}-${from + body.length - 1}/${size}`, body, signal);
  }

  async #inSession(
    url: string,
    range: string,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<number | ObjectFacts | null> {
    const headers = { "content-range": range };
    const good = [200, 201, 308, 404, 410, 499];
    const answer = await this.#ask({ method: "PUT", url, headers, body, withToken: false, good }, signal);
    if (answer.status === 200 || answer.status === 201) return this.#facts(answer);
    if (answer.status !== 308) return null;
    const last = /^bytes=0-(\d+)$/.exec(answer.headers.get("range") ?? "")?.[1];
    return last === undefined ? 0 : Number(last) + 1;
  }

  #facts(answer: Answer): ObjectFacts {
    const facts = ObjectFacts.safeParse(boundedJson(answer.text));
    if (facts.success) return facts.data;
    throw this.#unreachable("it answered with something else than the facts of an object");
  }

  /** G1. If the store reports no MD5, the object is read back. */
  async #prove(file: SourceFile, facts: ObjectFacts, signal: AbortSignal): Promise<void> {
    const mismatch = (what: string) =>
      new SvcError("sink_mismatch", { sink: this.#access.url, path: file.key, why: what });
    if (facts.size !== file.size) throw mismatch(`${file.size} bytes were sent, ${facts.size} are there`);
    if (facts.md5Hash === file.md5.toString("base64")) return;
    const hash = createHash("sha256");
    const url = `${this.#object(file.key)}?alt=media`;
    await this.#ask({ method: "GET", url, content: (piece) => void hash.update(piece), good: [200] }, signal);
    if (hash.digest("hex") !== file.sha256) throw mismatch("its checksum is another");
  }

  async abandon(_key: string, session: string | null, signal: AbortSignal): Promise<void> {
    // A session whose address was lost cannot be found, and expires by itself.
    if (session === null) return;
    const ask: Ask = { method: "DELETE", url: session, withToken: false, good: [200, 204, 404, 410, 499] };
    await this.#ask(ask, signal);
  }

  close(): void {
    // Nothing stays open except the connections of the platform's own pool, which expire by themselves.
  }

  #object(key: string): string {
    return `${this.#base}/storage/v1/b/${encodeURIComponent(this.#access.bucket)}/o/${encodeURIComponent(key)}`;
  }

  #uploadUrl(uploadType: string, key: string): string {
    const query = new URLSearchParams({ uploadType, name: key });
    return `${this.#base}/upload/storage/v1/b/${encodeURIComponent(this.#access.bucket)}/o?${query.toString()}`;
  }

  /** One call, with a timeout on silence and its failure as an svc error. A refused token is replaced once. */
  async #ask(ask: Ask, signal: AbortSignal, again = true): Promise<Answer> {
    const quiet = new Quiet(ask.body?.length ?? 0, this.#pace);
    const withToken = ask.withToken !== false;
    try {
      const token = withToken ? await this.#tokens.token(signal) : "";
      const answer = await fetch(ask.url, {
        method: ask.method,
        headers: { ...lengthOf(ask), ...ask.headers, ...(withToken ? { authorization: `Bearer ${token}` } : {}) },
        redirect: "manual",
        signal: AbortSignal.any([signal, quiet.signal]),
        ...bodyOf(ask, quiet.moved),
      });
      const { status, headers } = answer;
      const good = ask.good.includes(status);
      const text = await this.#read(answer, good ? ask.content : undefined, quiet.moved);
      if (good) return { status, headers, text };
      if (status === 401 && withToken && again) {
        this.#tokens.refused(token);
        return await this.#ask(ask, signal, false);
      }
      throw this.#refusal(answer, text, token);
    } catch (e) {
      signal.throwIfAborted();
      throw (e as Error).name === "TimeoutError" ? this.#unreachable(quiet.words, e) : inWords(this.#access, e);
    } finally {
      quiet.end();
    }
  }

  /** The whole body, counted after decompression: an endless answer must not fill the memory. */
  async #read(answer: Response, content: Ask["content"], moved: () => void): Promise<string> {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of answer.body ?? []) {
      moved();
      if (content) {
        content(part);
        continue;
      }
      parts.push(part);
      bytes += part.length;
      if (bytes > ANSWER_BYTES_MAX) throw this.#unreachable("its answer is longer than 1 MiB");
    }
    return Buffer.concat(parts).toString("utf8");
  }

  #refusal({ status, headers }: Response, text: string, token: string): SvcError {
    const to = headers.get("location") ?? "";
    if (status >= 300 && status < 400 && URL.canParse(to)) {
      const why = `it redirects to ${plainWords(new URL(to).origin, [])}, and svc sends files only to the endpoint that you named`;
      return new SvcError("sink_refused", { sink: this.#access.url, why });
    }
    const parsed = Refusal.safeParse(boundedJson(text));
    const said = !parsed.success
      ? ""
      : typeof parsed.data.error === "string"
        ? parsed.data.error
        : parsed.data.error.message;
    const words = plainWords(said, [...this.#access.secrets, token]);
    const why = `${WORDS[status] ?? `status ${status}`}${words === "" ? "" : ` (${words})`}`;
    return status >= 500 || status === 429 || status === 408 || status === 409
      ? this.#unreachable(why)
      : new SvcError("sink_refused", { sink: this.#access.url, why });
  }

  #unreachable(why: string, cause?: unknown): SvcError {
    return new SvcError("sink_unreachable", { sink: this.#access.url, why }, { cause });
  }
}

const WORDS: Readonly<Record<number, string>> = {
  401: "it does not accept these credentials",
  403: "these credentials may not write there",
  404: "there is no such bucket",
  412: "it got something else than was sent",
  429: "it asks to go slower",
};

/** The object's description; G1. */
const describe = (file: SourceFile) => ({
  name: file.key,
  contentType: file.contentType,
  md5Hash: file.md5.toString("base64"),
  metadata: { sha256: file.sha256 },
});

function inWords(access: SinkAccess, e: unknown): unknown {
  if (isBug(e)) return asSvcError(e);
  if (!(e instanceof SvcError))
    return new SvcError("sink_unreachable", { sink: access.url, why: networkWords(e) }, { cause: e });
  const why =
    (e.data as { why?: string; missing?: string }).why ?? (e.data as { missing?: string }).missing ?? e.message;
  if (e.code === "credential_missing")
    return new SvcError("sink_credentials", { sink: access.url, missing: why }, { cause: e });
  if (e.code === "credential_refused" || e.code === "provider_unavailable")
    return new SvcError("sink_refused", { sink: access.url, why }, { cause: e });
  if (e.code === "provider_error" || e.code === "provider_unreachable")
    return new SvcError("sink_unreachable", { sink: access.url, why }, { cause: e });
  return e;
}
