// Sinks against other people's servers for each protocol: moto for S3, gcp-storage-emulator for Cloud Storage. They
// check the framing of uploads, not signatures, which the strict doubles of test/sinks check.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { removeHomes } from "../engine/harness.ts";
import { GcsDouble } from "../sinks/gcs-double.ts";
import { KEY_ID, SECRET } from "../sinks/s3-double.ts";
import { JOB, MIB, noise, World } from "../sinks/world.ts";
import { environment, freePort, start, type PythonServer } from "./python-server.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-services-"));
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
afterAll(() => {
  removeHomes();
  rmSync(folder, { recursive: true, force: true });
});

interface Service {
  kind: "objstore_a" | "objstore_b";
  url: string;
  packages: string[];
  args(port: number): string[];
  makeBucket(url: string): Promise<unknown>;
  env(url: string, tokens: GcsDouble): NodeJS.ProcessEnv;
  credentials: Record<string, string>;
  /** The library that reads the objects. */
  reader: string;
  /** The address at which an object can be read. */
  object(url: string, key: string): string;
}

const SERVICES: Service[] = [
  {
    kind: "objstore_a",
    url: "s3://bucket/runs",
    packages: ["moto[s3,server]==5.2.5"],
    args: (port) => ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)],
    makeBucket: (url) => fetch(`${url}/bucket`, { method: "PUT" }),
    env: (url) => ({ SVC_OBJSTORE_A_URL: url, SINK_SECRET: SECRET }),
    credentials: { access_key_id: KEY_ID, secret_access_key: "env://SINK_SECRET", region: "us-east-1" },
    reader: `AWS4-HMAC-SHA256 Credential=${KEY_ID}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0`,
    object: (url, key) => `${url}/bucket/${key}`,
  },
  {
    kind: "objstore_b",
    url: "gs://bucket/runs",
    packages: ["gcp-storage-emulator==2026.7.19"],
    args: (port) => [
      "-c",
      `from gcp_storage_emulator.server import create_server\ncreate_server("127.0.0.1", ${port}, in_memory=True, default_bucket="bucket").run()`,
    ],
    makeBucket: () => Promise.resolve(),
    env: (url, tokens) => ({ SVC_OBJSTORE_B_URL: url, SINK_KEY: tokens.keyFile }),
    credentials: { service_account_json: "env://SINK_KEY" },
    reader: "Bearer anybody",
    object: (url, key) => `${url}/storage/v1/b/bucket/o/${encodeURIComponent(key)}?alt=media`,
  },
];

describe.each(SERVICES)("a sink of $kind at $packages.0", (service) => {
  const tokens = new GcsDouble();
  let server: PythonServer;
  let w: World;

  beforeAll(async () => {
    await tokens.listen();
    const env = environment(service.packages);
    const port = await freePort();
    server = await start(env, port, service.args(port), folder);
    await service.makeBucket(server.url);
  });
  afterAll(async () => {
    await server?.close();
    await tokens.close();
  });
  beforeEach(async () => {
    w = await World.open(service.env(server.url, tokens));
  });
  afterEach(() => w.end());

  const read = async (path: string): Promise<Buffer> => {
    const headers = { authorization: service.reader };
    const answer = await fetch(service.object(server.url, `runs/${JOB}/${path}`), { headers });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return Buffer.from(await answer.arrayBuffer());
  };

  it("contains exactly the local files, small, empty and in parts, and their list", async () => {
    const large = noise(21 * MIB);
    await w.submit({
      sinks: [{ kind: service.kind, url: service.url, what: ["checkpoints", "logs"], ...service.credentials }],
    });
    await w.checkpoint("step 1/small.bin", "small");
    await w.checkpoint("empty.bin", "");
    await w.checkpoint("large.bin", large);
    await w.log("one line\n");
    await w.over();
    await w.until("all is copied", () => w.status.state === "done");
    expect(w.status).toMatchObject({ sent: { files: 4 }, left_out: [], error: null });
    expect((await read("checkpoints/step 1/small.bin")).toString()).toBe("small");
    expect((await read("checkpoints/empty.bin")).length).toBe(0);
    expect((await read("checkpoints/large.bin")).equals(large)).toBe(true);
    expect((await read("run.log")).toString()).toBe("one line\n");
    const list = JSON.parse((await read("manifest.json")).toString()) as {
      complete: boolean;
      files: { path: string; sha256: string }[];
    };
    expect(list.complete).toBe(true);
    for (const { path, sha256: told } of list.files) expect(told).toBe(sha256(await read(path)));
  });

  it("resumes an upload after another control plane has taken over, and overwrites changed files", async () => {
    const large = noise(33 * MIB);
    await w.submit({
      sinks: [{ kind: service.kind, url: service.url, what: ["checkpoints"], ...service.credentials }],
    });
    await w.checkpoint("large.bin", large);
    await w.until("a part is there, or all", () => w.status.uploads.some((u) => u.sent > 0) || w.status.sent.files > 0);
    w = await w.restart(service.env(server.url, tokens));
    await w.until("all is copied", () => w.status.waiting.files === 0);
    expect((await read("checkpoints/large.bin")).equals(large)).toBe(true);
    await w.checkpoint("large.bin", "now short", Date.now());
    await w.over();
    await w.until("all is copied", () => w.status.state === "done");
    expect((await read("checkpoints/large.bin")).toString()).toBe("now short");
  });

  it("refuses a missing bucket before anything is made", async () => {
    const url = service.url.replace("bucket", "another-bucket");
    const sinks = [{ kind: service.kind, url, what: ["logs" as const], ...service.credentials }];
    await expect(w.submit({ sinks })).rejects.toMatchObject({
      code: "sink_refused",
      errors: [{ field: "spec.sinks[0]" }],
    });
  });
});
