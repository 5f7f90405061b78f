// Runs that do nothing, and runs that take too long.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { pause, Place, type Served } from "./harness.ts";

const place = new Place();
let served: Served;
beforeAll(async () => {
  place.file("sleep.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
  place.file(
    "busy.py",
    'import time\nend = time.monotonic() + 40\nwhile time.monotonic() < end: sum(range(10000))\nprint("worked")\n',
  );
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

it(
  "an idle run is ended as timed_out, and says why; one that computes without a word is not",
  { timeout: 180_000 },
  async () => {
    const idle = await served.submit({ entrypoint: "sleep.py", idle_timeout_minutes: 0.05 });
    const off = await served.submit({ entrypoint: "sleep.py", idle_timeout_minutes: 0 });
    const busy = await served.submit({ entrypoint: "busy.py", idle_timeout_minutes: 0.05 });
    const job = await served.ended(idle, 90_000);
    expect([job.status, job.error?.code], JSON.stringify(job.error)).toEqual(["timed_out", "run_idle"]);
    expect(job.error?.message).toMatch(/CPU/);
    expect(job.machines.map((m) => m.state)).toEqual(["released"]);
    expect(place.log(idle).toString()).toBe("up\n");
    const worked = await served.ended(busy, 120_000);
    expect([worked.status, worked.error], JSON.stringify(worked.error)).toEqual(["succeeded", null]);
    expect((await served.job(off)).status).toBe("running");
    await served.post(`/jobs/${off}/kill`, {});
    expect((await served.ended(off)).status).toBe("cancelled");
  },
);

it("max_runtime_minutes ends a run, with its log and checkpoints at home", async () => {
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

it("max_runtime_minutes counts on while no control plane runs", async () => {
  const id = await served.submit({ entrypoint: "long.py", max_runtime_minutes: 0.08 });
  await served.kill();
  await pause(6_000); // the time that is over when the next one comes
  served = await place.serve();
  const job = await served.ended(id, 20_000);
  expect([job.status, job.error?.code]).toEqual(["timed_out", "run_timed_out"]);
});
