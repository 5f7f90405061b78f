// A control plane that is killed in the middle of an upload, again and again: the next one resumes, and sends nothing
// twice.

import { createHash } from "node:crypto";
import { afterAll, expect, it } from "vitest";
import type { JobSinks } from "../../src/schemas/sink-status.ts";
import { KEY_ID, S3Double, SECRET } from "../sinks/s3-double.ts";
import { Place, until } from "./harness.ts";

const place = Place.own("it is killed");
const store = new S3Double();
afterAll(async () => {
  await place.close();
  await store.close();
});

const SIZE = 44 * 1024 * 1024;

it("A sink sends every part once, however often the control plane is killed, and without the run's environment variable", async () => {
  await store.listen();
  place.file(
    "train.py",
    `import hashlib, os
block = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(32768))
with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "model.bin"), "wb") as f:
    for i in range(${SIZE / 1024 / 1024}):
        f.write(bytes([i]) + block[1:])
print("trained")
`,
  );
  const env = { SVC_OBJSTORE_A_URL: store.url };
  let served = await place.serve({ env: { ...env, SINK_SECRET: SECRET } });
  // Kills at the moment when the store has carried out the request, before its answer can be read.
  const killAfter = (what: string, times: number): Promise<void> =>
    new Promise((resolve) => {
      let left = times;
      store.done = (asked) => {
        if (asked.what !== what || --left > 0) return;
        store.done = () => {};
        served.signal("SIGKILL");
        resolve();
      };
    });
  const begun = killAfter("CreateMultipartUpload", 1);
  const id = await served.submit({
    entrypoint: "train.py",
    sinks: [
      {
        kind: "objstore_a",
        url: "s3://bucket/runs",
        what: ["checkpoints", "logs"],
        credentials: { access_key_id: KEY_ID, secret_access_key: "env://SINK_SECRET", region: "us-east-1" },
      },
    ],
  });
  const key = `runs/${id}/checkpoints/model.bin`;
  await begun;
  await served.exited;
  for (const [what, times] of [
    ["UploadPart", 2],
    ["CompleteMultipartUpload", 1],
  ] as const) {
    const killed = killAfter(what, times);
    served = await place.serve({ env });
    await killed;
    await served.exited;
  }
  served = await place.serve({ env });
  const sinks = (): Promise<JobSinks> => served.get<JobSinks>(`/jobs/${id}/sinks`);
  await until(async () => (await sinks()).sinks[0]?.state === "done", place.lastWords(), 60_000);

  const parts = Math.ceil(SIZE / (8 * 1024 * 1024));
  expect(Object.fromEntries(store.taken)).toEqual(
    Object.fromEntries(Array.from({ length: parts }, (_, i) => [`${key} ${i + 1}`, 1])),
  );
  expect(store.count("CreateMultipartUpload")).toBe(1);
  expect(store.count("CompleteMultipartUpload")).toBe(1);
  expect(store.uploads.size).toBe(0);
  expect(store.text(`runs/${id}/run.log`)).toBe("trained\n");
  const list = JSON.parse(store.text(`runs/${id}/manifest.json`)) as { complete: boolean; files: unknown[] };
  const bytes = store.objects.get(key)!.bytes;
  expect(bytes.length).toBe(SIZE);
  expect(list).toMatchObject({
    complete: true,
    files: [
      { path: "checkpoints/model.bin", size: SIZE, sha256: createHash("sha256").update(bytes).digest("hex") },
      { path: "run.log", size: 8 },
    ],
  });
  expect((await served.job(id)).note).toBeNull();
  const { out } = place.svc("timeline", id);
  expect(out).toMatch(/sink\ts3:\/\/bucket\/runs\tdone\t2 \d+\t0 0/);
});
