// Clocks that jump and processes that are stopped. Wall time is faked for the control plane (the library makes Python's
// sleep fail); the monotonic clock is left alone, as when a user sets the clock.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { FAKETIME } from "../needs.ts";
import { Place, until, type Served } from "./harness.ts";

const faked = (clock: string): NodeJS.ProcessEnv => ({
  LD_PRELOAD: FAKETIME,
  FAKETIME_TIMESTAMP_FILE: clock,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
  // Only the control plane has the false clock; its child processes get the true one.
  NODE_OPTIONS: "--import=data:text/javascript,delete%20process.env.LD_PRELOAD",
});
/** The error of the control plane's wall clock, in days. */
const daysOff = async (served: Served): Promise<number> => {
  const date = (await fetch(`${served.url}/v1/health`)).headers.get("date");
  return Math.round((Date.parse(String(date)) - Date.now()) / 86_400_000);
};

let place: Place;
beforeEach(() => {
  place = Place.own("each has a clock of its own, or is stopped");
  place.file(
    "tick.py",
    'import os, time, sys\nfor i in range(int(sys.argv[1])):\n    print(i, flush=True)\n    name = f"printed.{sys.argv[1]}"; open(name + ".new", "w").write(str(i)); os.replace(name + ".new", name)\n    time.sleep(0.05)\n',
  );
});
afterEach(() => place.close());

const ticks = (n: number): string => Array.from({ length: n }, (_, i) => `${i}\n`).join("");

describe("wall clock jumps", { tags: "needs/faketime" }, () => {
  it.each([
    ["a day forth", 1],
    ["a day back", -1],
  ])("%s: it ends no run, no time is negative, and the limit fires when it should", async (_, days) => {
    const clock = join(place.root, "clock");
    writeFileSync(clock, "+0");
    const env = faked(clock);
    const served = await place.serve({ env });
    const now = Date.now();
    const spec = { entrypoint: "tick.py", args: ["100"], max_runtime_minutes: 600, idle_timeout_minutes: 0.1 };
    const id = await served.submit(spec);
    const limited = await served.submit({ entrypoint: "tick.py", args: ["100000"], max_runtime_minutes: 0.15 });
    await until(() => place.log(id).length > 10 && place.log(limited).length > 10, "both runs write");
    const at = performance.now();
    writeFileSync(clock, days > 0 ? "+1d" : "-1d");
    await until(async () => (await daysOff(served)) === days, "the clock has jumped", DEADLINE_MS);
    const job = await served.ended(id);
    expect([job.status, job.error]).toEqual(["succeeded", null]);
    expect(place.log(id).toString()).toBe(ticks(100));
    const over = await served.ended(limited);
    expect([over.status, over.error?.code]).toEqual(["timed_out", "run_timed_out"]);
    expect(performance.now() - at).toBeGreaterThan(4_000);
    for (const { id: which, cost_usd, started_at, ended_at, created_at } of [job, over]) {
      expect(cost_usd).toBeGreaterThanOrEqual(0);
      const [a, b, c] = [created_at, started_at, ended_at].map((t) => Date.parse(String(t))) as [
        number,
        number,
        number,
      ];
      expect(a).toBeLessThanOrEqual(b);
      expect(b).toBeLessThanOrEqual(c);
      expect(Math.abs(c - now), "the control plane's own time goes on as before").toBeLessThan(120_000);
      for (const step of (await served.timeline(which)).steps) {
        expect(Date.parse(String(step.ended_at))).toBeGreaterThanOrEqual(Date.parse(String(step.started_at)));
      }
    }
    expect(place.refolds()).toBe(2);
  });

  it("a restart after the jump follows running runs, and nothing is negative", async () => {
    const clock = join(place.root, "clock");
    writeFileSync(clock, "+0");
    const env = faked(clock);
    const first = await place.serve({ env });
    const id = await first.submit({ entrypoint: "tick.py", args: ["120"] });
    await until(() => place.log(id).length > 10, "it writes");
    await first.kill();
    writeFileSync(clock, "-1d");
    const second = await place.serve({ env });
    expect(await daysOff(second)).toBe(-1);
    const job = await second.ended(id);
    expect(job.status).toBe("succeeded");
    expect(job.cost_usd).toBeGreaterThanOrEqual(0);
    expect(place.log(id).toString()).toBe(ticks(120));
    expect(place.refolds()).toBe(1);
  });
});

it("a control plane that is stopped for some seconds loses nothing and ends nothing", async () => {
  const served = await place.serve();
  const spec = { entrypoint: "tick.py", args: ["250"], idle_timeout_minutes: 0.05, max_runtime_minutes: 5 };
  const id = await served.submit(spec);
  await until(() => place.log(id).length > 10, "it writes");
  const printed = (): number => Number(readFileSync(join(place.project, "printed.250"), "utf8"));
  for (let i = 0; i < 2; i++) {
    served.signal("SIGSTOP");
    const goal = Math.min(printed() + 50, 249);
    await until(() => printed() >= goal, "the run prints 50 lines meanwhile");
    served.signal("SIGCONT");
    await until(() => place.log(id).includes(`\n${goal}\n`), "the control plane has read them");
  }
  const job = await served.ended(id);
  expect([job.status, job.error]).toEqual(["succeeded", null]);
  expect(place.log(id).toString()).toBe(ticks(250));
  const { steps } = await served.timeline(id);
  expect(steps.filter((s) => s.step === "stream")).toHaveLength(1);
});
