// `svc top` as a process: once in a pipe, live on a terminal.

import { afterAll, beforeAll, expect, test } from "vitest";
import { CLI, Workplace, type Served } from "./serving.ts";
import { onTerminal } from "./terminal.ts";

let at: Workplace;
let served: Served;
let id: string;
beforeAll(async () => {
  at = new Workplace();
  at.file("train.py", "import time\ntime.sleep(600)\n");
  served = await at.serve();
  id = await at.submit(served, "train.py");
  expect(at.svc("wait", id, "--for", "running").code).toBe(0);
});
afterAll(async () => {
  at.svc("kill", "--all");
  await at.close();
});

test("A pipe gets one row for each run that has not ended", () => {
  const r = at.svc("top");
  expect([r.code, r.err]).toEqual([0, ""]);
  expect(r.out.split("\t").slice(0, 4)).toEqual([id, "running", "local", "cpu"]);
  expect(JSON.parse(at.svc("top", "--json").out)).toMatchObject({
    runs: 1,
    gpus: 0,
    price_per_hour_usd: 0,
    jobs: [{ id }],
  });
  expect(JSON.parse(at.svc("top", "--json", "id").out)).toEqual([{ id }]);
});

test("On a terminal it is drawn until q, which gives the terminal back", () => {
  const r = onTerminal([CLI, "top"], { until: id, type: "q", env: { ...at.env, TERM: "xterm" } });
  expect(r.status, r.stdout + r.stderr).toBe(0);
  expect(r.stdout).toContain("1 run  ·  0 GPUs");
  expect(r.stdout.trimEnd().endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
});

test("`svc jobs` and `svc top` say on a terminal that no control plane follows the runs", async () => {
  const on = { env: { ...at.env, TERM: "xterm" }, cwd: at.project };
  expect(onTerminal([CLI, "jobs"], { until: id, type: "", ...on }).stdout).not.toContain("No control plane");
  served.child.kill("SIGKILL");
  await served.exited;
  const words = "No control plane is running";
  expect(onTerminal([CLI, "jobs"], { until: words, type: "", ...on }).status).toBe(0);
  expect(onTerminal([CLI, "top"], { until: words, type: "q", ...on }).status).toBe(0);
  expect(at.svc("jobs").err).toBe("");
});
