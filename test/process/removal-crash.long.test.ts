// A control plane dies, or its disk fails, at each system call by which it removes a run. For every call: once another
// control plane has started, the run either exists with every file, or is removed with every file, its rows and its
// code; another run is never touched.

import { cpSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Place, until, type Served } from "./harness.ts";
import { failedAtThree, killedAtEach, underFault, type Interrupted } from "./under-fault.ts";

const SCRIPT = `
import os, sys, svc
folder = svc.checkpoint_dir()
for n in (1, 2):
    os.makedirs(folder + "/checkpoint-%d" % n)
    open(folder + "/checkpoint-%d/weights.bin" % n, "wb").write(b"w" * 3000)
    open(folder + "/checkpoint-%d/trainer_state.json" % n, "w").write("{}")
for n in range(50): svc.log({"loss": n}, step=n)
print("a line", sys.argv[1])
`;
/**
 * A row of the table ends at the first call that the removal no longer makes; no call occurs as often as this limit.
 */
const CALLS_MAX = 200;

let template: Place;
let goes: string;
let stays: string;
let before: Map<string, string>;

/** Every file of the home that belongs to a run, with its content. */
function filesOf(home: string, id: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const folder of ["artifacts", "logs", "runs"]) {
    for (const name of readdirSync(join(home, folder), { recursive: true, encoding: "utf8" })) {
      const path = join(home, folder, name);
      if (name.startsWith(id) && statSync(path).isFile()) found.set(`${folder}/${name}`, readFileSync(path, "latin1"));
    }
  }
  return found;
}
const blobsOf = (home: string): number =>
  readdirSync(join(home, "code", "blobs"), { recursive: true, encoding: "utf8" }).filter((n) => n.length > 60).length;

beforeAll(async () => {
  template = new Place();
  const served = await template.serve();
  const run = async (version: string): Promise<string> => {
    template.file("train.py", `${SCRIPT}# ${version}\n`);
    const id = await served.submit({ entrypoint: "train.py", args: [version], project_dir: template.project });
    expect((await served.ended(id)).status).toBe("succeeded");
    return id;
  };
  [stays, goes] = [await run("stays"), await run("goes")];
  served.signal("SIGTERM");
  await served.exited;
  before = filesOf(template.home, goes);
  expect(before.size).toBeGreaterThan(4);
}, 120_000);
afterAll(() => template.close());

/** Removes the run while a fault is injected into one call of one thread. Returns whether the process died of it. */
async function removeUnder(place: Place, served: Served, fault: string): Promise<boolean> {
  const ended = (): boolean =>
    place.db((db) => db.prepare("SELECT ended_at FROM removal WHERE job_id = ?").pluck().get(goes)) !== null;
  const { died } = await underFault(
    served,
    fault,
    () => fetch(`${served.url}/jobs/${goes}`, { method: "DELETE", signal: AbortSignal.timeout(60_000) }),
    () => until(() => !served.running || ended(), "the removal ends, perhaps after a retry", 60_000),
  );
  return died;
}

/** Checks the home after any fault, once a control plane has started there. */
async function judge(place: Place, served: Served): Promise<void> {
  const { home } = place;
  expect(filesOf(home, stays)).toEqual(filesOf(template.home, stays));
  const status = (await fetch(`${served.url}/jobs/${goes}`)).status;
  if (status === 200) {
    expect(filesOf(home, goes)).toEqual(before);
    const removed = await fetch(`${served.url}/jobs/${goes}`, { method: "DELETE" });
    expect([removed.status, await removed.text()]).toEqual([200, expect.any(String)]);
  } else expect(status).toBe(404);
  const left = (): number =>
    place.db((db) => Number(db.prepare("SELECT count(*) FROM removal WHERE ended_at IS NULL").pluck().get()));
  await until(() => left() === 0, "the removal is finished", 60_000);
  expect([...filesOf(home, goes).keys()]).toEqual([]);
  expect(existsSync(join(home, "artifacts", goes))).toBe(false);
  expect(blobsOf(home)).toBe(blobsOf(template.home) - 1);
  for (const table of ["journal", "effect", "series", "checkpoint", "log"])
    expect(place.db((db) => db.prepare(`SELECT count(*) FROM ${table} WHERE job_id = ?`).pluck().get(goes))).toBe(0);
  expect(filesOf(home, stays)).toEqual(filesOf(template.home, stays));
  expect(place.refolds()).toBe(1);
}

function copyOfTemplate(): Place {
  const place = Place.own("its removals are interrupted");
  cpSync(template.home, place.home, { recursive: true, preserveTimestamps: true });
  return place;
}

const REMOVAL: Interrupted = { copy: copyOfTemplate, under: removeUnder, judge };

describe("a removal of a run", { tags: "needs/strace" }, () => {
  it.for([
    ["unlink", 3],
    ["rmdir", 2],
    ["fsync", 1],
    ["pwrite64", 5],
  ] as const)(
    "that ends with any call of %s is whole or was never begun after the next start",
    { timeout: 900_000 },
    ([call, stride]) => killedAtEach(REMOVAL, { call, stride, callsMax: CALLS_MAX }),
  );

  it.for(["unlink", "rmdir", "pwrite64", "fsync"])(
    "whose disk fails at a call of %s is finished without a restart, or refused whole",
    { timeout: 600_000 },
    (call) => failedAtThree(REMOVAL, call),
  );
});
