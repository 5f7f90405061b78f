// The output of a run, live output, and the run's graceful end, through the Python SDK and a control plane of its own.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { gathered } from "../gathered.ts";
import { Place, until } from "../process/harness.ts";
import { SDKS } from "../program.ts";

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(async () => {
  await until(() => !existsSync(join(place.home, "control-plane.json")) || place.processes().length === 0, "all ended");
  await place.close();
});

function python(body: string) {
  const env = { ...place.env, ...SDKS };
  const child = spawn("python3", ["-c", `import json, os, signal, sys, time, urllib.request, svc\n${body}`], {
    cwd: place.project,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { child, ...gathered(child) };
}

test("metrics are charted once wherever the script's stdout goes, and no file of the script contains a record", async () => {
  place.file("train.py", 'import svc\nfor i in range(5): svc.log({"loss": 1 / (i + 1)}, step=i); print("epoch", i)\n');
  place.file("file.sh", "python3 train.py > train.log 2>&1; grep -c svc1 train.log; true\n");
  place.file("tee.sh", "python3 train.py 2>&1 | tee train.log\n");
  place.file(
    "sub.py",
    'import subprocess, sys\nr = subprocess.run([sys.executable, "train.py"], capture_output=True)\nprint(r.stdout.decode())\n',
  );
  const s = python(`
for entry in ("train.py", "tee.sh", "file.sh", "sub.py"):
    j = svc.run(task=svc.Task(entry), wait=True)
    url = json.load(open(os.environ["SVC_HOME"] + "/control-plane.json"))["url"]
    series = json.load(urllib.request.urlopen(f"{url}/jobs/{j.id}/metrics"))["series"]
    log = [line for line in svc.stream(j.id) if line]
    print(entry, j.status, len(series["loss"]["points"] if "points" in series["loss"] else series["loss"]), log, sep="|")
`);
  expect(await s.exited, s.err()).toBe(0);
  const epochs = "['epoch 0', 'epoch 1', 'epoch 2', 'epoch 3', 'epoch 4']";
  expect(s.out().trim().split("\n")).toEqual([
    `train.py|succeeded|5|${epochs}`,
    `tee.sh|succeeded|5|${epochs}`,
    "file.sh|succeeded|5|['0']",
    `sub.py|succeeded|5|${epochs}`,
  ]);
});

test("a killed run has its stop_grace_seconds for a last checkpoint, and no more", async () => {
  place.file(
    "train.py",
    `import os, signal, sys, time, svc
def save(*_):
    with svc.atomic_save("last.txt", mode="w") as file:
        for i in range(int(sys.argv[1])): file.write(f"shard {i}\\n"); print("shard", i, flush=True); time.sleep(1)
        while sys.argv[1] == "14" and not os.path.exists("go"): time.sleep(0.05)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True: time.sleep(1)
`,
  );
  const s = python(`
ids = []
for shards, grace in (("14", 600), ("600", 1)):
    j = svc.run(task=svc.Task("train.py", [shards]), stop_grace_seconds=grace); ids.append(j.id)
    next(svc.stream(j.id))
for id in ids: svc.kill(id)
# What the script says while it uses its grace can be read meanwhile.
for line in svc.stream(ids[0]):
    if line == "shard 13": print("seen while", svc.job(ids[0]).status); open("go", "w").close(); break
for id in ids:
    j = svc.wait(id)
    print(j.status, j.exit_code, j.spec["stop_grace_seconds"], os.path.exists(os.environ["SVC_HOME"] + f"/artifacts/{id}/checkpoints/last.txt"))
`);
  expect(await s.exited, s.err()).toBe(0);
  expect(s.out().trim().split("\n")).toEqual([
    "seen while terminating",
    "cancelled 0 600 True",
    "cancelled 137 1 False",
  ]);
});

test("Ctrl-C that the caller catches ends only the following, also for an asyncio task", async () => {
  place.file("train.py", 'import time\nfor i in range(10_000): print("step", i, flush=True); time.sleep(0.1)\n');
  const s = python(`
import asyncio
signal.signal(signal.SIGINT, signal.default_int_handler)
j = svc.run(task=svc.Task("train.py"))
async def watch():
    async for line in svc.aio.stream(j.id): print(line, flush=True)
for how in (lambda: [print(line, flush=True) for line in svc.stream(j.id)], lambda: asyncio.run(watch())):
    try: print("watching", flush=True); how()
    except KeyboardInterrupt as e:
        frames = []
        while e.__traceback__ and (tb := e.__traceback__): frames.append(tb.tb_frame.f_code.co_filename); e.__traceback__ = tb.tb_next
        inside = sum(name.endswith(("svc/_http.py", "svc/_call.py", "socket.py")) for name in frames)
        print("frames inside:", inside, flush=True)
        print("stopped", svc.job(j.id).status, flush=True)
print("next", next(svc.stream(j.id)), flush=True)
`);
  for (const nth of [1, 2]) {
    const watching = (): string => s.out().split("watching\n")[nth] ?? "";
    await until(
      () => watching().includes("step 3"),
      () => `it watches: ${s.err()}`,
    );
    s.child.kill("SIGINT");
    await until(
      () => watching().includes("stopped running"),
      () => `it goes on: ${s.out()} ${s.err()}`,
    );
  }
  expect(await s.exited, s.err()).toBe(0);
  expect(s.out()).toContain("next step 0");
  // The traceback of an interrupt shows the caller's line, and not how svc reads.
  expect(s.out().match(/frames inside: \d+/g)).toEqual(["frames inside: 0", "frames inside: 0"]);
  expect(s.err()).toContain("stopped watching run");
  expect(s.err()).toContain("svc: everything has ended");
  const { jobs } = JSON.parse(place.svc("jobs", "--json").out) as { jobs: { status: string }[] };
  expect(jobs.map((job) => job.status)).toEqual(["interrupted"]);
});
