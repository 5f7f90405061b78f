import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { until, Workplace } from "./serving.ts";

const place = new Workplace();
let served: Awaited<ReturnType<Workplace["serve"]>>;
beforeAll(async () => {
  delete place.env["UV_THREADPOOL_SIZE"];
  place.file("train.py", "import os\nprint('size', os.environ.get('UV_THREADPOOL_SIZE'))\n");
  served = await place.serve();
});
afterAll(() => place.close());

it.runIf(process.platform === "linux")("A control plane has sixteen threads for the disk", async () => {
  // `bin/svc` becomes the program: the process stays the same.
  const tasks = `/proc/${served.child.pid}/task`;
  const threads = (): number =>
    readdirSync(tasks).filter((id) => readFileSync(`${tasks}/${id}/comm`, "utf8").startsWith("libuv-worker")).length;
  await until(() => threads() === 16, "sixteen threads of libuv");
});

it("A script does not inherit the number of threads", async () => {
  const answer = await fetch(`${served.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ spec: { entrypoint: "train.py", project_dir: place.project } }),
  });
  const { id } = (await answer.json()) as { id: string };
  await until(async () => (await place.status(served, id)) === "succeeded", "the run has ended");
  expect(place.svc("logs", id).out).toBe("size None\n");
});
