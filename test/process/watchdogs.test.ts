// Runs without activity, and runs that take too long.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Place, until, type Served } from "./harness.ts";

const place = Place.own("the last test kills it");
let served: Served;
beforeAll(async () => {
  place.file("sleep.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
  place.file("busy.py", 'import os\nwhile not os.path.exists("enough"): sum(range(10000))\nprint("worked")\n');
  place.file(
    "long.py",
    `import os, time
with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "a.bin"), "w") as f: f.write("half way")
n = 0
while True:
    print(n, flush=True); n += 1; time.sleep(0.05)
`,
  );
  served = await place.serve();
});
afterAll(() => place.close());

describe.concurrent("a control plane that watches", () => {
  it("ends an idle run as timed_out with the reason, but not one that computes silently", async () => {
    const idle = () => served.submit({ entrypoint: "sleep.py", idle_timeout_minutes: 0.05 });
    const first = await idle();
    const off = await served.submit({ entrypoint: "sleep.py", idle_timeout_minutes: 0 });
    const busy = await served.submit({ entrypoint: "busy.py", idle_timeout_minutes: 0.05 });
    const job = await served.ended(first);
    expect([job.status, job.error?.code], JSON.stringify(job.error)).toEqual(["timed_out", "run_idle"]);
    expect(job.error?.message).toMatch(/CPU/);
    expect(job.machines.map((m) => m.state)).toEqual(["released"]);
    expect(place.log(first).toString()).toBe("up\n");
    // Waits as long again, so that the watchdog could have ended the other runs twice by now.
    expect((await served.ended(await idle())).error?.code).toBe("run_idle");
    expect((await served.job(off)).status).toBe("running");
    place.file("enough", "");
    const worked = await served.ended(busy);
    expect([worked.status, worked.error], JSON.stringify(worked.error)).toEqual(["succeeded", null]);
    await served.post(`/jobs/${off}/kill`, {});
    expect((await served.ended(off)).status).toBe("cancelled");
  });

  it("ends a run after max_runtime_minutes, with its log and checkpoints downloaded", async () => {
    const at = performance.now();
    const id = await served.submit({ entrypoint: "long.py", max_runtime_minutes: 0.05 });
    const job = await served.ended(id);
    expect([job.status, job.error?.code]).toEqual(["timed_out", "run_timed_out"]);
    expect(performance.now() - at).toBeGreaterThan(2_900);
    expect(readFileSync(join(place.home, "artifacts", id, "checkpoints", "a.bin"), "utf8")).toBe("half way");
    const lines = place.log(id).toString().trimEnd().split("\n").map(Number);
    expect(lines).toEqual(lines.map((_, i) => i));
    expect(lines.length).toBeGreaterThan(10);
  });
});

it("max_runtime_minutes keeps counting while no control plane runs", async () => {
  const id = await served.submit({ entrypoint: "long.py", max_runtime_minutes: 0.05 });
  await until(() => place.log(id).length > 0, "it runs");
  const startedAt = Date.parse((await served.job(id)).started_at ?? "");
  await served.kill();
  await until(() => Date.now() > startedAt + 3_500, "the limit of three seconds passes");
  served = await place.serve();
  const job = await served.ended(id);
  expect([job.status, job.error?.code]).toEqual(["timed_out", "run_timed_out"]);
});
