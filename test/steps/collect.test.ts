// The collect step of a new control plane: what it does for a machine that an earlier one rented.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { Guard, MachineAccess } from "../../src/providers/host.ts";
import { collectStep } from "../../src/steps/collect.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import { removeHomes } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
let calls: string[];
/** The answer of both runs about their status. */
let status: () => Promise<null>;
beforeEach(async () => {
  [rent, calls, status] = [await Rent.open(), [], () => Promise.resolve(null)];
  await rent.h.create("job1");
  const name = rent.name(1);
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  const extra = { home: "/root" };
  await rent.ledger.held(name, { v: 1, provider: "podhost", id: "m1", name, address: null, priceMicro: 1, extra });
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

function services(): RunServices {
  const access = {
    inPlace: false,
    layout: () => ({ checkpoints: "/root/checkpoints" }),
    keep: (guard: Guard) => Promise.resolve(void calls.push(`keep ${guard.graceSeconds}`)),
    host: () => ({ status: () => status() }),
  } as unknown as MachineAccess;
  rent.cloud.access = () => access;
  const scan = () => {
    calls.push("scan");
    return Promise.resolve({ saved: [], skipped: [], pending: [], noRoom: [] });
  };
  return {
    ...rent.ports,
    guard: () => ({ graceSeconds: 1_800, selfEnd: "true", stopSeconds: 10 }),
    secrecy: () => ({ mark: "mark", redactor: new Redactor([]) }),
    collector: () => ({ scan, atHome: () => Promise.resolve([]) }),
  } as unknown as RunServices;
}

test("Its machine's lease is renewed before the downloads, which may last longer than the lease", async () => {
  await rent.run(() => collectStep(services()));
  expect(calls).toEqual(["keep 1800", "scan"]);
});

test("A log that cannot be taken does not keep the checkpoints from being downloaded, and no retry at once repeats that", async () => {
  const step = collectStep(services());
  const attempt = () => rent.run(() => step);
  const failure = { code: "runner_failed", message: expect.stringContaining("no log") };
  status = () => Promise.reject(new SvcError("runner_failed", { why: "no log" }));
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls).toEqual(["keep 1800", "scan"]);
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls).toEqual(["keep 1800", "scan", "keep 1800"]);
  await rent.h.clock.advance(60_000);
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls.filter((call) => call === "scan")).toHaveLength(2);
  status = () => Promise.resolve(null);
  await attempt();
  expect(calls.filter((call) => call === "scan")).toHaveLength(3);
});
