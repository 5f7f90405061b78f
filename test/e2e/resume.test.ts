// A run that resumes from another one, over the API, with the package that scripts import.

import { afterAll, beforeAll, expect, test } from "vitest";
import { Place, type Served } from "../process/harness.ts";

/** Counts to its argument; each step is a checkpoint. The first run stops at 2. */
const SCRIPT = `
import json, os, sys
import svc
done, latest = 0, svc.latest_checkpoint()
print("from", os.environ.get("SVC_RESUME_FROM") == latest, latest and os.path.basename(latest), flush=True)
if latest:
    done = json.load(open(latest))["done"]
open(os.path.join(svc.checkpoint_dir(), "tmp-torn.json"), "w").write("{")
for step in range(done + 1, int(sys.argv[1]) + 1):
    with svc.atomic_save("count-%d.json" % step, step=step, mode="w") as file:
        json.dump({"done": step}, file)
    print("step", step, flush=True)
sys.exit(3 if len(sys.argv) > 2 else 0)
`;

let place: Place;
let served: Served;
beforeAll(async () => {
  place = new Place();
  place.file("count.py", SCRIPT);
  served = await place.serve();
});
afterAll(() => place.close());

const log = (id: string): Promise<string> => served.text(`/jobs/${id}/logs`);
const checkpoints = async (id: string): Promise<string> => JSON.stringify(await served.get(`/jobs/${id}/checkpoints`));

test("resume_from continues from the last complete checkpoint, and only files that the run wrote count as its own", async () => {
  const first = await served.submit({ entrypoint: "count.py", args: ["2", "break"] });
  expect(await served.ended(first)).toMatchObject({ status: "failed", exit_code: 3 });
  expect(await log(first)).toContain("from True None");

  const second = await served.submit({ entrypoint: "count.py", args: ["3"], resume_from: first });
  expect(await served.ended(second)).toMatchObject({ status: "succeeded", exit_code: 0 });
  expect(await log(second)).toMatch(/from True count-2\.json\nstep 3\n$/);
  expect(await checkpoints(second)).toContain("count-3.json");
  expect(await checkpoints(second)).not.toContain("count-2.json");

  // A run that saved nothing passes on the checkpoint of the run before it.
  const third = await served.submit({ entrypoint: "count.py", args: ["3"], resume_from: second });
  expect(await served.ended(third)).toMatchObject({ status: "succeeded" });
  const fourth = await served.submit({ entrypoint: "count.py", args: ["4"], resume_from: third });
  expect(await served.ended(fourth)).toMatchObject({ status: "succeeded" });
  expect(await log(fourth)).toMatch(/from True count-3\.json\nstep 4\n$/);
});

test("resume_checkpoint names an earlier complete checkpoint, and svc lists those that it may name", async () => {
  const first = await served.submit({ entrypoint: "count.py", args: ["3"] });
  await served.ended(first);
  const { checkpoints: points } = (await served.get(`/jobs/${first}/resume-points`)) as {
    checkpoints: { name: string; step: number; files: number; bytes: number }[];
  };
  expect(points.map(({ name, step, files, bytes }) => [name, step, files, bytes])).toEqual(
    [3, 2, 1].map((n) => [`count-${n}.json`, n, 1, 11]),
  );
  const spec = { entrypoint: "count.py", args: ["3"], resume_from: first };
  const second = await served.submit({ ...spec, resume_checkpoint: "count-1.json" });
  expect(await served.ended(second)).toMatchObject({ status: "succeeded" });
  expect(await log(second)).toMatch(/from True count-1\.json\nstep 2\nstep 3\n$/);

  const refused = async (body: object) => {
    const { status, body: told } = await served.post("/jobs", { spec: { project_dir: place.project, ...body } });
    const { code, detail, errors } = told as { code: string; detail: string; errors: { field: string }[] };
    expect([status, errors[0]?.field]).toEqual([400, "spec.resume_checkpoint"]);
    return `${code}: ${detail}`;
  };
  expect(await refused({ ...spec, resume_checkpoint: "tmp-torn.json" })).toMatch(
    /^resume_unavailable: .*the newest that are: count-3\.json, count-2\.json, count-1\.json\.$/,
  );
  expect(await refused({ entrypoint: "count.py", resume_checkpoint: "count-1.json" })).toMatch(/^invalid_request: /);
});

test.each([
  ["nobody", "there is no such job"],
  ["a job without a complete checkpoint", "none of its complete checkpoints is on this computer"],
])("resume_from %s is refused at the field", async (who, why) => {
  place.file("nothing.py", "");
  let from = who;
  if (who !== "nobody") {
    from = await served.submit({ entrypoint: "nothing.py" });
    await served.ended(from);
  }
  const spec = { entrypoint: "count.py", resume_from: from, project_dir: place.project };
  const { status, body } = await served.post("/jobs", { spec });
  expect(status).toBe(400);
  const told = body as { code: string; errors: { field: string; message: string }[] };
  expect([told.code, told.errors[0]?.field]).toEqual(["resume_unavailable", "spec.resume_from"]);
  expect(told.errors[0]?.message).toContain(why);
});
