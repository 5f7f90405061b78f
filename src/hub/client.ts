// Asks the hub which commit a revision is, which files it has, and for their bytes. Validates the answers.

import { z } from "zod";
import { boundedJson } from "../domain/bounded-json.ts";
import { Redactor } from "../domain/redaction.ts";
import { retryAfter } from "../domain/retry-after.ts";
import { SvcError } from "../errors/index.ts";
import { bad, Transient, type Reply, type Transfer } from "./transfer.ts";
import { firstChars, oneLine } from "../domain/terminal-text.ts";

const JSON_BYTES_MAX = 64 * 1024 * 1024;
const FILES_MAX = 200_000;
const PAGES_MAX = 10_000;

export interface HubFile {
  path: string;
  size: number;
  /** Git's own name of the content, or of the pointer file that represents it. */
  oid: string;
  /** SHA-256 of a content that is stored outside of git; null for a content in git. */
  sha256: string | null;
  xetHash: string | null;
}

/** The name of a file's content: its SHA-256 if it has one, else git's SHA-1. */
export const blobName = (file: HubFile): string => file.sha256 ?? file.oid;

const Sha = z.string().regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/);
const Info = z.object({
  sha: Sha,
  gated: z.union([z.boolean(), z.string()]).nullish(),
  disabled: z.boolean().nullish(),
});
const Entry = z.object({
  type: z.string(),
  path: z.string(),
  size: z.number().int().min(0).nullish(),
  oid: z.string().nullish(),
  lfs: z.object({ oid: z.string(), size: z.number().int().min(0) }).nullish(),
  xetHash: z.string().nullish(),
});

/** The request, in words for errors. */
export interface Asked {
  model: string;
  revision: string;
}

export class HubClient {
  readonly #transfer: Transfer;
  readonly #token: boolean;
  readonly #redactor: Redactor;

  /** @param token the token that `transfer` sends. */
  constructor(transfer: Transfer, token: string | null) {
    this.#transfer = transfer;
    this.#token = token !== null;
    this.#redactor = new Redactor(token === null ? [] : [token]);
  }

  /** The commit to which a revision points now. */
  async commitOf(asked: Asked, signal: AbortSignal): Promise<string> {
    const path = `/api/models/${asked.model}/revision/${encodeURIComponent(asked.revision)}`;
    const { value, url } = await this.#json(path, asked, signal);
    const info = Info.safeParse(value);
    if (!info.success) throw bad(url, "it names no commit");
    if (info.data.disabled === true)
      throw new SvcError("hub_refused", { what: asked.model, why: "the model was disabled by the hub" });
    return info.data.sha;
  }

  /** All files of a commit, page by page. */
  async files(asked: Asked, commit: string, signal: AbortSignal): Promise<HubFile[]> {
    const files: HubFile[] = [];
    let url: URL | null = this.#transfer.urlOf(`/api/models/${asked.model}/tree/${commit}?recursive=true&expand=false`);
    for (let page = 0; url !== null; page++) {
      const { value, reply } = await this.#jsonAt(url, asked, signal);
      const entries = z.array(Entry).safeParse(value);
      if (!entries.success) throw bad(url, "its list of files has not the form that is known");
      for (const entry of entries.data) if (entry.type === "file") files.push(fileOf(entry, url));
      if (files.length > FILES_MAX || page > PAGES_MAX) throw bad(url, `it lists more than ${FILES_MAX} files`);
      url = this.#nextPage(url, reply);
    }
    return files;
  }

  /** Requests one file's head, so that a refusal comes before gigabytes are downloaded. */
  async probe(asked: Asked, commit: string, file: HubFile, signal: AbortSignal): Promise<void> {
    const url = this.#fileUrl(asked, commit, file);
    const reply = await this.#transfer.get(url, { head: true, signal });
    reply.discard();
    // A signed address may allow only GET, so only the hub's own status counts.
    if (!reply.elsewhere && reply.status >= 400) throw this.#refusal(reply, asked, file.path);
  }

  /** The bytes of a file from an offset on; the answer is 200, 206 or 416. */
  async open(asked: Asked, commit: string, file: HubFile, from: number, signal: AbortSignal): Promise<Reply> {
    const url = this.#fileUrl(asked, commit, file);
    const headers: Record<string, string> = from > 0 ? { range: `bytes=${from}-` } : {};
    const reply = await this.#transfer.get(url, { headers, signal });
    if ([200, 206, 416].includes(reply.status)) return reply;
    reply.discard();
    if (reply.elsewhere && reply.status < 500 && reply.status !== 429) {
      // The signature has expired; the next try asks the hub for a new one.
      const why = `${reply.host} answered ${reply.status} to the address that the hub gave`;
      throw new Transient(new SvcError("hub_refused", { what: file.path, why }));
    }
    throw this.#refusal(reply, asked, file.path);
  }

  #fileUrl({ model }: Asked, commit: string, file: HubFile): URL {
    const path = file.path.split("/").map(encodeURIComponent).join("/");
    return this.#transfer.urlOf(`/${model}/resolve/${commit}/${path}`);
  }

  async #json(path: string, asked: Asked, signal: AbortSignal) {
    const url = this.#transfer.urlOf(path);
    return { url, ...(await this.#jsonAt(url, asked, signal)) };
  }

  async #jsonAt(url: URL, asked: Asked, signal: AbortSignal): Promise<{ value: unknown; reply: Reply }> {
    const reply = await this.#transfer.get(url, { headers: { accept: "application/json" }, signal });
    const parts: Buffer[] = [];
    let length = 0;
    for await (const part of reply.read()) {
      parts.push(part);
      length += part.length;
      if (length > JSON_BYTES_MAX) throw bad(url, "it is longer than 64 MiB");
    }
    if (reply.status >= 400) throw this.#refusal(reply, asked, null);
    const value = boundedJson(Buffer.concat(parts).toString("utf8"));
    if (value === undefined) throw bad(url, "it is not JSON, or has too many values");
    return { value, reply };
  }

  /** The server chooses the next page's address, and the token would be sent to it. */
  #nextPage(from: URL, reply: Reply): URL | null {
    const link = String(reply.headers["link"] ?? "");
    const target = /<([^<>]+)>\s*;[^,]*\brel="?next"?/.exec(link)?.[1];
    if (target === undefined) return null;
    const next = URL.canParse(target, from) ? new URL(target, from) : null;
    if (next?.origin !== this.#transfer.base.origin) throw bad(from, "its next page is on another host");
    return next;
  }

  #refusal(reply: Reply, asked: Asked, file: string | null): SvcError | Transient {
    const { status, hub } = reply;
    const code = String(hub["x-error-code"] ?? "");
    // A server in the hub's place may repeat the token in its message.
    const said = plain(this.#redactor.redactText(String(hub["x-error-message"] ?? "")));
    const what = file === null ? asked.model : `${file} of ${asked.model}`;
    if (status === 429 || status === 408 || status >= 500) return transient(reply, what, said, this.#token);
    if (code === "GatedRepo" || /gated/i.test(said)) {
      const page = `${this.#transfer.base.origin}/${asked.model}`;
      return new SvcError("hub_gated", { model: asked.model, page, token: this.#token });
    }
    if (/invalid (credentials|username or password|user token)/i.test(said))
      return new SvcError("hub_token_refused", { why: said });
    if (code === "RevisionNotFound") return new SvcError("hub_revision_not_found", asked);
    if (code === "EntryNotFound") return new SvcError("hub_refused", { what, why: "it does not exist (any more)" });
    if (status === 401 || status === 404 || code === "RepoNotFound")
      return new SvcError("hub_model_not_found", { model: asked.model, token: this.#token });
    return new SvcError("hub_refused", { what, why: said === "" ? `it answered ${status}` : said });
  }
}

function transient(reply: Reply, what: string, said: string, token: boolean): Transient {
  const asked = waitAsked(reply);
  if (reply.status === 429)
    return new Transient(
      new SvcError("hub_rate_limited", { wait_seconds: Math.ceil((asked ?? 1_000) / 1_000), token }),
      asked ?? 1_000,
    );
  const why = said === "" ? `it answered ${reply.status} for ${what}` : said;
  return new Transient(new SvcError("hub_unreachable", { host: reply.host, why }), asked);
}

/** `RateLimit: "api";r=0;t=55`, or `Retry-After` in seconds or as a date. */
function waitAsked({ headers }: Reply): number | null {
  const limit = /(?:^|;)\s*t=(\d{1,7})/.exec(String(headers["ratelimit"] ?? ""))?.[1];
  if (limit !== undefined) return Number(limit) * 1_000;
  return retryAfter(headers["retry-after"], Date.parse(headers["date"] ?? ""));
}

function fileOf(entry: z.infer<typeof Entry>, url: URL): HubFile {
  const { path, lfs } = entry;
  const size = lfs?.size ?? entry.size;
  const oid = entry.oid ?? "";
  const known = lfs ? /^[0-9a-f]{64}$/.test(lfs.oid) : /^[0-9a-f]{40}$/.test(oid);
  if (size === undefined || size === null || !known) throw bad(url, "it lists a file without its size or its hash");
  return { path, size, oid, sha256: lfs?.oid ?? null, xetHash: entry.xetHash ?? null };
}

/** Text from another computer, short and on one line. */
const plain = (text: string): string => firstChars(oneLine(text).replace(/\.$/, ""), 300);
