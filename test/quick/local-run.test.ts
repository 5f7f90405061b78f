// One real run on this computer, from `svc serve` to the end of its log: the shortest proof that the parts fit together.

import { afterAll, expect, it } from "vitest";
import { Place } from "../process/harness.ts";

const TRAIN = `import os, svc
for step in range(3):
    print("line", step, flush=True)
    svc.log({"loss": 1 / (step + 1)}, step=step)
with open(os.path.join(svc.checkpoint_dir(), "weights.bin"), "w") as f:
    f.write("trained")
`;

const place = new Place();
afterAll(() => place.close());

it("A local run succeeds, and its log, metrics and checkpoint are kept", async () => {
  place.file("train.py", TRAIN);
  const served = await place.serve();
  const id = await served.submit({ entrypoint: "train.py" });
  expect(await served.ended(id)).toMatchObject({ status: "succeeded", error: null });
  expect(place.log(id).toString()).toContain("line 0\nline 1\nline 2\n");
  expect(JSON.stringify(await served.metrics(id))).toContain("loss");
  expect(await served.text(`/jobs/${id}/checkpoints`)).toContain("weights.bin");
  expect(place.svc("jobs", "--json").out).toContain(id);
  served.signal("SIGTERM");
  expect(await served.exited).toMatchObject({ signal: null });
});
