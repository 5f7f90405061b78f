// A home of the first released schema, with a run that was open when its control plane was killed: svc migrates the
// home, keeps a copy of it, can read its content, and ends the open run with a reason.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import type { JobRecord } from "../../src/schemas/job.ts";
import type { Placements } from "../../src/schemas/placement.ts";
import { Place, until } from "./harness.ts";

const HOME = join(import.meta.dirname, "../store/homes/schema-1.tar.gz");
const place = new Place();
afterAll(() => place.close());

it("a home of the first schema is migrated completely", async () => {
  mkdirSync(place.home, { mode: 0o700 });
  expect(spawnSync("tar", ["-xzf", HOME, "-C", place.home]).status).toBe(0);
  const served = await place.serve();
  const jobs = async () => (await served.get<{ jobs: JobRecord[] }>("/jobs")).jobs;
  const [open, finished] = await jobs();
  expect([finished?.label, finished?.status, finished?.exit_code]).toEqual(["finished", "succeeded", 0]);
  expect(await served.text(`/jobs/${finished?.id}/logs`)).toBe("hi\n");
  expect((await served.metrics(finished?.id ?? "")).series["loss"]).toMatchObject([{ step: 0, value: 1 }]);
  expect((await served.timeline(finished?.id ?? "")).transitions.at(-1)?.to).toBe("terminal");

  // Its run directory is missing: svc cannot find the run any more, and says so.
  expect(open?.label).toBe("open");
  const ended = await served.ended(open?.id ?? "");
  expect([ended.status, ended.error?.code]).toEqual(["failed", "run_lost"]);
  // It is its only placement: it has no rules for another one, whatever today's defaults are.
  const { placements } = await served.get<Placements>(`/jobs/${open?.id}/placements`);
  expect(placements.length).toBeLessThanOrEqual(1);
  expect(ended.placements).toBeLessThanOrEqual(1);
  expect(await served.text(`/jobs/${open?.id}/logs`)).toMatch(/^line 0\nline 1\n/);
  expect(place.refolds()).toBe(2);
  await until(
    () => readdirSync(join(place.home, "backups")).some((name) => name.startsWith("svc-schema1-")),
    "a copy is kept",
  );
});
