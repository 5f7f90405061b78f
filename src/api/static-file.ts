// One file of the dashboard or the documentation as the server answers with it.

import { createHash } from "node:crypto";
import { extname } from "node:path";

export interface StaticFile {
  body: Buffer;
  type: string;
  etag: string;
  cacheControl: string;
  /** Instead of the policy of every other answer. */
  policy?: string;
}

/** Files of the documentation are read when they are asked for; null: the file was removed since the start. */
export type Source = StaticFile | (() => StaticFile | null);

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
};

/** The answer for a file: its type is that of the path's ending. */
export function staticFile(path: string, body: Buffer): StaticFile {
  return {
    body,
    type: TYPES[extname(path)] ?? "application/octet-stream",
    etag: `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`,
    // The build puts a hash of the content into the name of everything under assets/.
    cacheControl: /^(\/docs)?\/assets\//.test(path) ? "private, max-age=31536000, immutable" : "no-cache",
  };
}
