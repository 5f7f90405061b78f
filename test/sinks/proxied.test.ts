// The model hub and the stores of checkpoints behind HTTPS_PROXY: a real proxy, which makes tunnels, before a real TLS server.

import { DEADLINE_MS } from "../deadline.ts";
import { setGlobalProxyFromEnv } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { proxyEnvOf } from "../../src/domain/proxy-env.ts";
import { Transfer } from "../../src/hub/transfer.ts";
import { listening, proxyTo, trustedCertificates, type Witness } from "../tunnelling-proxy.ts";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import type { ObjectStore, SourceFile } from "../../src/sinks/object-store.ts";
import { openS3 } from "../../src/sinks/s3-store.ts";
import type { SinkAccess } from "../../src/sinks/sink-access.ts";

const SECRET = "s3cret-of-the-account-0123456789";
const certificate = trustedCertificates();

describe("Behind HTTPS_PROXY", { tags: "needs/openssl" }, () => {
  let pair: { key: string; cert: string };
  let witness: Witness;
  let asked: string[];
  beforeAll(() => {
    pair = certificate("example.test", "DNS:*.example.test");
  });

  /** One server for every name; the proxy leads all witness.tunnels to it. */
  beforeEach(async () => {
    witness = { seen: "", tunnels: [] };
    asked = [];
    const target = await listening(
      createTlsServer(pair, (request, response) => {
        asked.push(`${request.method} ${request.headers.host}${request.url?.split("?")[0]}`);
        request.resume();
        if (request.url === "/token") return void response.end('{"access_token":"ya29.token","expires_in":3599}');
        response.writeHead(404, { "content-type": "application/json" }).end('{"error":"not found"}');
      }),
    );
    vi.stubEnv("HTTPS_PROXY", await proxyTo(target, witness));
    onTestFinished(() => void vi.unstubAllEnvs());
  });

  const signal = AbortSignal.timeout(DEADLINE_MS);
  const file: SourceFile = {
    key: "run/a.bin",
    size: 1,
    sha256: "0".repeat(64),
    md5: Buffer.alloc(16),
    contentType: "application/octet-stream",
    partBytes: 8,
    partMd5s: [],
    read: () => Promise.resolve(Buffer.from("a")),
  };
  const access = (more: Partial<SinkAccess>): SinkAccess => ({
    kind: "objstore_a",
    url: "s3://bucket/run",
    bucket: "bucket",
    prefix: "run",
    endpoint: null,
    region: "eu-west-1",
    profile: null,
    keys: null,
    keyFile: null,
    secrets: [SECRET],
    ...more,
  });
  const close = (store: ObjectStore): void => onTestFinished(() => store.close());

  test("the model hub is reached through a tunnel, in which the proxy cannot read the token", async () => {
    const baseUrl = "https://hub.example.test";
    const hub = new Transfer({ baseUrl, token: SECRET, userAgent: "svc", stallMs: 10_000 });
    onTestFinished(() => hub.close());
    const reply = await hub.get(hub.urlOf("/api/models/ann/tiny"), { signal });
    expect(reply.status).toBe(404);
    reply.discard();
    expect(witness.tunnels).toEqual(["hub.example.test:443"]);
    expect(asked).toEqual(["GET hub.example.test/api/models/ann/tiny"]);
    expect(witness.seen).not.toContain(SECRET);
  });

  test("a store that speaks S3 is reached through a tunnel, in which the proxy cannot read its keys", async () => {
    const keys = { accessKeyId: "AKIATEST", secretAccessKey: SECRET };
    const store = await openS3(access({ endpoint: "https://s3.example.test", keys }));
    close(store);
    expect(await store.holds(file, signal)).toBe(false);
    expect(new Set(witness.tunnels)).toEqual(new Set(["s3.example.test:443"]));
    expect(asked).toEqual(["HEAD s3.example.test/bucket/run/a.bin"]);
    expect(witness.seen).not.toContain("AKIATEST");
  });

  test("a store that is called by fetch, and the address of its tokens, are reached through a tunnel", async () => {
    // As the control plane does at its start.
    const restore = setGlobalProxyFromEnv({ ...proxyEnvOf(process.env) });
    onTestFinished(() => restore());
    const keyFile = JSON.stringify({
      type: "authorized_user",
      client_id: "me",
      client_secret: SECRET,
      refresh_token: `${SECRET}-refresh`,
      token_uri: "https://oauth.example.test/token",
    });
    const store = openGcs(access({ kind: "objstore_b", endpoint: "https://gcs.example.test", keyFile }), Date.now);
    close(store);
    expect(await store.holds(file, signal)).toBe(false);
    expect(witness.tunnels).toEqual(["oauth.example.test:443", "gcs.example.test:443"]);
    expect(asked).toEqual(["POST oauth.example.test/token", "GET gcs.example.test/storage/v1/b/bucket/o/run%2Fa.bin"]);
    expect(witness.seen).not.toMatch(/s3cret|ya29/);
  });
});
