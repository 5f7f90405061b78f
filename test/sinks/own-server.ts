// A server with the test's own behaviour, opened as a store of either protocol.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import type { ObjectStore, SourceFile, UploadTurn } from "../../src/sinks/object-store.ts";
import type { UploadPace } from "../../src/sinks/quiet.ts";
import { openS3 } from "../../src/sinks/s3-store.ts";

const servers: Server[] = [];
const stores: ObjectStore[] = [];
afterEach(() => {
  for (const store of stores.splice(0)) store.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

export type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

export async function serve(handler: Handler): Promise<string> {
  const server = createServer((request, response) => void handler(request, response));
  servers.push(server);
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A store of either protocol, whose requests with a file are given to `take`. */
export async function storeOf(scheme: "s3" | "gs", take: Handler, pace?: UploadPace): Promise<ObjectStore> {
  const endpoint = await serve((request, response) =>
    request.url === "/token" ? void response.end('{"access_token":"t","expires_in":3600}') : take(request, response),
  );
  const at = { url: `${scheme}://b`, bucket: "b", prefix: "", endpoint, region: "r", profile: null, secrets: [] };
  const user = { type: "authorized_user", client_id: "c", client_secret: "s", refresh_token: "r" };
  const keyFile = JSON.stringify({ ...user, token_uri: `${endpoint}/token` });
  const keys = { accessKeyId: "a", secretAccessKey: "s" };
  const store =
    scheme === "s3"
      ? await openS3({ kind: "objstore_a", ...at, keys, keyFile: null }, pace)
      : openGcs({ kind: "objstore_b", ...at, keys: null, keyFile }, Date.now, pace);
  stores.push(store);
  return store;
}

export function fileOf(bytes: Buffer): SourceFile {
  const md5 = createHash("md5").update(bytes).digest();
  return {
    key: "k",
    size: bytes.length,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    md5,
    contentType: "application/octet-stream",
    partBytes: bytes.length,
    partMd5s: [md5],
    read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
  };
}

export const turn = (): UploadTurn => ({
  signal: new AbortController().signal,
  resume: null,
  remember: () => Promise.resolve(),
  sent: () => undefined,
  lend: (_, fn) => fn(),
});
