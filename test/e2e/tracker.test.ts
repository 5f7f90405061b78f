// A run with a tracker: the key reaches the library, the link reaches svc, and the values reach both.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FeedEvent } from "../../src/schemas/job.ts";
import { Place } from "../process/harness.ts";

const KEY = "tracker-key-0123456789abcdef0123456789abcdef";
const LIBRARY = `
import json, os
run = None
class Settings:
    def __init__(self, **given): pass
class Run:
    url = "https://tracker.example/team/p/runs/" + os.environ["SVC_JOB_ID"]
    def define_metric(self, *a, **b): pass
    def log(self, values): note(values)
    def finish(self, exit_code=0): note(["finish", exit_code])
def note(what):
    with open(os.environ["NOTES"], "a") as f: f.write(json.dumps(what) + "\\n")
def init(**given):
    with open("/proc/self/cmdline") as f: argv = f.read()
    note([given["id"], os.environ["WANDB_API_KEY"][-4:], os.environ.get("WANDB_BASE_URL"), os.environ["WANDB_API_KEY"] in argv])
    print(os.environ["WANDB_API_KEY"])
    return Run()
`;

let place: Place;
/** A server that accepts connections: svc checks whether the tracker can be reached. */
let tracker: Server;
beforeEach(async () => {
  place = new Place();
  tracker = createServer((socket) => socket.end());
  await new Promise<void>((up) => tracker.listen(0, "127.0.0.1", up));
});
afterEach(async () => {
  await place.close();
  tracker.close();
});

test("a job's metrics go to svc and to the tracker, and svc knows the run's page there", async () => {
  const address = `http://127.0.0.1:${(tracker.address() as AddressInfo).port}`;
  Object.assign(place.env, { TRACKER_API_KEY: KEY, SVC_TRACKER_URL: address });
  const library = join(place.root, "library");
  mkdirSync(join(library, "wandb"), { recursive: true });
  writeFileSync(join(library, "wandb/__init__.py"), LIBRARY);
  place.file("train.py", "import svc\nfor i in range(20):\n    svc.log({'loss': 1 / (i + 1)}, step=i)\n");
  const notes = join(place.root, "notes");
  const served = await place.serve();
  const id = await served.submit({ entrypoint: "train.py", env: { NOTES: notes, PYTHONPATH: library } });
  expect(await served.ended(id)).toMatchObject({ status: "succeeded", exit_code: 0 });

  const noted = readFileSync(notes, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
  expect(noted[0]).toEqual([id, "cdef", address, false]);
  expect(noted.slice(1, -1)).toEqual(Array.from({ length: 20 }, (_, i) => ({ loss: 1 / (i + 1), svc_step: i })));
  expect(noted.at(-1)).toEqual(["finish", 0]);
  expect((await served.metrics(id)).series["loss"]).toHaveLength(20);

  const url = `https://tracker.example/team/p/runs/${id}`;
  expect((await served.timeline(id)).tracker_url).toBe(url);
  const linked = place.db((db) => db.prepare("SELECT * FROM feed WHERE type = 'tracker.linked'").all()) as FeedEvent[];
  expect(linked).toHaveLength(1);
  const log = place.log(id).toString("utf8");
  expect(log).toBe(`svc.log: metrics also go to ${url}\n`);
});
