import { expect, it } from "vitest";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

const scrape = async (port: number) => (await ask({ port, path: "/metrics" })).text;

it("a scrape answers in Prometheus' text format and counts runs by status", async () => {
  const { plane, server } = await serve();
  plane.addJob({ status: "running" });
  plane.addJob({ status: "running" });
  plane.addJob({ status: "failed" });
  const reply = await ask({ port: server.port, path: "/metrics" });
  expect([reply.status, reply.headers["content-type"]]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
  expect(reply.text).toContain('svc_jobs{status="running"} 2\n');
  expect(reply.text).toContain('svc_jobs{status="failed"} 1\n');
  expect(reply.text).toContain("process_resident_memory_bytes ");
});

it("a scrape counts the requests before it by the pattern of their route and never by the requested path", async () => {
  const { plane, server } = await serve();
  const job = plane.addJob({ label: "s3cret-label" });
  await scrape(server.port);
  await ask({ port: server.port, path: `/jobs/${job.id}` });
  await ask({ port: server.port, path: "/no/such/page-s3cret" });
  const text = await scrape(server.port);
  expect(text).toContain('svc_http_requests_total{method="GET",route="/jobs/:id",status="200"} 1\n');
  expect(text).toContain('route="unmatched",status="404"} 1\n');
  expect(text).not.toContain("s3cret");
});

it("a machine without a reported price is counted apart from those whose price is known", async () => {
  const { plane, server } = await serve();
  const machine = {
    name: "svc-inst1-a-n0-1",
    id: "m1",
    job_id: "job000001",
    node: 0,
    state: "held" as const,
    address: null,
    cost_usd: null,
    created_at: "2026-01-02T03:04:05.000Z",
    age_seconds: 1,
    note: null,
  };
  plane.reads.machines = () => [
    { ...machine, provider: "podhost", price_per_hour_usd: 0.5 },
    { ...machine, provider: "podhost", price_per_hour_usd: 0.25 },
    { ...machine, provider: "cloudvm", price_per_hour_usd: null },
  ];
  const text = await scrape(server.port);
  expect(text).toContain('svc_machines{provider="podhost",state="held"} 2\n');
  expect(text).toContain('svc_machines_price_usd_per_hour{provider="podhost"} 0.75\n');
  expect(text).toContain('svc_machines_without_price{provider="cloudvm"} 1\n');
  expect(text).not.toContain('svc_machines_price_usd_per_hour{provider="cloudvm"}');
});

it("the gate refuses a scrape from a foreign page", async () => {
  const { server } = await serve();
  const reply = await ask({ port: server.port, path: "/metrics", headers: { "sec-fetch-site": "cross-site" } });
  expect(reply.status).toBe(403);
});
