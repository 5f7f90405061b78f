// A strict double of the S3 protocol: it checks signatures, digests, parts and their order like the real one.

import { createHash, createHmac, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { StoreDouble, type Request } from "./store-faults.ts";

export const KEY_ID = "AKIATEST00000000TEST";
export const SECRET = "s3cret/of+the+double/0123456789abcdefABCDE";
const PART_BYTES_MIN = 5 * 1024 * 1024;
const PAGE = 2;

interface Upload {
  key: string;
  metadata: Record<string, string>;
  contentType: string;
  parts: Map<number, Buffer>;
  begun: Date;
}

const md5 = (bytes: Buffer): string => createHash("md5").update(bytes).digest("hex");
const sha256 = (bytes: Buffer | string): string => createHash("sha256").update(bytes).digest("hex");

export class S3Double extends StoreDouble {
  readonly uploads = new Map<string, Upload>();
  /** How often each part was received: `key partNumber`. */
  readonly taken = new Map<string, number>();
  readonly bucket: string;
  keyId = KEY_ID;
  secret = SECRET;

  constructor(bucket = "bucket") {
    super();
    this.bucket = bucket;
  }

  protected nameOf(request: IncomingMessage, url: URL): { what: string; key: string } {
    const key = decodeURIComponent(url.pathname).split("/").slice(2).join("/");
    const query = url.searchParams;
    const method = request.method ?? "";
    if (query.has("uploads"))
      return { what: method === "POST" ? "CreateMultipartUpload" : "ListMultipartUploads", key };
    if (query.has("uploadId")) {
      const names: Record<string, string> = {
        GET: "ListParts",
        PUT: "UploadPart",
        POST: "CompleteMultipartUpload",
        DELETE: "AbortMultipartUpload",
      };
      return { what: names[method] ?? method, key };
    }
    return { what: { PUT: "PutObject", GET: "GetObject", HEAD: "HeadObject" }[method] ?? method, key };
  }

  protected refuse(response: ServerResponse, status: number, code: string, message: string): void {
    response.writeHead(status, { "content-type": "application/xml" });
    response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
  }

  protected answer(asked: Request): void {
    const { request, response, url, key, what } = asked;
    const wrong = this.#unsigned(asked);
    if (wrong) return this.refuse(response, 403, wrong, wrong);
    if (decodeURIComponent(url.pathname).split("/")[1] !== this.bucket)
      return this.refuse(response, 404, "NoSuchBucket", "The specified bucket does not exist");
    const digest = request.headers["content-md5"];
    if (digest === undefined && (what === "PutObject" || what === "UploadPart"))
      return this.refuse(response, 400, "InvalidRequest", "Content-MD5 is required");
    if (digest !== undefined && digest !== createHash("md5").update(asked.body).digest("base64"))
      return this.refuse(response, 400, "BadDigest", "The Content-MD5 you specified did not match");
    switch (what) {
      case "PutObject":
        return this.#put(asked);
      case "GetObject":
      case "HeadObject":
        return this.#get(asked);
      case "CreateMultipartUpload": {
        const id = randomUUID();
        this.uploads.set(id, { ...metaOf(request), key, parts: new Map(), begun: new Date() });
        return xml(
          response,
          `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
        );
      }
      case "ListMultipartUploads": {
        const found = [...this.uploads].filter(([, u]) => u.key.startsWith(url.searchParams.get("prefix") ?? ""));
        const rows = found.map(
          ([id, u]) =>
            `<Upload><Key>${u.key}</Key><UploadId>${id}</UploadId><Initiated>${u.begun.toISOString()}</Initiated></Upload>`,
        );
        return xml(response, `<ListMultipartUploadsResult>${rows.join("")}</ListMultipartUploadsResult>`);
      }
      default:
        return this.#inUpload(asked);
    }
  }

  #put({ request, response, key, body, fault }: Request): void {
    const kept = fault?.do === "spoil" ? Buffer.concat([body, Buffer.from("!")]) : body;
    this.objects.set(key, { ...metaOf(request), bytes: kept });
    response.writeHead(200, { etag: `"${fault?.do === "wrong etag" ? "0".repeat(32) : md5(kept)}"` });
    response.end();
  }

  #get({ request, response, key }: Request): void {
    const held = this.objects.get(key);
    if (!held) return this.refuse(response, 404, "NoSuchKey", "The specified key does not exist.");
    const meta = Object.entries(held.metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
    const headers = {
      ...Object.fromEntries(meta),
      "content-type": held.contentType,
      etag: `"${held.etag ?? md5(held.bytes)}"`,
    };
    response.writeHead(200, { ...headers, "content-length": held.bytes.length });
    response.end(request.method === "HEAD" ? undefined : held.bytes);
  }

  #inUpload({ response, url, key, what, body, fault }: Request): void {
    const id = url.searchParams.get("uploadId") ?? "";
    const upload = this.uploads.get(id);
    if (upload?.key !== key) return this.refuse(response, 404, "NoSuchUpload", "The upload does not exist");
    if (what === "UploadPart") {
      const number = Number(url.searchParams.get("partNumber"));
      if (!(number >= 1 && number <= 10_000)) return this.refuse(response, 400, "InvalidArgument", "partNumber");
      const kept = fault?.do === "spoil" ? Buffer.concat([body.subarray(1), Buffer.from("!")]) : body;
      upload.parts.set(number, kept);
      const name = `${key} ${number}`;
      this.taken.set(name, (this.taken.get(name) ?? 0) + 1);
      response.writeHead(200, { etag: `"${md5(kept)}"` });
      return void response.end();
    }
    if (what === "ListParts") {
      const after = Number(url.searchParams.get("part-number-marker") ?? 0);
      const numbers = [...upload.parts.keys()].sort((a, b) => a - b).filter((n) => n > after);
      const page = numbers.slice(0, PAGE);
      const rows = page.map(
        (n) => `<Part><PartNumber>${n}</PartNumber><ETag>"${md5(upload.parts.get(n)!)}"</ETag></Part>`,
      );
      const more = numbers.length > page.length;
      return xml(
        response,
        `<ListPartsResult><IsTruncated>${more}</IsTruncated><NextPartNumberMarker>${page.at(-1) ?? 0}</NextPartNumberMarker>${rows.join("")}</ListPartsResult>`,
      );
    }
    if (what === "AbortMultipartUpload") {
      this.uploads.delete(id);
      response.writeHead(204);
      return void response.end();
    }
    return this.#complete(response, {
      id,
      key,
      upload,
      body: body.toString("utf8"),
      wrong: fault?.do === "wrong etag",
    });
  }

  #complete(
    response: ServerResponse,
    { id, key, upload, body, wrong }: { id: string; key: string; upload: Upload; body: string; wrong: boolean },
  ): void {
    const listed = [...body.matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, part = ""]) => ({
      number: Number(/<PartNumber>(\d+)</.exec(part)?.[1]),
      etag: /<ETag>(?:"|&quot;)?([0-9a-f]+)/.exec(part)?.[1],
    }));
    const bytes = listed.map(({ number, etag }) => {
      const part = upload.parts.get(number);
      return part && md5(part) === etag ? part : null;
    });
    if (listed.length === 0 || bytes.some((b) => b === null))
      return this.refuse(response, 400, "InvalidPart", "One or more of the specified parts could not be found");
    if (listed.some(({ number }, i) => i > 0 && number <= listed[i - 1]!.number))
      return this.refuse(response, 400, "InvalidPartOrder", "The list of parts was not in ascending order");
    if (bytes.slice(0, -1).some((b) => b!.length < PART_BYTES_MIN))
      return this.refuse(response, 400, "EntityTooSmall", "Your proposed upload is smaller than the minimum");
    const parts = bytes.map((b) => b!);
    const etag = `${createHash("md5")
      .update(Buffer.concat(parts.map((b) => Buffer.from(md5(b), "hex"))))
      .digest("hex")}-${parts.length}`;
    const { metadata, contentType } = upload;
    this.objects.set(key, { bytes: Buffer.concat(parts), metadata, contentType, etag });
    this.uploads.delete(id);
    const told = wrong ? `${"0".repeat(32)}-${parts.length}` : etag;
    xml(response, `<CompleteMultipartUploadResult><ETag>"${told}"</ETag></CompleteMultipartUploadResult>`);
  }

  /** The error code for a wrong signature; null for a right one. */
  #unsigned({ request, url, body }: Request): string | null {
    const { headers } = request;
    const [, credential = "", names = "", signature = ""] =
      /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]+)$/.exec(
        headers.authorization ?? "",
      ) ?? [];
    const [keyId, date = "", region = "", service = ""] = credential.split("/");
    if (keyId !== this.keyId) return "InvalidAccessKeyId";
    const hash = String(headers["x-amz-content-sha256"]);
    if (hash !== sha256(body)) return "XAmzContentSHA256Mismatch";
    const canonical = [
      request.method,
      url.pathname,
      [...url.searchParams]
        .map(([k, v]) => `${encode(k)}=${encode(v)}`)
        .sort()
        .join("&"),
      ...names.split(";").map((name) => `${name}:${String(headers[name]).trim()}`),
      "",
      names,
      hash,
    ].join("\n");
    const scope = `${date}/${region}/${service}/aws4_request`;
    const toSign = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(canonical)].join("\n");
    const keyed = [date, region, service, "aws4_request", toSign].reduce<string | Buffer>(
      (key, text) => createHmac("sha256", key).update(text).digest(),
      `AWS4${this.secret}`,
    );
    return (keyed as Buffer).toString("hex") === signature ? null : "SignatureDoesNotMatch";
  }
}

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function metaOf(request: IncomingMessage): { metadata: Record<string, string>; contentType: string } {
  const metadata = Object.entries(request.headers).flatMap(([name, value]) =>
    name.startsWith("x-amz-meta-") ? [[name.slice("x-amz-meta-".length), String(value)]] : [],
  );
  return {
    metadata: Object.fromEntries(metadata) as Record<string, string>,
    contentType: request.headers["content-type"] ?? "",
  };
}

function xml(response: ServerResponse, text: string): void {
  response.writeHead(200, { "content-type": "application/xml" });
  response.end(`<?xml version="1.0" encoding="UTF-8"?>${text}`);
}
