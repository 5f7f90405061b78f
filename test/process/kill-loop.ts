// `kill -9` of the control plane at random moments of several runs. After any kill: every run ends with its own result,
// its log is complete, each metric is stored once, and no process is left.

import { deepStrictEqual, ok } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pause, Place, random, until, type Served } from "./harness.ts";

/** Each script also writes its output into a separate file, with which the stored log is compared. */
const HEAD = `
import os, sys, time, random, signal
import svc
expect = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
seconds = float(sys.argv[2])
end = time.monotonic() + seconds
def put(data):
    view = memoryview(data)
    while view: view = view[os.write(1, view):]
    os.write(expect, data)
`;
const SCRIPTS: Record<string, { body: string; status: string; exit: number; metrics: boolean; install?: string }> = {
  slow: {
    body: `n = 0
while time.monotonic() < end:
    put(b"slow %d\\n" % n); svc.log({"loss": 1 / (n + 1)}, step=n); n += 1; time.sleep(0.05)
    if n % 20 == 0:
        path = os.path.join(svc.checkpoint_dir(), "step-%d.bin" % n)
        with open(path, "wb") as f: f.write(os.urandom(1000))
`,
    status: "succeeded",
    exit: 0,
    metrics: true,
  },
  flood: {
    body: `n = 0
while time.monotonic() < end:
    for _ in range(40):
        put(b"".join(b"flood %d %s\\n" % (i, b"x" * (i % 90)) for i in range(n * 100, n * 100 + 100)))
        svc.log({"loss": n * 0.5}, step=n); n += 1
    time.sleep(0.1)
`,
    status: "succeeded",
    exit: 0,
    metrics: true,
  },
  bars: {
    body: `n = 0
while time.monotonic() < end:
    put(b"\\rbar %d %%" % n); n += 1
    if n % 7 == 0: put(bytes([0xff, 0xc3, n % 256])); svc.log({"loss": n}, step=n // 7 - 1)
    time.sleep(0.01)
put(b"no end of line")
`,
    status: "succeeded",
    exit: 0,
    metrics: true,
  },
  installs: {
    body: `for n in range(int(seconds * 20)):
    put(b"after install %d\\n" % n); time.sleep(0.05)
`,
    status: "succeeded",
    exit: 0,
    metrics: false,
    install: "i=0; while [ $i -lt 40 ]; do echo install $i; i=$((i+1)); sleep 0.05; done",
  },
  fails: {
    body: `n = 0
while time.monotonic() < end:
    put(b"fails %d\\n" % n); n += 1; time.sleep(0.02)
sys.exit(7)
`,
    status: "failed",
    exit: 7,
    metrics: false,
  },
  dies: {
    body: `n = 0
while time.monotonic() < end:
    put(b"dies %d" % n); n += 1; time.sleep(0.03)
os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(60)
`,
    status: "failed",
    exit: 139,
    metrics: false,
  },
};

export interface KillLoop {
  runs: number;
  /** The largest number of attachments to one run. */
  attachments: number;
}

/**
 * Kills the control plane so many times. Throws if anything about any run is wrong, with the run's kind and the seed.
 */
export async function killLoop(kills: number, seed: number): Promise<KillLoop> {
  const place = Place.own("it is killed again and again");
  try {
    return await loop(place, kills, seed);
  } finally {
    await place.close();
  }
}

async function loop(place: Place, kills: number, seed: number): Promise<KillLoop> {
  const next = random(seed);
  for (const [name, { body }] of Object.entries(SCRIPTS)) place.file(`${name}.py`, HEAD + body);
  const runs: { id: string; kind: string; expect: string }[] = [];
  const live = new Set<string>();

  const submitWave = async (served: Served): Promise<void> => {
    for (const kind of Object.keys(SCRIPTS)) {
      const expected = join(place.root, `expect-${runs.length}`);
      const spec = {
        entrypoint: `${kind}.py`,
        args: [expected, (4 + next() * 8).toFixed(2)],
        project_dir: place.project,
        terminate_on_exit: false,
        ...(SCRIPTS[kind]?.install === undefined ? {} : { install: SCRIPTS[kind].install }),
      };
      const id = await served.submit(spec);
      runs.push({ id, kind, expect: expected });
      live.add(id);
    }
  };

  let served = await place.serve();
  await submitWave(served);
  for (let kill = 0; kill < kills; kill++) {
    // Some kills hit the start of the control plane, most of them its work.
    if (next() < 0.15) await pause(next() * 600);
    else {
      if (kill > 0) await served.ready();
      for (const id of live) if ((await served.job(id)).ended_at !== null) live.delete(id);
      if (live.size <= 1) await submitWave(served);
      await pause(next() * 900);
    }
    await served.kill();
    served = place.start();
  }
  await served.ready();
  for (const run of runs) {
    const { status, exit, metrics, install } = SCRIPTS[run.kind] as (typeof SCRIPTS)[string];
    const about = `${run.kind} ${run.id}, seed ${seed}`;
    const job = await served.ended(run.id);
    deepStrictEqual([job.status, job.exit_code], [status, exit], `${about}: ${JSON.stringify(job.error)}`);
    const installed = install === undefined ? "" : Array.from({ length: 40 }, (_, i) => `install ${i}\n`).join("");
    const wrote = Buffer.concat([Buffer.from(installed), readFileSync(run.expect)]);
    const stored = place.log(run.id);
    ok(stored.equals(wrote), `${about}: the stored log has ${stored.length} bytes, the script wrote ${wrote.length}`);
    ok(
      (await served.text(`/jobs/${run.id}/logs`)) === wrote.toString("latin1"),
      `${about}: its log as the API tells it`,
    );
    if (metrics) {
      const steps = (await served.metrics(run.id)).series["loss"]?.map((p) => p.step) ?? [];
      deepStrictEqual(
        steps,
        steps.map((_, i) => i),
        about,
      );
      ok(steps.length > 3, `${about}: ${steps.length} metrics`);
    }
    if (run.kind === "slow") {
      const { files } = await served.get<{ files: { path: string; size: number }[] }>(`/jobs/${run.id}/checkpoints`);
      const lines = wrote.toString("latin1").split("\n").length - 1;
      deepStrictEqual(
        files.map((f) => f.size),
        Array.from({ length: Math.floor(lines / 20) }, () => 1000),
        about,
      );
    }
    const { steps, transitions } = await served.timeline(run.id);
    deepStrictEqual(transitions.at(-1)?.to, "terminal", about);
    for (const step of steps) ok(!/running|retrying|pending/.test(step.status), `${about}: ${JSON.stringify(step)}`);
  }
  const attempts = await Promise.all(
    runs.map(async ({ id }) => (await served.timeline(id)).steps.filter((s) => s.step === "stream").length),
  );
  const { failed, terminated, unreachable_providers, foreign } = JSON.parse(place.svc("reconcile", "--json").out);
  deepStrictEqual([failed, terminated, unreachable_providers, foreign], [[], [], [], []], "what reconcile says");
  deepStrictEqual(place.refolds(), runs.length, "journals that lead to their snapshots");
  await until(() => place.processes().length === 0, "no process of any run is left");
  return { runs: runs.length, attachments: Math.max(...attempts) };
}
