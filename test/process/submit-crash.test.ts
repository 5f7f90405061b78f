// A submission with an Idempotency-Key while the control plane is killed: however often it is repeated, it makes one
// job.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { pause, Place, random, seedOf } from "./harness.ts";

const place = Place.own("it is killed");
afterAll(() => place.close());

it("one key is one job and one start of its script, wherever the kill strikes", { timeout: 240_000 }, async () => {
  const seed = seedOf("submit-crash");
  const next = random(seed);
  place.file("once.py", 'import sys\nopen(sys.argv[1], "a").write("started\\n")\nprint("hello", flush=True)\n');
  const ids: string[] = [];
  const post = async (url: string, n: number): Promise<string> => {
    const answer = await fetch(`${url}/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": `key-${n}` },
      body: JSON.stringify({
        spec: { entrypoint: "once.py", args: [join(place.root, `started-${n}`)], terminate_on_exit: false },
      }),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return ((await answer.json()) as { id: string }).id;
  };
  for (let n = 0; n < 12; n++) {
    const first = await place.serve();
    const asked = post(first.url, n).catch(() => null);
    await pause(next() * 250);
    await first.kill();
    const told = await asked;
    const second = await place.serve();
    const id = await post(second.url, n);
    if (told !== null) expect(id, `seed ${seed}`).toBe(told);
    expect((await second.ended(id)).status, `seed ${seed}, ${id}`).toBe("succeeded");
    ids.push(id);
    await second.kill();
  }
  const last = await place.serve();
  const { jobs } = await last.get<{ jobs: { id: string }[] }>("/jobs?limit=100");
  expect(jobs.map((j) => j.id).toSorted()).toEqual(ids.toSorted());
  for (let n = 0; n < ids.length; n++) {
    const file = join(place.root, `started-${n}`);
    expect(existsSync(file) && readFileSync(file, "utf8"), `seed ${seed}, run ${n}`).toBe("started\n");
    expect(place.log(ids[n] as string).toString()).toBe("hello\n");
  }
  expect(place.refolds()).toBe(ids.length);
  await last.kill();
});

it("kills at every state end gracefully, also twice and across a kill -9", { timeout: 240_000 }, async () => {
  const seed = seedOf("early-kill");
  const next = random(seed);
  place.file("wait.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
  let served = await place.serve();
  const ids: string[] = [];
  for (let n = 0; n < 15; n++) {
    const id = await served.submit({
      entrypoint: "wait.py",
      terminate_on_exit: false,
      ...(n % 3 === 0 ? { install: "sleep 0.3; echo installed" } : {}),
    });
    ids.push(id);
    await pause(next() * 400);
    await Promise.all([served.post(`/jobs/${id}/kill`, {}), served.post(`/jobs/${id}/kill`, {})]);
    if (n % 5 === 4) {
      await pause(next() * 100);
      await served.kill();
      served = await place.serve();
    }
  }
  for (const id of ids) {
    const job = await served.ended(id);
    expect(
      [job.status, ...job.machines.map((m) => m.state)].filter((s) => s !== "released"),
      `seed ${seed} ${id}`,
    ).toEqual(["cancelled"]);
  }
  expect(place.processes()).toEqual([]);
  place.refolds();
});
