// The guarantees of a job hold over several machines: its secret stays secret in every row, line and answer, its sink gets the files
// of each machine, and its removal takes everything but the machines' rows.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { openControlPlane } from "../../src/app/app.ts";
import { isMissing } from "../../src/errors/index.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { KEY_ID, S3Double, SECRET } from "../sinks/s3-double.ts";
import { COUNTING, partsOf, wrongEnd, wrongLog, wrongMachines } from "./placed.ts";
import { World } from "./world.ts";

const LINES = 120;

/** The files of a home, with their bytes. The store may still be open. */
function filesOf(home: string): { path: string; bytes: Buffer }[] {
  return readdirSync(home, { withFileTypes: true, recursive: true }).flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile()) return [];
    try {
      return [{ path, bytes: readFileSync(path) }];
    } catch (e) {
      // The sink deletes its sealed keys once everything is copied.
      if (isMissing(e)) return [];
      throw e;
    }
  });
}

it("A job keeps a secret, copies to a sink and can be removed, over an unfit machine, a lost one and the one that ends it", async (ctx) => {
  const store = new S3Double();
  await store.listen();
  const secret = `s3-${randomBytes(18).toString("base64")}`;
  const literal = `key-${randomBytes(12).toString("hex")}`;
  const forms = [secret, Buffer.from(secret).toString("base64"), encodeURIComponent(secret), literal];
  const script = COUNTING.replace(
    'print("begin',
    'print("secret %s %s" % (os.environ["TOKEN"], os.environ["API_KEY"]), flush=True)\nprint("begin',
  );
  const world = await World.start({
    provider: "market",
    script,
    lines: LINES,
    seconds: 6,
    spec: {
      env: { TOKEN: "env://MY_SECRET", API_KEY: literal },
      sinks: [
        {
          kind: "objstore_a",
          url: "s3://bucket/runs",
          what: ["checkpoints", "logs"],
          credentials: { access_key_id: KEY_ID, secret_access_key: "env://SINK_SECRET", region: "us-east-1" },
        },
      ],
    },
    env: { MY_SECRET: secret, SINK_SECRET: SECRET, SVC_OBJSTORE_A_URL: store.url },
  });
  try {
    if (world.fleet.kind === "plain") ctx.skip("machines share this computer's GPU tools here");
    world.faults.set("busy_hosts");
    world.once("checkpoint.saved", () => world.faults.set("vanishes", 500));
    const ending = await world.live("placement.closed");
    const [record] = ending.records;
    const [log = "", placements = []] = [ending.logs[0], ending.placements[0]];
    expect([...wrongEnd(ending), ...wrongMachines(world), ...wrongLog(log, { every: 10, last: LINES })]).toEqual([]);
    expect(placements.map(({ failure }) => failure)).toEqual(["machine_unfit", "machine_lost", null]);

    // The secret: each machine's script printed it.
    expect(log.match(/^secret \*\*\*redacted\*\*\* \*\*\*redacted\*\*\*$/gm)).toHaveLength(2);
    const answers = JSON.stringify([ending, world.events]);
    for (const form of forms) expect([answers.includes(form), world.said.includes(form)]).toEqual([false, false]);
    for (const { path, bytes } of filesOf(world.home))
      for (const form of forms) expect(bytes.includes(form), path).toBe(false);

    // The sink has the checkpoints of both machines, and one log.
    const id = record?.id ?? "";
    const key = (path: string): string => `runs/${id}/${path}`;
    await expect.poll(() => store.objects.has(key("manifest.json")) && store.text(key("run.log")) === log).toBe(true);
    const begin = partsOf(log)[1]?.begin ?? 0;
    expect(begin).toBeGreaterThan(0);
    for (const step of [begin, LINES]) {
      const name = `step_${String(step).padStart(3, "0")}`;
      await expect.poll(() => store.objects.has(key(`checkpoints/${name}`))).toBe(true);
      expect(store.text(key(`checkpoints/${name}`))).toBe(String(step));
    }

    // The removal: files and rows are gone, the rows of the machines stay.
    await world.end();
    const plane = await openControlPlane({ home: world.home, env: { ...world.env }, log: () => undefined });
    try {
      expect((await plane.remove(id)).freed_bytes).toBeGreaterThan(0);
      expect(plane.reads.job(id)).toBe(null);
      expect(plane.reads.placements(id)).toEqual({ placements: [], waiting: null });
      expect(existsSync(homeLayout.artifactsOf(world.home, id))).toBe(false);
      expect(existsSync(homeLayout.run(world.home, id))).toBe(false);
    } finally {
      await plane.close();
    }
    const rows = new Database(homeLayout.store(world.home), { readonly: true });
    try {
      const states = rows.prepare<[string], string>("SELECT state FROM machine WHERE job_id = ?").pluck().all(id);
      expect(states).toEqual(["released", "released", "released"]);
    } finally {
      rows.close();
    }
  } finally {
    await world.close();
    await store.close();
  }
});
