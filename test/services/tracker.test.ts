// svc.log against the tracker's own library: to files, and to a server that answers as the tracker does.

import { spawn } from "node:child_process";
import { createServer, type Server } from "node:http";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { gathered } from "../gathered.ts";
import { environment } from "./python-server.ts";

const KEY = "0123456789012345678901234567890123456789";
const SCRIPT = "import svc\nfor i in range(10):\n    svc.log({'loss': 1 / (i + 1)}, step=i * 10)\n";

let python: string;
let folder: string;
beforeAll(() => {
  python = join(environment(["wandb==0.31.0"]), "bin/python");
});
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-tracker-")));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

async function job(env: Record<string, string>): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(python, ["-c", SCRIPT], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      PYTHONPATH: join(import.meta.dirname, "../../python"),
      SVC_METRICS_MARK: "m4rk",
      SVC_JOB_ID: "job1",
      SVC_TRACKER_FINISH_SECONDS: "90",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { out, err, exited } = gathered(child);
  return { code: await exited, out: out(), err: err() };
}

it("svc.log writes a run with the job's id offline, without a key", async () => {
  const { code, err } = await job({ WANDB_MODE: "offline" });
  expect(code, err).toBe(0);
  const [run = ""] = readdirSync(join(folder, "wandb")).filter((name) => /^offline-run-.*-job1$/.test(name));
  expect(err).toContain(run);
  const written = readFileSync(join(folder, "wandb", run, "run-job1.wandb"), "latin1");
  for (let i = 1; i < 10; i++) expect(written).toContain(String(1 / (i + 1)));
  expect(written).toContain("svc_step");
});

it("svc.log sends every value to the tracker's address, finishes the run, and reports its page", async () => {
  const asked: { path: string; authorization: string; body: string }[] = [];
  const server = tracker(asked);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const { code, out, err } = await job({ TRACKER_API_KEY: KEY, WANDB_BASE_URL: url, WANDB_PROJECT: "digits" });
    expect(code, err).toBe(0);
    expect(err).toBe(`svc.log: metrics also go to ${url}/team/digits/runs/job1\n`);
    expect(out).toContain(`{"k":"t","url":"${url}/team/digits/runs/job1","r":0}`);
    const files = asked.filter((a) => a.path === "/files/team/digits/job1/file_stream").map((a) => JSON.parse(a.body));
    const rows = files
      .flatMap((f) => (f.files?.["wandb-history.jsonl"]?.content ?? []) as string[])
      .map((row) => JSON.parse(row) as { loss: number; svc_step: number });
    expect(rows.map((row) => [row.loss, row.svc_step])).toEqual(
      Array.from({ length: 10 }, (_, i) => [1 / (i + 1), i * 10]),
    );
    expect(files.find((f) => f.complete)).toMatchObject({ complete: true, exitcode: 0 });
    expect(asked[0]?.authorization).toBe(`Basic ${Buffer.from(`api:${KEY}`).toString("base64")}`);
    expect(readdirSync(folder).filter((name) => name === "wandb")).toEqual([]);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** The part of the tracker's API that the library uses for one run. */
function tracker(asked: { path: string; authorization: string; body: string }[]): Server {
  return createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const raw = Buffer.concat(parts);
      const body = (request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw).toString("utf8");
      asked.push({ path: request.url ?? "", authorization: request.headers.authorization ?? "", body });
      const answer =
        request.url === "/graphql" ? { data: graphql(JSON.parse(body), `http://${request.headers.host}`) } : {};
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
  });
}

function graphql({ query, variables }: { query: string; variables: Record<string, unknown> }, url: string): object {
  if (query.includes("mutation UpsertBucket")) {
    const project = { id: "p", name: "digits", entity: { id: "e", name: "team" } };
    const bucket = { id: "x", name: variables["name"], displayName: "d", config: "{}", project, historyLineCount: 0 };
    return { upsertBucket: { bucket, inserted: true } };
  }
  if (query.includes("CreateRunFiles")) {
    const files = (variables["files"] as string[]).map((name) => ({ name, uploadUrl: `${url}/up/${name}` }));
    return { createRunFiles: { runID: "x", uploadHeaders: [], files } };
  }
  return { model: null, viewer: { id: "u", entity: "team", username: "u", flags: "{}" }, serverInfo: { features: [] } };
}
