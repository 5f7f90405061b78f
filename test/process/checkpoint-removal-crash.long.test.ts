// A control plane dies, or its disk fails, at each system call by which it removes a checkpoint. For every call: once another control
// plane has started, the checkpoint is complete with every byte, or it is gone with every file and does not count; the others stay.

import { cpSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Place, until, type Served } from "./harness.ts";
import { failedAtThree, killedAtEach, underFault, type Interrupted } from "./under-fault.ts";

const SCRIPT = `
import os, svc
for n in (1, 2):
    folder = os.path.join(svc.checkpoint_dir(), "checkpoint-%d" % n)
    os.makedirs(folder + "/deep")
    for name in ("weights.bin", "deep/optimizer.bin"):
        open(os.path.join(folder, name), "wb").write(b"w" * 3000)
    svc.checkpoint("checkpoint-%d" % n, step=n)
`;
/** No call occurs as often as this limit. */
const CALLS_MAX = 100;
const GOES = "checkpoint-1";
const STAYS = "checkpoint-2";

let template: Place;
let id: string;
let before: Map<string, string>;

/** Every file of the run's checkpoints, with its content. */
function filesOf(home: string): Map<string, string> {
  const found = new Map<string, string>();
  const folder = join(home, "artifacts", id, "checkpoints");
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }))
    if (statSync(join(folder, name)).isFile()) found.set(name, readFileSync(join(folder, name), "latin1"));
  return found;
}
const below = (files: Map<string, string>, name: string): [string, string][] =>
  [...files].filter(([path]) => path.startsWith(`${name}/`));

beforeAll(async () => {
  template = Place.own("it is killed");
  const served = await template.serve();
  template.file("train.py", SCRIPT);
  id = await served.submit({ entrypoint: "train.py", project_dir: template.project });
  expect((await served.ended(id)).status).toBe("succeeded");
  served.signal("SIGTERM");
  await served.exited;
  before = filesOf(template.home);
  expect(below(before, GOES)).toHaveLength(2);
}, 120_000);
afterAll(() => template.close());

function copyOfTemplate(): Place {
  const place = Place.own("it is killed");
  cpSync(template.home, place.home, { recursive: true, preserveTimestamps: true });
  return place;
}

const request = ({ url }: Served): Promise<Response> =>
  fetch(`${url}/jobs/${id}/checkpoints/remove`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ names: [GOES] }),
    signal: AbortSignal.timeout(60_000),
  });
const open = (place: Place): number =>
  place.db((db) => Number(db.prepare("SELECT count(*) FROM checkpoint_removal WHERE ended_at IS NULL").pluck().get()));

async function completeOnes({ url }: Served): Promise<string[]> {
  const answer = await fetch(`${url}/jobs/${id}/resume-points`);
  return ((await answer.json()) as { checkpoints: { name: string }[] }).checkpoints.map(({ name }) => name).toSorted();
}

/** Checks the home after any fault, once a control plane has started there. */
async function judge(place: Place, served: Served): Promise<void> {
  // At once, before the rest of an interrupted removal is deleted: half a checkpoint never counts.
  const names = await completeOnes(served);
  if (names.includes(GOES)) {
    expect(names).toEqual([GOES, STAYS]);
    expect(below(filesOf(place.home), GOES)).toEqual(below(before, GOES));
    const answer = await request(served);
    expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
  }
  await until(() => open(place) === 0, "the removal is finished", 60_000);
  expect(await completeOnes(served)).toEqual([STAYS]);
  expect(below(filesOf(place.home), GOES)).toEqual([]);
  // Nor does a kept set take space.
  expect([...filesOf(place.home).keys()].filter((path) => path.includes(`/${GOES}/`))).toEqual([]);
  expect(existsSync(join(place.home, "artifacts", id, "checkpoints", GOES))).toBe(false);
  expect(below(filesOf(place.home), STAYS)).toEqual(below(before, STAYS));
  const rows = place.db((db) => db.prepare("SELECT path FROM checkpoint WHERE job_id = ?").pluck().all(id));
  expect(rows.filter((path) => String(path).startsWith(GOES))).toEqual([]);
  expect(place.refolds()).toBe(1);
}

async function removeUnder(place: Place, served: Served, fault: string): Promise<boolean> {
  const { died } = await underFault(
    served,
    fault,
    () => request(served),
    () => until(() => !served.running || open(place) === 0, "the removal ends, perhaps after a retry", 60_000),
  );
  return died;
}
const REMOVAL: Interrupted = { copy: copyOfTemplate, under: removeUnder, judge };

describe("a removal of a checkpoint", { tags: "needs/strace" }, () => {
  it.for([
    ["unlink", 1],
    ["rmdir", 1],
    ["fsync", 1],
    ["pwrite64", 5],
  ] as const)(
    "that ends with any call of %s leaves all of it or nothing after the next start",
    { timeout: 900_000 },
    ([call, stride]) => killedAtEach(REMOVAL, { call, stride, callsMax: CALLS_MAX }),
  );

  it.for(["unlink", "rmdir", "pwrite64", "fsync"])(
    "whose disk fails at a call of %s is finished without a restart, or refused whole",
    { timeout: 600_000 },
    (call) => failedAtThree(REMOVAL, call),
  );
});
