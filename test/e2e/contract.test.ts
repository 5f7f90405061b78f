// The HTTP contract of a real `svc serve` over a real socket with real runs: statuses, shapes, defaults and refusals.
// The test parses every answer with the schema that the OpenAPI document is generated from.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import * as shape from "../../src/schemas/job.ts";
import { ACTIVE_STATUSES, STEP_NAMES } from "../../src/schemas/names.ts";
import { Place, until, type Served } from "../process/harness.ts";

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const JobIds = z.strictObject({ jobs: z.array(z.string()) });

const TRAIN = `import os, svc
for i in range(50):
    svc.log({"loss": 100.0 if i == 25 else 1 / (i + 1), "odd": float("nan") if i == 7 else i}, step=i)
print("line one\\nline two", flush=True)
os.makedirs(os.path.join(svc.checkpoint_dir(), "deep"))
open(os.path.join(svc.checkpoint_dir(), "deep", "a b ü.bin"), "wb").write(bytes(range(256)) * 64)
open(os.path.join(svc.checkpoint_dir(), "empty"), "wb").close()
print("last line", flush=True)
`;

let place: Place;
let served: Served;
/** Runs that are made once and shared by many tests. */
let done: shape.JobRecord;
let failed: shape.JobRecord;

beforeAll(async () => {
  place = new Place();
  place.file("train.py", TRAIN);
  place.file("fail.py", 'import sys\nprint("it goes wrong", flush=True)\nsys.exit(3)\n');
  place.file("wait.py", 'import time\nprint("at work", flush=True)\ntime.sleep(600)\n');
  place.file("slow.py", 'import time\nfor i in range(20):\n    print("n", i, flush=True)\n    time.sleep(0.05)\n');
  served = await place.serve();
  const spec = { entrypoint: "train.py", args: ["--x", "ü\n2", ""], env: { PLAIN: "v" } };
  const { status, body } = await served.post("/jobs", { label: "first", spec });
  expect(status).toBe(201);
  done = await served.ended(shape.JobRecord.parse(body).id);
  failed = await served.ended(await served.submit({ entrypoint: "fail.py" }));
});
afterAll(() => place.close());

const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(served.url + path, { headers });
const json = async (path: string): Promise<unknown> => (await get(path)).json();
const send = (path: string, body: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(served.url + path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
const running = async (): Promise<string> => {
  const id = await served.submit({ entrypoint: "wait.py" });
  await until(async () => (await served.text(`/jobs/${id}/logs`)).includes("at work"), "the run is at work");
  return id;
};

/** Checks one error answer of the form of RFC 9457. */
async function problem(answer: Response, status: number, code: string, field?: string): Promise<shape.Problem> {
  expect(answer.headers.get("content-type")).toContain("application/problem+json");
  const told = shape.Problem.parse(await answer.json());
  expect({ answered: answer.status, status: told.status, code: told.code }).toEqual({ answered: status, status, code });
  expect(told.hint).not.toBe("");
  if (field !== undefined) expect(told.errors?.map((e) => e.field)).toContain(field);
  return told;
}

describe("submitting", () => {
  test("returns every field of the record, with its defaults", async () => {
    expect(done).toMatchObject({
      status: "succeeded",
      exit_code: 0,
      cost_usd: 0,
      label: "first",
      provider: "local",
      gpus: "cpu",
      nodes: 1,
      entrypoint: "train.py",
      args: ["--x", "ü\n2", ""],
      price_per_hour_usd: 0,
      error: null,
      spec: {
        terminate_on_exit: true,
        orphan_grace_minutes: 30,
        install: "auto",
        launcher: "auto",
        data: [],
        sinks: [],
        project_dir: place.project,
      },
    });
    expect(done.id).toMatch(/^[a-z0-9]{1,32}$/);
    for (const at of [done.created_at, done.started_at, done.ended_at]) expect(at).toMatch(RFC3339);
    expect(done.machines).toMatchObject([{ node: 0, state: "released" }]);
    expect(done.machines[0]?.terminated_at).toMatch(RFC3339);
    expect(failed).toMatchObject({ status: "failed", exit_code: 3, label: null, error: { code: "script_failed" } });
  });

  test("answers 201 with the Location of the record, which is already stored", async () => {
    const answer = await send("/jobs", JSON.stringify({ label: null, spec: { entrypoint: "fail.py" } }));
    expect(answer.status).toBe(201);
    const record = shape.JobRecord.parse(await answer.json());
    expect(answer.headers.get("location")).toBe(`/jobs/${record.id}`);
    expect(shape.JobRecord.parse(await json(`/jobs/${record.id}`)).id).toBe(record.id);
    expect(record).toMatchObject({ status: "provisioning", exit_code: null, ended_at: null });
    await served.ended(record.id);
  });

  test("makes one job per Idempotency-Key, even for two calls at once", async () => {
    const body = JSON.stringify({ spec: { entrypoint: "fail.py", args: ["once"] } });
    const key = { "idempotency-key": "k-1" };
    const answers = await Promise.all([send("/jobs", body, key), send("/jobs", body, key), send("/jobs", body, key)]);
    const ids = await Promise.all(answers.map(async (a) => shape.JobRecord.parse(await a.json()).id));
    expect(answers.map((a) => a.status)).toEqual([201, 201, 201]);
    expect(new Set(ids).size).toBe(1);
    expect(answers.filter((a) => a.headers.get("idempotency-replayed") === "true")).toHaveLength(2);
    const other = JSON.stringify({ spec: { entrypoint: "fail.py", args: ["twice"] } });
    await problem(await send("/jobs", other, key), 409, "idempotency_conflict");
    await problem(await send("/jobs", body, { "idempotency-key": "a b" }), 400, "invalid_request", "Idempotency-Key");
    await served.ended(ids[0] as string);
  });
});

describe("refusing", () => {
  const wrong: [string, unknown, string?][] = [
    ["entrypoint", undefined],
    ["entrypoint", 7],
    ["entrypoint", ""],
    ["entrypoint", "a\nb"],
    ["entrypoint", "\ud800"],
    ["entrypoint", "x".repeat(2_000)],
    ["entrypoint", "none.py", "entrypoint_not_found"],
    ["entrypoint", "../x.py", "entrypoint_outside_project"],
    ["entrypoint", "/etc/passwd", "entrypoint_outside_project"],
    ["entrypoint", ".", "entrypoint_not_runnable"],
    ["entrypoint", "-m ../x", "entrypoint_not_runnable"],
    ["args", "x"],
    ["args[0]", ["\ud800"]],
    ["args[0]", ["\u0000"]],
    ["args", Array.from({ length: 1_001 }, () => "x")],
    ["provider", "nowhere"],
    ["provider", "podhost", "credential_missing"],
    ["gpus", "A100:0"],
    ["gpus", "A100:4", "gpus_unsupported"],
    ["min_vram_gb", 1.5],
    ["disk_gb", 0],
    ["region", "a\u0007"],
    ["price_cap", 0],
    ["price_cap", "1"],
    ["project_dir", "/none/there", "project_dir_refused"],
    ["nodes", 65],
    ["nodes", 2, "nodes_unsupported"],
    ["terminate_on_exit", "yes"],
    ["idle_timeout_minutes", -1],
    ["max_runtime_minutes", null],
    ["orphan_grace_minutes", "30"],
    ["env.A", { A: 1 }],
    ["env.A", { A: "\ud800" }],
    ["env.A", { A: "file:///etc/passwd" }],
    ['env["1A"]', { "1A": "x" }],
    ["env.SVC_JOB_ID", { SVC_JOB_ID: "other" }],
    ["env.A", { A: "env://SVC_TEST_IS_NOT_SET" }, "secret_not_found"],
    ["env.A", { A: "store://hub/token" }, "secret_not_found"],
    ["install", ""],
    ["launcher", "mpi"],
    ["image", 1],
    ["data[0]", ["d"], "data_unavailable"],
    ["resume_from", "other", "resume_unavailable"],
    ["sinks[0].kind", [{ kind: "disk", url: "x", what: ["logs"] }]],
    ["colour", "red"],
  ];
  test("names the invalid field, and starts nothing", async () => {
    const before = await count();
    for (const [field, value, code = "invalid_request"] of wrong) {
      const name = /^\w+/.exec(field)?.[0] as string;
      const spec = { entrypoint: "fail.py", [name]: value };
      const told = await problem(await send("/jobs", JSON.stringify({ spec })), 400, code, `spec.${field}`);
      expect(told.errors, field).toHaveLength(1);
    }
    for (const label of [1, "", "x".repeat(201), "a\nb", "\ud800"])
      await problem(
        await send("/jobs", JSON.stringify({ label, spec: { entrypoint: "fail.py" } })),
        400,
        "invalid_request",
        "label",
      );
    expect(await count()).toBe(before);
  });

  test("names every invalid field at once, each once", async () => {
    const spec = { entrypoint: [], nodes: 1e99, colour: 1 };
    const told = await problem(await send("/jobs", JSON.stringify({ spec })), 400, "invalid_request");
    expect(told.errors?.map((e) => e.field).sort()).toEqual(["spec.colour", "spec.entrypoint", "spec.nodes"]);
  });

  test("accepts only one JSON object, of bounded size and depth", async () => {
    const before = await count();
    const bodies: [string, number, string][] = [
      ["", 400, "invalid_json"],
      ["hello", 400, "invalid_json"],
      ['{"spec":{"entrypoint":"fail.py","price_cap":NaN}}', 400, "invalid_json"],
      ['{"spec":{"entrypoint":"fail.py","price_cap":1e999}}', 400, "invalid_request"],
      ['{"spec":{"entrypoint":"fail.py","entrypoint":"x"}}', 400, "invalid_json"],
      [`{"spec":${"[".repeat(5_000)}${"]".repeat(5_000)}}`, 400, "invalid_json"],
      ["[]", 400, "invalid_request"],
      ["null", 400, "invalid_request"],
      ["{}", 400, "invalid_request"],
      [`{"spec":{"entrypoint":"${"x".repeat(2_000_000)}"}}`, 413, "body_too_large"],
    ];
    for (const [body, status, code] of bodies) await problem(await send("/jobs", body), status, code);
    const text = await send("/jobs", '{"spec":{"entrypoint":"fail.py"}}', { "content-type": "text/plain" });
    await problem(text, 415, "unsupported_media_type");
    expect(await count()).toBe(before);
  });

  test("answers 404 and 405 as problems, on every path", async () => {
    for (const path of ["", "/logs", "/metrics", "/timeline", "/checkpoints", "/checkpoints/x", "/code"])
      await problem(await get(`/jobs/nope${path}`), 404, "job_not_found");
    await problem(await send("/jobs/nope/kill", "{}"), 404, "job_not_found");
    for (const path of ["/nope", "/v1/nope", "/jobs/"]) await problem(await get(path), 404, "not_found");
    await problem(await get(`/jobs/${done.id}/checkpoints/none`), 404, "file_not_found");
    const wrongMethod = await fetch(`${served.url}/jobs`, { method: "DELETE" });
    await problem(wrongMethod, 405, "method_not_allowed");
    expect(wrongMethod.headers.get("allow")).toContain("POST");
    await problem(await get("/v1/events"), 426, "upgrade_required");
  });

  const queries = [
    ["/jobs?limit=0", "limit"],
    ["/jobs?limit=501", "limit"],
    ["/jobs?limit=1&limit=2", "limit"],
    ["/jobs?status=dead", "status"],
    ["/jobs?provider=x", "provider"],
    ["/jobs?cursor=%00", "cursor"],
    ["/jobs?colour=red", "colour"],
    ["/v1/gpus?provider=x", "provider"],
  ];
  test("names the wrong part of a query", async () => {
    for (const [path, field] of queries) await problem(await get(path as string), 400, "invalid_request", field);
    for (const query of ["offset=-1", "offset=x", "tail=1.5", "follow=yes", "offset=1&tail=1"])
      await problem(await get(`/jobs/${done.id}/logs?${query}`), 400, "invalid_request");
    for (const query of ["max_points=1", "since_step=x", "nope=1"])
      await problem(await get(`/jobs/${done.id}/metrics?${query}`), 400, "invalid_request");
  });

  async function count(): Promise<number> {
    return shape.JobsPage.parse(await json("/jobs?limit=500")).jobs.length;
  }
});

describe("listing", () => {
  test("pages by cursor through all jobs once, newest first, and filters", async () => {
    const all = shape.JobsPage.parse(await json("/jobs?limit=500"));
    expect(all.next_cursor).toBeNull();
    const ids: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const page: shape.JobsPage = shape.JobsPage.parse(await json(`/jobs?limit=1${cursor && `&cursor=${cursor}`}`));
      expect(page.jobs).toHaveLength(1);
      ids.push(...page.jobs.map((j) => j.id));
      cursor = page.next_cursor;
    }
    expect(ids).toEqual(all.jobs.map((j) => j.id));
    expect(all.jobs.map((j) => j.created_at)).toEqual(
      all.jobs
        .map((j) => j.created_at)
        .sort()
        .reverse(),
    );
    const of = async (query: string): Promise<string[]> =>
      shape.JobsPage.parse(await json(`/jobs?${query}`)).jobs.map((j) => j.id);
    expect(await of("label=first")).toEqual([done.id]);
    expect(await of("status=succeeded")).toEqual(all.jobs.filter((j) => j.status === "succeeded").map((j) => j.id));
    expect(await of("status=failed&label=first")).toEqual([]);
    expect(await of("provider=podhost")).toEqual([]);
    expect(await of("provider=local&limit=500")).toEqual(ids);
  });
});

describe("logs", () => {
  const text = "line one\nline two\nlast line\n";
  test("are sent completely, from an offset, or as the last lines", async () => {
    const whole = await get(`/jobs/${done.id}/logs`);
    expect(whole.headers.get("content-type")).toContain("text/plain");
    expect(await whole.text()).toBe(text);
    const part = await get(`/jobs/${done.id}/logs?offset=5`);
    expect([await part.text(), part.headers.get("svc-log-offset")]).toEqual([text.slice(5), "5"]);
    const tail = await get(`/jobs/${done.id}/logs?tail=2`);
    expect([await tail.text(), tail.headers.get("svc-log-offset")]).toEqual(["line two\nlast line\n", "9"]);
    expect(await (await get(`/jobs/${done.id}/logs?tail=0`)).text()).toBe("");
    expect(await (await get(`/jobs/${done.id}/logs?offset=9999`)).text()).toBe("");
    const stamped = (await (await get(`/jobs/${done.id}/logs?timestamps=1`)).text()).trimEnd().split("\n");
    expect(stamped.map((l) => l.slice(l.indexOf(" ") + 1))).toEqual(["line one", "line two", "last line"]);
    for (const l of stamped) expect(l.slice(0, l.indexOf(" "))).toMatch(RFC3339);
  });

  test("arrive while they are written, and end with the run, for a follower", async () => {
    const id = await served.submit({ entrypoint: "slow.py" });
    const followed = await get(`/jobs/${id}/logs?follow=1`);
    let seen = "";
    let early = false;
    for await (const part of followed.body as unknown as AsyncIterable<Uint8Array>) {
      seen += Buffer.from(part).toString();
      early ||= (await served.job(id)).ended_at === null;
    }
    expect(seen).toBe(Array.from({ length: 20 }, (_, i) => `n ${i}\n`).join(""));
    expect(early).toBe(true);
    expect((await served.job(id)).status).toBe("succeeded");
  });
});

describe("metrics", () => {
  const metrics = async (query: string): Promise<shape.Metrics["series"]> =>
    shape.Metrics.parse(await json(`/jobs/${done.id}/metrics?${query}`)).series;
  test("are returned by series, from a step, thinned with their extremes kept, and with values that are not numbers", async () => {
    const all = await metrics("");
    expect(Object.keys(all).sort()).toEqual(["loss", "odd"]);
    expect(all["loss"]?.map((p) => p.step)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(all["odd"]?.[7]?.value).toBe("NaN");
    expect(all["loss"]?.[1]).toMatchObject({ value: 0.5, rank: 0 });
    expect((await metrics("name=loss&since_step=48"))["loss"]?.every((p) => p.step >= 48)).toBe(true);
    expect(Object.keys(await metrics("name=loss"))).toEqual(["loss"]);
    expect(await metrics("name=none")).toEqual({});
    const thin = (await metrics("name=loss&max_points=10"))["loss"] as shape.MetricPoint[];
    expect(thin.length).toBeLessThanOrEqual(10);
    expect(thin.map((p) => p.value)).toContain(100);
    expect(thin[0]?.step).toBe(0);
    expect(thin.at(-1)?.step).toBe(49);
  });
});

/** The states of a run with one candidate and no waiting. */
const PASSED = [...ACTIVE_STATUSES.filter((status) => status !== "waiting"), "terminal"];

describe("the timeline", () => {
  const path = (t: shape.Timeline): string[] => t.transitions.map((x) => x.to);

  test("shows every state and every step of a run that succeeds, and of one that fails", async () => {
    for (const job of [done, failed]) {
      const t = shape.Timeline.parse(await json(`/jobs/${job.id}/timeline`));
      expect(path(t)).toEqual(PASSED);
      expect([...new Set(t.steps.map((s) => s.step))].sort()).toEqual(
        STEP_NAMES.filter((name) => name !== "place").toSorted(),
      );
      for (const s of t.steps) {
        expect(s).toMatchObject({ node: 0, status: "succeeded" });
        expect(s.attempt).toBeGreaterThanOrEqual(1);
        expect(Date.parse(s.ended_at as string)).toBeGreaterThanOrEqual(Date.parse(s.started_at as string));
      }
      expect(t.transitions.map((x) => x.seq)).toEqual(t.transitions.map((x) => x.seq).sort((a, b) => a - b));
    }
  });

  test("leads through terminating for a killed run; a second kill changes nothing", async () => {
    const id = await running();
    const kill = await send(`/jobs/${id}/kill`, "{}");
    expect([kill.status, shape.JobRecord.parse(await kill.json()).id]).toEqual([202, id]);
    const job = await served.ended(id);
    expect(job).toMatchObject({ status: "cancelled", error: { code: "cancelled_by_user" } });
    const t = shape.Timeline.parse(await json(`/jobs/${id}/timeline`));
    expect(path(t)).toEqual(PASSED);
    const again = await fetch(`${served.url}/jobs/${id}/kill`, { method: "POST" });
    expect([again.status, await again.json()]).toEqual([200, job]);
    expect(await json(`/jobs/${id}/timeline`)).toEqual(t);
  });

  test("ends timed out for a run over its time", async () => {
    const id = await served.submit({ entrypoint: "wait.py", max_runtime_minutes: 0.01 });
    const job = await served.ended(id);
    expect(job).toMatchObject({ status: "timed_out", error: { code: "run_timed_out" } });
    expect(path(shape.Timeline.parse(await json(`/jobs/${id}/timeline`)))).toEqual(PASSED);
  });

  test("quotes the message of a failed install, which is also in the log", async () => {
    const id = await served.submit({ entrypoint: "wait.py", install: "echo first; echo the reason >&2; exit 7" });
    const job = await served.ended(id);
    expect(job).toMatchObject({ status: "failed", exit_code: null, error: { code: "install_failed" } });
    expect(job.error?.message).toContain("7: the reason");
    expect(await served.text(`/jobs/${id}/logs`)).toContain("first\nthe reason\n");
  });
});

test("kill all reaches every run, and they end", async () => {
  await problem(await send("/jobs/kill", "{}"), 400, "invalid_request", "all");
  const ids = [await running(), await running()].sort();
  // A run on this computer costs nothing: its record has a machine, and the bill has none.
  expect(shape.Machines.parse(await json("/v1/machines")).machines).toEqual([]);
  expect((await served.job(ids[0] as string)).machines).toMatchObject([{ state: "held", price_per_hour_usd: 0 }]);
  const answer = await send("/jobs/kill", '{"all":true}');
  expect([answer.status, JobIds.parse(await answer.json()).jobs.sort()]).toEqual([202, ids]);
  for (const id of ids) expect((await served.ended(id)).status).toBe("cancelled");
  expect(JobIds.parse(await (await send("/jobs/kill", '{"all":true}')).json()).jobs).toEqual([]);
});

test("checkpoints are listed and sent byte for byte, in ranges too", async () => {
  const { files } = shape.Checkpoints.parse(await json(`/jobs/${done.id}/checkpoints`));
  expect(files.map((f) => [f.path, f.size])).toEqual([
    ["deep/a b ü.bin", 16_384],
    ["empty", 0],
  ]);
  const bytes = Buffer.concat(Array.from({ length: 64 }, () => Buffer.from(Array.from({ length: 256 }, (_, i) => i))));
  const at = `/jobs/${done.id}/checkpoints/deep/${encodeURIComponent("a b ü.bin")}`;
  const whole = await get(at);
  expect(whole.headers.get("accept-ranges")).toBe("bytes");
  expect(whole.headers.get("content-disposition")).toMatch(/^attachment;/);
  expect(sha(Buffer.from(await whole.arrayBuffer()))).toBe(sha(bytes));
  const part = await get(at, { range: "bytes=250-260" });
  expect([part.status, part.headers.get("content-range")]).toEqual([206, "bytes 250-260/16384"]);
  expect(Buffer.from(await part.arrayBuffer())).toEqual(bytes.subarray(250, 261));
  const last = await get(at, { range: "bytes=-5" });
  expect(Buffer.from(await last.arrayBuffer())).toEqual(bytes.subarray(-5));
  const changed = await get(at, { range: "bytes=0-1", "if-range": '"other"' });
  expect([changed.status, (await changed.arrayBuffer()).byteLength]).toEqual([200, 16_384]);
  const beyond = await get(at, { range: "bytes=99999-" });
  expect(beyond.headers.get("content-range")).toBe("bytes */16384");
  await problem(beyond, 416, "range_not_satisfiable");
  expect((await (await get(`/jobs/${done.id}/checkpoints/empty`)).arrayBuffer()).byteLength).toBe(0);
  for (const path of ["..%2f..%2fsvc.db", "deep", "deep/..%2f..%2f..%2f..%2ftoken"])
    await problem(await get(`/jobs/${done.id}/checkpoints/${path}`), 404, "file_not_found");
});

test("the code snapshot lists the executed files, with their hashes", async () => {
  const code = shape.CodeSnapshot.parse(await json(`/jobs/${done.id}/code`));
  expect(code.id).toBe(done.code_snapshot);
  const file = code.files.find((f) => f.path === "train.py");
  expect(file?.sha256).toBe(sha(readFileSync(join(place.project, "train.py"))));
  expect(code.bytes).toBe(code.files.reduce((sum, f) => sum + f.size, 0));
});

test("reconcile reports, and a dry run leaves runs alone", async () => {
  const id = await running();
  for (const body of ['{"dry_run":true}', "{}"]) {
    const report = shape.ReconcileReport.parse(await (await send("/v1/reconcile", body)).json());
    expect(report).toMatchObject({
      dry_run: body !== "{}",
      replayed: [{ job_id: id, ok: true, first_difference_seq: null }],
      resumed: [id],
      terminated: [],
      failed: [],
      unreachable_providers: [],
      foreign: [],
    });
    expect((await served.job(id)).status).toBe("running");
  }
  await problem(await send("/v1/reconcile", '{"dry_run":"yes"}'), 400, "invalid_request", "dry_run");
  await send(`/jobs/${id}/kill`, "{}");
  await served.ended(id);
});

test("health, gpus and providers match the documentation", async () => {
  const health = shape.Health.parse(await json("/v1/health"));
  expect(health).toMatchObject({ status: "ok", pid: served.pid, home: place.home });
  const Gpus = z.strictObject({ gpus: z.array(shape.Gpu) });
  const { gpus } = Gpus.parse(await json("/v1/gpus"));
  expect(gpus).toHaveLength(36);
  expect(gpus[0]).toEqual({ model: "H200", vram_gb: 141, providers: ["podhost", "market"] });
  expect(Gpus.parse(await json("/v1/gpus?provider=notebook")).gpus.map((g) => g.model)).toEqual(["A100", "V100", "T4"]);
  expect(Gpus.parse(await json("/v1/gpus?provider=local")).gpus).toEqual([]);
  const { providers } = z.object({ providers: z.array(shape.ProviderInfo) }).parse(await json("/v1/providers"));
  expect(providers.map((p) => p.name)).toEqual(["local", "podhost", "market", "cloudvm", "notebook"]);
  expect(providers[0]).toMatchObject({ connected: true, source: "none_needed", missing: [] });
  for (const p of providers.slice(1)) expect(p.missing.length).toBeGreaterThan(0);
});

interface Operation {
  parameters?: { in: string; required?: boolean }[];
  responses: Record<string, { content?: Record<string, { schema: object }> }>;
}

test("the OpenAPI document describes exactly these answers", async () => {
  const doc = (await json("/v1/openapi.json")) as {
    openapi: string;
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, object> };
  };
  expect(doc.openapi).toBe("3.1.0");
  // Converts a schema of the document back: $refs become $defs, so that the schema can be read on its own.
  const defs = (value: object) => JSON.parse(JSON.stringify(value).replaceAll("#/components/schemas/", "#/$defs/"));
  const schemaOf = (path: string) => doc.paths[path]?.["get"]?.responses["200"]?.content?.["application/json"]?.schema;
  const read = (path: string): z.ZodType =>
    z.fromJSONSchema({ ...defs(schemaOf(path) ?? {}), $defs: defs(doc.components.schemas) });
  const question: Record<string, string> = {
    "/jobs/{id}/code/diff": `?with=${done.id}`,
    "/jobs/{id}/series/points": "?of=1:0",
  };
  const open = (path: string): boolean =>
    /^\/jobs\/\{id\}[^{]*$|^[^{]+$/.test(path) &&
    !doc.paths[path]?.["get"]?.parameters?.some((p) => p.in === "query" && p.required);
  const paths = Object.keys(doc.paths).filter(
    (path) => schemaOf(path) && path !== "/v1/openapi.json" && (path in question || open(path)),
  );
  expect(paths.length).toBeGreaterThanOrEqual(10);
  for (const path of paths) {
    const answer = await json(path.replace("{id}", done.id) + (question[path] ?? ""));
    expect(read(path).safeParse(answer).error, path).toBeUndefined();
  }
  expect(() => read("/jobs/{id}").parse({ ...done, status: "dead" })).toThrow("status");
});

const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
