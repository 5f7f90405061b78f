import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startServer } from "../../src/api/server.ts";
import { PlaneDouble, serve } from "./double.ts";
import { ask, post } from "./wire.ts";

const spec = { entrypoint: "train.py" };

describe("jobs", () => {
  it("starts a job and returns its location", async () => {
    const { plane, server } = await serve();
    const reply = await post(server.port, "/jobs", { label: "first", spec });
    expect(reply.status).toBe(201);
    expect(reply.headers.location).toBe(`/jobs/${reply.json.id}`);
    expect(reply.json.label).toBe("first");
    expect(plane.submitted[0]?.options).toEqual({ defaultProjectDir: "/projects/mine" });
    expect(plane.submitted[0]?.body.spec.provider).toBe("local");
    const again = await ask({ port: server.port, path: reply.headers.location as string });
    expect(again.json).toEqual(reply.json);
  });

  it("passes the Idempotency-Key on, and marks a repeated answer", async () => {
    const { plane, server } = await serve();
    const key = { "idempotency-key": "k-1" };
    const first = await post(server.port, "/jobs", { spec }, key);
    const second = await post(server.port, "/jobs", { spec }, key);
    expect([second.status, second.json.id, second.headers["idempotency-replayed"]]).toEqual([
      201,
      first.json.id,
      "true",
    ]);
    expect(first.headers["idempotency-replayed"]).toBeUndefined();
    const other = await post(server.port, "/jobs", { label: "x", spec }, key);
    expect([other.status, other.json.code]).toEqual([409, "idempotency_conflict"]);
    const bad = await post(server.port, "/jobs", { spec }, { "idempotency-key": "a b" });
    expect([bad.status, bad.json.errors[0].field]).toEqual([400, "Idempotency-Key"]);
    expect(plane.records.size).toBe(1);
  });

  it("lists newest first, in adjacent pages without gaps", async () => {
    const { plane, server } = await serve();
    for (let i = 0; i < 7; i++) plane.addJob();
    const seen: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const page = await ask({ port: server.port, path: `/jobs?limit=3${cursor && `&cursor=${cursor}`}` });
      seen.push(...page.json.jobs.map((job: { id: string }) => job.id));
      cursor = page.json.next_cursor;
    }
    expect(seen).toEqual([...plane.records.keys()].reverse());
  });

  it("kills once with 202, then answers 200; kills all only with `all=true`", async () => {
    const { plane, server } = await serve();
    const [a, b] = [plane.addJob(), plane.addJob()];
    const kill = (): ReturnType<typeof ask> => ask({ port: server.port, path: `/jobs/${a.id}/kill`, method: "POST" });
    expect([(await kill()).status, (await kill()).status]).toEqual([202, 200]);
    expect((await post(server.port, "/jobs/kill", { all: false })).json.errors[0].field).toBe("all");
    expect((await post(server.port, "/jobs/kill", "")).json.code).toBe("invalid_json");
    const all = await post(server.port, "/jobs/kill", { all: true });
    expect([all.status, all.json]).toEqual([202, { jobs: [b.id] }]);
  });

  it.each(["nope", "..", "%2e%2e", "job000001%00", "JOB000001", "a".repeat(2_000), "%F0%9F%92%A9"])(
    "answers job_not_found or not_found for the id %s",
    async (id) => {
      const { plane, server } = await serve();
      plane.addJob();
      const reply = await ask({ port: server.port, path: `/jobs/${id}` });
      expect(reply.status).toBe(404);
      expect(["job_not_found", "not_found"]).toContain(reply.json.code);
    },
  );

  it("says of the id last how the newest run is found, without a claim about the runs of the home", async () => {
    const { plane, server } = await serve();
    plane.addJob();
    const { status, json } = await ask({ port: server.port, path: "/jobs/last" });
    expect([status, json.detail]).toEqual([404, "No run has the id last."]);
    expect(json.hint).toBe(
      "On the command line `last` is the newest run, once the home has one. Over HTTP and in the SDKs, give the id of a run; GET /jobs?limit=1 has that of the newest.",
    );
  });

  it("tells a number in quotes from other text", async () => {
    const { server } = await serve();
    const of = async (fields: object): Promise<unknown> =>
      (await post(server.port, "/jobs", { spec: { entrypoint: "train.py", ...fields } })).json.errors[0].message;
    expect(await of({ budget_usd: "5" })).toBe("must be a finite number of dollars, not text: write it without quotes");
    expect(await of({ nodes: "2" })).toBe("must be a whole number, not text: write it without quotes");
    expect(await of({ nodes: "two" })).toBe("must be a whole number, not text");
    expect(await of({ nodes: null })).toBe("must be a whole number");
  });

  it("removes checkpoints of an ended run, checks the body, and passes a refusal on", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob({ status: "succeeded" });
    const path = `/jobs/${id}/checkpoints/remove`;
    const reply = await post(server.port, path, { names: ["step-1", "deep/step 2"] });
    expect([reply.status, reply.json.freed_bytes, reply.json.checkpoints.length]).toEqual([200, 10, 2]);
    expect(plane.removedCheckpoints).toEqual([{ names: ["step-1", "deep/step 2"], dry_run: false }]);
    for (const body of [{}, { names: [] }, { names: [""] }, { names: "step-1" }, { names: ["a"], force: true }])
      expect((await post(server.port, path, body)).json.code).toBe("invalid_request");
    expect((await post(server.port, `/jobs/nope/checkpoints/remove`, { names: ["a"] })).json.code).toBe(
      "job_not_found",
    );
    const live = plane.addJob();
    const refused = await post(server.port, `/jobs/${live.id}/checkpoints/remove`, { names: ["step-1"] });
    expect([refused.status, refused.json.code]).toEqual([409, "checkpoint_not_removable"]);
    // The path of a download stays one, for any name.
    expect((await ask({ port: server.port, path })).json.code).toBe("file_not_found");
  });

  it("answers job_removed for a run that was removed, on each path of a job and in the events", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    plane.removed.set("job9gone", "2026-11-26T04:05:06.000Z");
    for (const path of [
      "/jobs/job9gone",
      "/jobs/job9gone/logs",
      "/jobs/job9gone/code",
      `/jobs/${id}/code/diff?with=job9gone`,
      "/v1/events?job_id=job9gone",
    ]) {
      const reply = await ask({ port: server.port, path });
      expect(reply, path).toMatchObject({ status: 404, json: { code: "job_removed" } });
      expect(reply.json["detail"]).toContain("The run job9gone was removed on 2026-11-26 04:05 UTC");
    }
  });

  it("accepts only full ids", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    expect((await ask({ port: server.port, path: `/jobs/${id.slice(0, -1)}` })).json.code).toBe("job_not_found");
  });

  it.each([
    ["/jobs?limit=0", "limit"],
    ["/jobs?limit=501", "limit"],
    ["/jobs?limit=x", "limit"],
    ["/jobs?limit=1&limit=2", "limit"],
    ["/jobs?status=odd", "status"],
    ["/jobs?colour=red", "colour"],
    ["/v1/gpus?provider=moon", "provider"],
    ["/v1/offers?gpus=;", "gpus"],
    ["/v1/offers?price_cap=-1", "price_cap"],
    ["/jobs/job000001/metrics?max_points=1", "max_points"],
    ["/jobs/job000001/logs?offset=-1", "offset"],
    ["/jobs/job000001/logs?offset=1e3", "offset"],
    ["/jobs/job000001/logs?follow=maybe", "follow"],
    ["/jobs/job000001/logs?tail=1&offset=1", "tail"],
  ])("refuses %s by naming %s", async (path, field) => {
    const { plane, server } = await serve();
    plane.addJob();
    const reply = await ask({ port: server.port, path });
    expect([reply.status, reply.json.code, reply.json.errors[0].field]).toEqual([400, "invalid_request", field]);
  });
});

describe("the other reads", () => {
  it.each([
    ["series/points?of=", Array.from({ length: 100 }, (_, i) => `${i}:0`).join(","), 20_000],
    ["metrics", "", 20_000],
  ])("reads many series at %s one after the other, yields between two, and bounds the total", async (at, of) => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const asked: { series: unknown; max: number | undefined; turn: number }[] = [];
    let turn = 0;
    let next: NodeJS.Immediate;
    const tick = (): void => {
      turn += 1;
      next = setImmediate(tick);
    };
    plane.reads.seriesList = () => Array.from({ length: 100 }, (_, i) => ({ id: i, name: `s${i}`, points: 250_000 }));
    plane.reads.seriesPoints = (_id, [place, ...more], max) => {
      asked.push({ series: more.length === 0 && place?.id, max, turn });
      return [];
    };
    plane.reads.metrics = (_id, { name = "", max_points }) => {
      asked.push({ series: name, max: max_points, turn });
      return { series: { [name]: [] } };
    };
    tick();
    const reply = await ask({ port: server.port, path: `/jobs/${id}/${at}${of}` });
    clearImmediate(next!);
    expect(reply.status).toBe(200);
    expect(new Set(asked.map((each) => each.series)).size).toBe(100);
    expect(new Set(asked.map((each) => each.turn)).size).toBe(100);
    expect(asked.every((each) => each.max === 20_000)).toBe(true);
  });

  it("answers metrics, timeline, code, machines, providers, gpus and health", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const get = async (path: string): Promise<any> => (await ask({ port: server.port, path })).json;
    expect((await get(`/jobs/${id}/metrics?name=loss&max_points=10`)).series.loss[0].value).toBe("NaN");
    expect((await get(`/jobs/${id}/timeline`)).transitions[0].to).toBe("provisioning");
    expect((await get(`/jobs/${id}/code`)).code).toBe("code_snapshot_missing");
    plane.snapshots.set(id, { id: "c1", files: [], bytes: 0, git: null, created_at: plane.startedAt });
    expect((await get(`/jobs/${id}/code`)).id).toBe("c1");
    expect((await get("/v1/machines")).machines[0].price_per_hour_usd).toBe(1.5);
    expect((await get("/v1/providers")).providers[0].name).toBe("local");
    const gpus = await get("/v1/gpus?provider=podhost");
    expect(gpus.gpus.find((g: { model: string }) => g.model === "A100").vram_gb).toBe(80);
    const offers = await get("/v1/offers?gpus=A40&provider=market&price_cap=0.4");
    expect(offers.offers[0]).toMatchObject({ provider: "market", gpus: "A40", within_cap: false });
    expect((await get("/v1/hosts/stats")).stats).toEqual([
      { provider: "podhost", gpu: "A40", good: 41, of: 43, seconds_to_ssh_p50: 74 },
    ]);
    expect(await get("/v1/health")).toMatchObject({
      status: "ok",
      version: "9.8.7",
      pid: process.pid,
      home: plane.home,
      installation_id: "inst1",
    });
  });

  it("reconciles, dry when asked", async () => {
    const { plane, server } = await serve();
    expect((await ask({ port: server.port, path: "/v1/reconcile", method: "POST" })).json.dry_run).toBe(false);
    expect((await post(server.port, "/v1/reconcile", { dry_run: true })).json.dry_run).toBe(true);
    expect((await post(server.port, "/v1/reconcile", { dry_run: "yes" })).json.errors[0].field).toBe("dry_run");
    expect(plane.reconciled).toEqual([false, true]);
  });
});

describe("paths and methods", () => {
  it.each([
    ["DELETE", "/jobs", "GET, HEAD, POST"],
    ["PUT", "/jobs/job000001", "DELETE, GET, HEAD, PATCH"],
    ["GET", "/jobs/job000001/kill", "POST"],
    ["POST", "/v1/health", "GET, HEAD"],
    ["OPTIONS", "/jobs", "GET, HEAD, POST"],
    ["PATCH", "/jobs/job000001/checkpoints/a/b", "GET, HEAD"],
    ["PUT", "/jobs/kill", "DELETE, GET, HEAD, PATCH, POST"],
    ["PROPFIND", "/jobs", "GET, HEAD, POST"],
    ["GET", "/v1/reconcile", "POST"],
  ])("answers %s %s with 405 and Allow", async (method, path, allow) => {
    const { server } = await serve();
    const reply = await ask({ port: server.port, path, method });
    expect([reply.status, reply.headers.allow, reply.json?.code]).toEqual([405, allow, "method_not_allowed"]);
    expect(reply.headers["access-control-allow-origin"]).toBeUndefined();
  });

  it.each(["/nothing", "/v1", "/v1/", "/v1/unknown", "//", "/jobs/a/b/c"])(
    "answers %s with not_found, whatever is accepted",
    async (path) => {
      const { server } = await serve();
      const reply = await ask({
        port: server.port,
        path,
        headers: path === "/nothing" || path === "//" ? {} : { accept: "text/html" },
      });
      expect([reply.status, reply.headers["content-type"], reply.json.code]).toEqual([
        404,
        "application/problem+json; charset=utf-8",
        "not_found",
      ]);
    },
  );

  it.each(["/jobs/%", "/jobs/%zz", "/%c0%af", "/jobs/%E0%A4%A"])(
    "answers the malformed path %s in the same form",
    async (path) => {
      const { server } = await serve();
      const reply = await ask({ port: server.port, path });
      expect([reply.status, reply.json.code]).toEqual([400, "malformed_request"]);
    },
  );

  it("answers HEAD without a body and without waiting for a run to end", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    for (const path of ["/jobs", `/jobs/${id}/logs?follow=1`, "/"]) {
      const reply = await ask({ port: server.port, path, method: "HEAD" });
      expect([reply.status, reply.text]).toEqual([200, ""]);
    }
  });

  it("reports an internal error without blaming the caller", async () => {
    const { plane, server, lines } = await serve();
    plane.reads.machines = () => {
      throw new TypeError("a bug");
    };
    const reply = await ask({
      port: server.port,
      path: "/v1/machines?secret=hunter2",
      headers: { authorization: "Bearer hunter3" },
    });
    expect([reply.status, reply.json.code]).toEqual([500, "internal_error"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("GET /v1/machines 500");
    expect(lines[0]).not.toContain("hunter");
  });
});

describe("the dashboard's files", () => {
  const build = (): string => {
    const directory = mkdtempSync(join(tmpdir(), "svc-dash-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    mkdirSync(join(directory, "assets"));
    writeFileSync(join(directory, "index.html"), "<!doctype html><p>the shell</p>");
    writeFileSync(join(directory, "assets", "app-1a2b.js"), "export {};");
    symlinkSync("/etc/hostname", join(directory, "linked.txt"));
    return directory;
  };

  it("serves the shell for pages, files by name, and nothing else", async () => {
    const { server } = await serve({ dashboardDir: build() });
    const html = { accept: "text/html,*/*" };
    for (const path of ["/", "/runs/abc", "/runs/abc?tab=log", "/settings"]) {
      const reply = await ask({ port: server.port, path, headers: html });
      expect([reply.status, reply.text]).toEqual([200, "<!doctype html><p>the shell</p>"]);
      expect(reply.headers["content-security-policy"]).toContain("frame-ancestors 'none'");
      expect(reply.headers["content-security-policy"]).not.toContain("unsafe");
    }
    const script = await ask({ port: server.port, path: "/assets/app-1a2b.js" });
    expect([script.status, script.headers["content-type"]]).toEqual([200, "text/javascript; charset=utf-8"]);
    expect(script.headers["cache-control"]).toContain("immutable");
    const again = await ask({
      port: server.port,
      path: "/assets/app-1a2b.js",
      headers: { "if-none-match": script.headers.etag as string },
    });
    expect([again.status, again.text]).toEqual([304, ""]);
    for (const path of [
      "/linked.txt",
      "/assets/../../etc/passwd",
      "/assets/%2e%2e/%2e%2e/etc/passwd",
      "/assets",
      "/runs/x.js",
      "/jobs/nope",
    ]) {
      expect((await ask({ port: server.port, path, headers: path === "/assets" ? {} : html })).status).toBe(404);
    }
    expect((await ask({ port: server.port, path: "/runs/abc", headers: { accept: "application/json" } })).status).toBe(
      404,
    );
  });

  it("says how to build the dashboard if it is missing", async () => {
    const { server } = await serve();
    const reply = await ask({ port: server.port, path: "/" });
    expect([reply.status, reply.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    expect(reply.text).toContain("npm run setup");
  });
});

describe("the port", () => {
  it("names the svc that holds it", async () => {
    const { plane, server } = await serve();
    const second = startServer(new PlaneDouble(), {
      host: "127.0.0.1",
      port: server.port,
      projectDir: "/",
      dashboardDir: null,
      version: "1",
    });
    await expect(second).rejects.toMatchObject({ code: "port_taken", message: expect.stringContaining(plane.home) });
  });

  it("prints and dials a number even for `localhost`", async () => {
    const { server } = await serve({ host: "localhost" });
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
  });

  it("says why an address is unavailable", async () => {
    const impossible = startServer(new PlaneDouble(), {
      host: "192.0.2.1",
      port: 0,
      projectDir: "/",
      dashboardDir: null,
      version: "1",
      token: "t",
    });
    await expect(impossible).rejects.toMatchObject({ code: "address_unusable" });
  });
});

describe("many jobs", () => {
  it("lists a page of 20,000 jobs in under 100 KB", async () => {
    const { plane, server } = await serve();
    for (let i = 0; i < 20_000; i++) plane.addJob();
    const page = plane.reads.jobs({ limit: 50 });
    plane.reads.jobs = () => page;
    expect((await ask({ port: server.port, path: "/jobs" })).text.length).toBeLessThan(100 * 1024);
  });
});
