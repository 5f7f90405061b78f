// One writer per home, whatever the state of the first one.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { hashes, Place, until } from "./harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("each test locks, stops or kills it");
  place.file("tick.py", "import time, sys\nfor i in range(int(sys.argv[1])):\n    print(i)\n    time.sleep(0.05)\n");
});
afterEach(() => place.close());

const ticks = (n: number): string => Array.from({ length: n }, (_, i) => `${i}\n`).join("");

it("svc refuses a second control plane, naming the first, and leaves the first alone", async () => {
  const first = await place.serve();
  const id = await first.submit({ entrypoint: "tick.py", args: ["40"] });
  const before = readFileSync(join(place.home, "holder.json"), "utf8");
  const { code, err } = await place.refused();
  expect(code).toBe(1);
  expect(JSON.parse(err)).toMatchObject({ error: { code: "home_locked" } });
  expect(err).toContain(`process ${first.pid}`);
  expect(err).toContain(first.url);
  expect(readFileSync(join(place.home, "holder.json"), "utf8")).toBe(before);
  expect((await first.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe(ticks(40));
});

it("svc refuses a second control plane also while the first is stopped, which then continues and loses nothing", async () => {
  const first = await place.serve();
  const id = await first.submit({ entrypoint: "tick.py", args: ["60"] });
  await until(async () => (await first.job(id)).started_at !== null, "the run starts");
  first.signal("SIGSTOP");
  const { code, err } = await place.refused();
  expect(code).toBe(1);
  expect(err).toContain(`process ${first.pid}`);
  first.signal("SIGCONT");
  expect((await first.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe(ticks(60));
  const { steps } = await first.timeline(id);
  expect(steps.filter((s) => s.step === "stream")).toHaveLength(1);
});

it("svc starts at once after kill -9, without manual cleanup", async () => {
  const first = await place.serve();
  const id = await first.submit({ entrypoint: "tick.py", args: ["30"] });
  await first.kill();
  const second = await place.serve();
  await until(() => second.err.includes(id), "it says what it goes on with");
  expect((await second.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe(ticks(30));
});

it("an outdated control plane stops writing, and reports that", async () => {
  const stale = await place.serve();
  const id = await stale.submit({ entrypoint: "tick.py", args: ["2000"] });
  await until(() => place.log(id).length > 20, "some log is home");
  place.db((db) => db.exec("UPDATE fence SET epoch = epoch + 1"));
  await until(() => stale.err.includes("has taken over this home"), "it says that it was overtaken");
  const rows = (): unknown[] =>
    place.db((db) =>
      ["job", "journal", "effect", "attempt", "log", "log_cursor", "point", "feed"].map((table) =>
        db.prepare(`SELECT * FROM ${table}`).all(),
      ),
    );
  const before = { rows: rows(), files: hashes(join(place.home, "logs")) };
  const answers = [
    await stale.post("/jobs", { spec: { entrypoint: "tick.py", args: ["1"] } }),
    await stale.post(`/jobs/${id}/kill`, {}),
    await stale.post("/jobs/kill", { all: true }),
  ];
  for (const { status, body } of answers) expect([status, body["code"]]).toEqual([409, "stale_writer"]);
  expect({ rows: rows(), files: hashes(join(place.home, "logs")) }).toEqual(before);
  await stale.kill();
  const next = await place.serve();
  expect((await next.post(`/jobs/${id}/kill`, {})).status).toBe(202);
  expect((await next.ended(id)).status).toBe("cancelled");
  const log = place.log(id).toString();
  expect(ticks(2000).startsWith(log)).toBe(true);
  expect(place.refolds()).toBe(1);
});
