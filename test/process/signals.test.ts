// The orderly end of a control plane, and its immediate one.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ACTIVE_STATUSES } from "../../src/schemas/names.ts";
import { Place, until, type Served } from "./harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("each test ends it");
  place.file(
    "polite.py",
    `import os, signal, sys, time
def bye(*_):
    with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "last.bin"), "w") as f: f.write("saved at the end")
    print("got TERM", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, bye)
print("ready", flush=True)
while True: time.sleep(0.1)
`,
  );
  place.file(
    "deaf.py",
    'import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint("ready", flush=True)\nwhile True: time.sleep(0.1)\n',
  );
  place.file("tick.py", "import time, sys\nfor i in range(int(sys.argv[1])):\n    print(i)\n    time.sleep(0.05)\n");
});
afterEach(() => place.close());

async function running(served: Served, spec: Record<string, unknown>): Promise<string> {
  const id = await served.submit(spec);
  await until(async () => (await served.text(`/jobs/${id}/logs`)).includes("ready"), "the script runs");
  return id;
}

describe.each([
  ["SIGINT", 130],
  ["SIGTERM", 0],
  ["SIGHUP", 0],
] as const)("%s", (signal, code) => {
  it("ends the run gracefully: TERM, last checkpoint, `interrupted`", async () => {
    const served = await place.serve();
    const id = await running(served, { entrypoint: "polite.py" });
    served.signal(signal);
    expect(await served.exited).toEqual({ code, signal: null });
    expect(served.err).toContain("left nothing running");
    expect(place.processes()).toEqual([]);
    const job = JSON.parse(place.svc("jobs", "--json").out).jobs[0];
    expect(job).toMatchObject({ id, status: "interrupted", exit_code: 3, error: { code: "control_plane_ended" } });
    expect(place.log(id).toString()).toBe("ready\ngot TERM\n");
    expect(readFileSync(join(place.home, "artifacts", id, "checkpoints", "last.bin"), "utf8")).toBe("saved at the end");
    expect(place.refolds()).toBe(1);
  });
});

it("the file of another control plane, which has taken its place, stays", async () => {
  const served = await place.serve();
  const file = join(place.home, "control-plane.json");
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ pid: served.pid, url: served.url });
  const another = JSON.stringify({ url: "http://127.0.0.1:1", pid: process.pid, installation_id: "other" });
  writeFileSync(file, another);
  served.signal("SIGTERM");
  expect((await served.exited).code).toBe(0);
  expect(readFileSync(file, "utf8")).toBe(another);
});

it("SIGUSR1 does not open Node's debugger port, through which another user could control svc", async () => {
  const served = await place.serve();
  served.signal("SIGUSR1");
  // Node reports that it listens before it could end.
  for (let i = 0; i < 20; i++) await served.text("/v1/health");
  served.signal("SIGTERM");
  expect(await served.exited).toEqual({ code: 0, signal: null });
  expect(served.err).not.toContain("Debugger");
});

it("a second signal ends the process at once and lists the unfinished work; the next start finishes it", async () => {
  const served = await place.serve();
  const id = await running(served, { entrypoint: "deaf.py" });
  served.signal("SIGTERM");
  await until(() => served.err.includes("ending 1 run"), "the first signal was heard");
  served.signal("SIGTERM");
  expect(await served.exited).toEqual({ code: 1, signal: null });
  expect(served.err).toMatch(new RegExp(`Unfinished: runs ${id}.*svc reconcile`));
  const next = await place.serve();
  expect((await next.ended(id)).status).toBe("interrupted");
  expect(place.processes()).toEqual([]);
});

it("with terminate_on_exit off the run continues, is re-attached and ends by itself with its whole log", async () => {
  const served = await place.serve();
  const id = await served.submit({ entrypoint: "tick.py", args: ["80"], terminate_on_exit: false });
  await until(() => place.log(id).length > 10, "some log is home");
  served.signal("SIGTERM");
  expect((await served.exited).code).toBe(0);
  expect(served.err).toContain(
    `Still running, because terminate_on_exit is off: ${id}. It runs on this computer and costs nothing.`,
  );
  expect(place.processes().length).toBeGreaterThan(0);
  const next = await place.serve();
  expect((await next.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe(Array.from({ length: 80 }, (_, i) => `${i}\n`).join(""));
  const { transitions } = await next.timeline(id);
  expect(transitions.map((t) => t.to)).toEqual([
    ...ACTIVE_STATUSES.filter((status) => status !== "waiting"),
    "terminal",
  ]);
});

it("a kill while the control plane ends changes nothing", async () => {
  const served = await place.serve();
  const id = await running(served, { entrypoint: "polite.py" });
  served.signal("SIGTERM");
  await until(() => served.err.includes("ending 1 run"), "the signal was heard");
  await served.post(`/jobs/${id}/kill`, {}).catch(() => null); // the control plane may have ended by now
  await served.exited;
  expect(JSON.parse(place.svc("jobs", "--json").out).jobs[0].status).toBe("interrupted");
});
