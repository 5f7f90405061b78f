// Fifty submissions at once under a day's limit, with real orders at a simulated provider, and the control plane killed in the middle of it.
// @module-tag needs/sshd

import { afterAll, beforeAll, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import type { HomeLimits } from "../../src/schemas/limits.ts";
import { makeLedger } from "../sim/providers/ledger.ts";
import { gpusOnOffer } from "../sim/providers/start.ts";
import { pause, Place, until, type Served } from "./harness.ts";
import { idleMachines } from "./idle-machines.ts";

/** So much that what all the runs cost together, on the slowest computer too, leaves room for the next: nothing waits for tomorrow. */
const LIMIT_USD = 80;
const BUDGET_USD = 10;
const AT_ONCE = LIMIT_USD / BUDGET_USD;
const QUIET_MS = 200;

const place = Place.own("it is killed");
let machines: Awaited<ReturnType<typeof idleMachines>>;
let most = 0;
let onMade: () => void = () => undefined;
const ledger = makeLedger((event) => {
  most = Math.max(most, ledger.alive().length);
  if (event === "made") onMade();
});

beforeAll(async () => {
  machines = await idleMachines(place, ledger);
});
afterAll(async () => {
  await place.close();
  await machines.close();
});

const submit = (served: Served, budget: number) =>
  served.post("/jobs", {
    spec: {
      entrypoint: "train.py",
      provider: "podhost",
      gpus: gpusOnOffer("podhost"),
      install: "none",
      budget_usd: budget,
      price_cap: 20,
      terminate_on_exit: false,
    },
  });

it(
  "Never pass the limit, wherever the kill strikes, and every run ends or is clearly refused",
  { timeout: 25 * DEADLINE_MS },
  async () => {
    place.file("train.py", "print('never runs')\n");
    let served = await place.serve();
    const put = await fetch(`${served.url}/v1/limits`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ usd_per_day: LIMIT_USD }),
    });
    expect(put.status).toBe(200);
    const made = new Promise<void>((resolve) => (onMade = resolve));
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => submit(served, n % 10 === 9 ? LIMIT_USD + 1 : BUDGET_USD)),
    );
    const refused = answers.filter(({ status }) => status !== 201);
    expect(refused.map(({ status, body }) => [status, body["code"]])).toEqual(
      Array.from({ length: 5 }, () => [400, "limit_never_fits"]),
    );
    const ids = answers.flatMap(({ status, body }) => (status === 201 ? [body["id"] as string] : []));
    await made;
    await served.kill();
    served = await place.serve();
    const isWithin = async (): Promise<void> => {
      const { usd_per_day: day } = await served.get<HomeLimits>("/v1/limits");
      expect(day.used + (day.reserved ?? Infinity)).toBeLessThanOrEqual(LIMIT_USD + 1e-6);
    };
    let kills = 0;
    let before = "";
    const isOver = async (): Promise<boolean> => {
      await isWithin();
      const { jobs } = await served.get<{ jobs: { id: string; status: string; note: { kind: string } | null }[] }>(
        "/jobs?limit=100&status=waiting,provisioning,awaiting_ssh,terminating",
      );
      for (const { status, note } of jobs) if (status === "waiting") expect(note?.kind).toBe("waiting_for_limits");
      const open = jobs.filter(({ status }) => status === "awaiting_ssh");
      await Promise.all(open.map(({ id }) => served.post(`/jobs/${id}/kill`, {})));
      // Once more, while some are let in and others end.
      if (open.length > 0 && ++kills === 2) {
        await served.kill();
        served = await place.serve();
      }
      // Asks again at once while something happens, and seldom while lost orders are waited for, which takes minutes.
      const seen = JSON.stringify(jobs.map(({ id, status }) => [id, status]));
      if (seen === before) await pause(QUIET_MS);
      before = seen;
      return jobs.length === 0;
    };
    await until(isOver, () => `all runs have ended: ${place.lastWords()}`, 20 * DEADLINE_MS);
    for (const id of ids) {
      const job = await served.job(id);
      // An order that a kill kept from leaving has a row of its own, which made no machine.
      const machines = job.machines.filter(({ id: machine }) => machine !== null);
      const states = new Set(job.machines.map(({ state }) => state));
      expect([job.status, machines.length, [...states]]).toEqual(["cancelled", 1, ["released"]]);
    }
    expect(ids).toHaveLength(45);
    expect(most).toBeLessThanOrEqual(AT_ONCE);
    expect(most).toBeGreaterThan(1);
    expect(ledger.alive()).toEqual([]);
    // One order for each run: nothing was bought twice.
    expect(ledger.all().filter(({ foreign }) => !foreign)).toHaveLength(45);
    expect(place.refolds()).toBe(45);
    expect((await served.get<HomeLimits>("/v1/limits")).waiting).toEqual([]);
  },
);
