// Object stores with an endless answer, or with one that leads elsewhere.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import { openS3 } from "../../src/sinks/s3-store.ts";

let server: Server | null = null;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function placeAt(listening: Server, scheme: "s3" | "gs") {
  await new Promise<void>((up) => listening.listen(0, "127.0.0.1", up));
  const endpoint = `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
  const keys = scheme === "s3" ? { accessKeyId: "a", secretAccessKey: "s" } : null;
  return { url: `${scheme}://b`, bucket: "b", prefix: "", endpoint, region: "r", profile: null, keys, secrets: [] };
}

/** The second kind of store at this server, which also answers `/token`. */
async function gcsAt(listening: Server) {
  const place = await placeAt(listening, "gs");
  const user = { type: "authorized_user", client_id: "c", client_secret: "s", refresh_token: "r" };
  const keyFile = JSON.stringify({ ...user, token_uri: `${place.endpoint}/token` });
  return openGcs({ kind: "objstore_b", ...place, keyFile }, Date.now);
}

it.each([200, 403, 500])("an endless answer of S3, with status %i, is cut", async (status) => {
  let sent = 0;
  server = createServer((_, response) => {
    response.writeHead(status, { "content-type": "application/xml" });
    const part = Buffer.alloc(1024 * 1024, "a");
    const more = (): void => {
      if (response.destroyed || sent > 400 * part.length) return void response.end();
      sent += part.length;
      response.write(part, () => more());
    };
    more();
  });
  const store = await openS3({ kind: "objstore_a", ...(await placeAt(server, "s3")), keyFile: null });
  await expect(store.abandon("k", "upload", new AbortController().signal)).rejects.toMatchObject({
    code: status === 403 ? "sink_refused" : "sink_unreachable",
    message: expect.stringContaining("its answer is longer than 8 MiB") as string,
  });
  // One retry, and the content of buffers.
  expect(sent).toBeLessThan(64 * 1024 * 1024);
  store.close();
});

it.each([200, 403, 500])("a bomb with status %i is cut, counted after decompression", async (status) => {
  const bomb = gzipSync(
    Buffer.concat([Buffer.from('{"error":"'), Buffer.alloc(64 * 1024 * 1024, "a"), Buffer.from('"}')]),
  );
  server = createServer((request, response) => {
    if (request.url === "/token") return void response.end('{"access_token":"t","expires_in":3600}');
    response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
  });
  const store = await gcsAt(server);
  const file = { key: "k", size: 1, sha256: "0", md5: Buffer.alloc(16) } as Parameters<typeof store.holds>[0];
  await expect(store.holds(file, new AbortController().signal)).rejects.toMatchObject({
    code: "sink_unreachable",
    message: expect.stringContaining("longer than 1 MiB") as string,
  });
});

it("An upload that the store begins at another address than its own is not sent there", async () => {
  const asked: string[] = [];
  const other = createServer((request, response) => {
    asked.push(String(request.url));
    response.writeHead(200).end("{}");
  });
  await new Promise<void>((up) => other.listen(0, "127.0.0.1", up));
  const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}/session`;
  server = createServer((request, response) => {
    if (request.url === "/token") return void response.end('{"access_token":"t","expires_in":3600}');
    response.writeHead(200, { location: elsewhere }).end();
  });
  const store = await gcsAt(server);
  const bytes = Buffer.from("12");
  const file = {
    key: "k",
    size: 2,
    sha256: "0",
    md5: Buffer.alloc(16),
    contentType: "a/b",
    partBytes: 1,
    partMd5s: [],
  };
  const remembered: string[] = [];
  const upload = store.upload(
    { ...file, read: (at, length) => Promise.resolve(bytes.subarray(at, at + length)) },
    {
      signal: new AbortController().signal,
      resume: null,
      remember: (name) => Promise.resolve(void remembered.push(name)),
      sent: () => {},
      lend: (_, fn) => fn(),
    },
  );
  await expect(upload).rejects.toMatchObject({ code: "sink_unreachable" });
  other.close();
  expect([asked, remembered]).toEqual([[], []]);
});
