// `svc demo` as a process: what it shows, how it ends, and what it leaves behind.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { homeLayout } from "../../src/platform/home-layout.ts";
import type { Metrics } from "../../src/schemas/job.ts";
import { isAlive } from "../../sdk/discover.ts";
import { serve, type PlaneDouble } from "../api/double.ts";
import { until, Workplace } from "./serving.ts";

let at: Workplace;
beforeEach(() => void (at = Workplace.own("the demo starts and ends its own")));
afterEach(() => at.close());

/** The demo at a control plane that runs already, once its run is submitted. */
async function shown(): Promise<{ plane: PlaneDouble; id: string } & ReturnType<Workplace["start"]>> {
  const { plane, server } = await serve();
  const series: Metrics["series"] = {
    loss: [{ step: 7, time: 1, value: 0.1234, rank: 0 }],
    test_accuracy: [{ step: 7, time: 1, value: 0.123, rank: 0 }],
  };
  plane.reads.seriesList = () => Object.keys(series).map((name, id) => ({ id, name, points: 1 }));
  plane.reads.metrics = () => ({ series });
  const entry = { url: server.url, pid: process.pid, started_at: "", installation_id: plane.installationId };
  writeFileSync(homeLayout.controlPlane(plane.home), JSON.stringify(entry), { mode: 0o600 });
  const started = at.startIn(plane.home, "demo");
  await until(() => plane.submitted.length > 0 || started.child.exitCode !== null, "the demo submits its run");
  return { plane, id: [...plane.records.keys()][0] ?? "", ...started };
}

test("It shows what the API says of its run, and uses a control plane that runs already", async () => {
  const { plane, id, out, err, exited } = await shown();
  const file = { path: "weights-007.json", size: 12_345, modified_at: plane.startedAt };
  plane.files.set(id, [{ entry: file, path: join(plane.home, "none") }]);
  plane.records.set(id, { ...plane.records.get(id)!, exit_code: 0, cost_usd: 1.25 });
  plane.end(id, "succeeded");
  expect(await exited, err()).toBe(0);
  expect(out()).toContain(`Submitted by POST /jobs: ${id}\n`);
  expect(out()).toContain("epoch  7   loss 0.1234   test accuracy 12.3 %\n");
  expect(out()).toMatch(/status +succeeded\n.*exit code +0\n.*cost +\$1\.25\n.*accuracy +12\.3 % of the test images\n/);
  expect(out()).toMatch(/weights-007\.json +12 kB\n/);
});

test("A run that does not succeed is shown with its error, and the demo ends with 1", async () => {
  const { plane, id, out, err, exited } = await shown();
  const error = { code: "script_failed", message: "The script ended with exit code 3.", hint: "Read its log." };
  plane.records.set(id, { ...plane.records.get(id)!, exit_code: 3, error });
  plane.end(id, "failed");
  expect(await exited).toBe(1);
  expect(out()).toMatch(/status +failed\n.*exit code +3\n/);
  expect(out()).toContain(`${error.message}\n`);
  expect(err()).toContain("The run ended as failed.");
});

test("Ctrl-C ends the demo with 130, together with the run and the control plane that it started", async () => {
  const { child, out, err, exited } = at.start("demo");
  await until(() => out().includes("✓ launch") || child.exitCode !== null, "the run is at work");
  expect(child.exitCode, err()).toBeNull();
  const { pid } = JSON.parse(readFileSync(homeLayout.controlPlane(at.home), "utf8")) as { pid: number };
  // A control plane that needs its time: the demo does not end before it.
  process.kill(pid, "SIGSTOP");
  child.kill("SIGINT");
  await until(() => out().includes("Ending the control plane and the run"), "the demo has heard it");
  // Long enough for a demo that does not wait to have ended.
  await new Promise((done) => setTimeout(done, 2_000));
  expect(child.exitCode).toBeNull();
  process.kill(pid, "SIGCONT");
  expect(await exited, err()).toBe(130);
  expect(existsSync(homeLayout.controlPlane(at.home))).toBe(false);
  expect(isAlive({ pid })).toBe(false);
  const { jobs } = JSON.parse(at.svc("jobs", "--json").out) as { jobs: { status: string }[] };
  expect(jobs.map(({ status }) => status)).toEqual(["interrupted"]);
});
