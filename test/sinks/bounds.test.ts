// An object store that answers without end.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import { OBJECT_BYTES_MAX, timeLimitMs } from "../../src/sinks/object-store.ts";

let server: Server | null = null;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

it.each([200, 403, 500])("a bomb with status %i is cut, counted as it is after inflation", async (status) => {
  const bomb = gzipSync(
    Buffer.concat([Buffer.from('{"error":"'), Buffer.alloc(64 * 1024 * 1024, "a"), Buffer.from('"}')]),
  );
  server = createServer((request, response) => {
    if (request.url === "/token") return void response.end('{"access_token":"t","expires_in":3600}');
    response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
  });
  await new Promise<void>((listening) => server?.listen(0, "127.0.0.1", listening));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const user = { type: "authorized_user", client_id: "c", client_secret: "s", refresh_token: "r" };
  const keyFile = JSON.stringify({ ...user, token_uri: `${endpoint}/token` });
  const place = {
    url: "gs://b",
    bucket: "b",
    prefix: "",
    endpoint,
    region: null,
    profile: null,
    keys: null,
    secrets: [],
  };
  const store = openGcs({ kind: "objstore_b", ...place, keyFile }, Date.now);
  const file = { key: "k", size: 1, sha256: "0", md5: Buffer.alloc(16) } as Parameters<typeof store.holds>[0];
  await expect(store.holds(file, new AbortController().signal)).rejects.toMatchObject({
    code: "sink_unreachable",
    message: expect.stringContaining("longer than 1 MiB") as string,
  });
});

it("gives the largest object a time that a timer can hold", () => {
  expect(timeLimitMs(0)).toBe(60_000);
  const signal = AbortSignal.timeout(timeLimitMs(OBJECT_BYTES_MAX));
  expect(timeLimitMs(OBJECT_BYTES_MAX)).toBeLessThan(2 ** 31);
  expect(signal.aborted).toBe(false);
});
