// Sinks that cannot be reached: the error, and how soon it appears in the record and in the feed.
// @module-tag needs/openssl

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createPlainServer } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import type { SourceFile } from "../../src/sinks/object-store.ts";
import { openS3 } from "../../src/sinks/s3-store.ts";
import type { SinkAccess } from "../../src/sinks/sink-access.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { removeHomes } from "../engine/harness.ts";
import { World } from "./world.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-sink-tls-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  removeHomes();
});

/** A server with an untrusted certificate. */
async function selfSigned(): Promise<{ url: string; close: () => void }> {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"];
  execFileSync("openssl", [...request, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}
/** A port without a listener. */
async function refusing(): Promise<{ url: string; close: () => void }> {
  const server = createPlainServer();
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise((closed) => server.close(closed));
  return { url, close: () => undefined };
}
const unknownName = () => Promise.resolve({ url: "https://store.invalid", close: () => undefined });
const WAYS = [
  ["refuses the connection", refusing, "the connection was refused"],
  ["has an unknown name", unknownName, "its name cannot be resolved"],
  ["has a certificate that is not trusted", selfSigned, "certificate is not from a trusted CA"],
] as const;

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
const access = (kind: SinkAccess["kind"], endpoint: string): SinkAccess => ({
  kind,
  url: kind === "objstore_a" ? "s3://bucket/run" : "gs://bucket/run",
  bucket: "bucket",
  prefix: "run",
  endpoint,
  region: "eu-west-1",
  profile: null,
  keys: { accessKeyId: "AKIATEST", secretAccessKey: "secret-of-the-store" },
  keyFile: null,
  secrets: [],
});

/** A token server that works, so that only the store itself is unreachable. */
async function tokenServer(): Promise<{ keyFile: string; close: () => void }> {
  const server = createPlainServer((request, response) => {
    request.resume();
    response.end('{"access_token":"ya29.token","expires_in":3599}');
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const token_uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`;
  const user = { type: "authorized_user", client_id: "c", client_secret: "s", refresh_token: "r", token_uri };
  return { keyFile: JSON.stringify(user), close: () => server.close() };
}

describe.each(WAYS)("A store that %s", (_, storeAt, words) => {
  it.each(["objstore_a", "objstore_b"] as const)(
    "is reported within ten seconds, in plain words (%s)",
    async (kind) => {
      const [place, tokens] = [await storeAt(), await tokenServer()];
      const given = { ...access(kind, place.url), keyFile: tokens.keyFile };
      const store = kind === "objstore_a" ? await openS3(given) : openGcs(given, Date.now);
      try {
        const began = performance.now();
        await expect(store.holds(file, AbortSignal.timeout(DEADLINE_MS))).rejects.toMatchObject({
          code: "sink_unreachable",
          message: expect.stringContaining(words) as string,
        });
        expect(performance.now() - began).toBeLessThan(10_000);
      } finally {
        store.close();
        place.close();
        tokens.close();
      }
    },
  );

  it("appears in the run's record after the first attempt and in the feed after the third, and svc retries the copies", async () => {
    const place = await storeAt();
    const w = await World.open({ SINK_SECRET: "secret-of-the-store" });
    try {
      const credentials = { access_key_id: "AKIATEST", secret_access_key: "env://SINK_SECRET", region: "eu-west-1" };
      const sink = { kind: "objstore_a", url: "s3://bucket/run", what: ["checkpoints" as const] } as const;
      await w.submit({ sinks: [{ ...sink, what: [...sink.what], endpoint: place.url, credentials }] });
      await w.until("the failure is in the record", () => w.status.error !== null);
      expect(w.status).toMatchObject({ error: { message: expect.stringContaining(words) as string } });
      await w.until("the failure is in the feed", () => w.events("sink.failing").length > 0);
      // The third attempt follows after two waits, of one and of two seconds.
      expect(w.h.store.db.prepare("SELECT failures FROM sink").pluck().get()).toBe(3);
      expect(w.status).toMatchObject({ state: "retrying", next_attempt_at: expect.any(String) as string });
    } finally {
      await w.end();
      place.close();
    }
  });
});
