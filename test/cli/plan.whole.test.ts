// `svc plan` while a provider's offers are not known yet: the command prints once, so it waits and asks again.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { serve } from "../api/double.ts";
import { OFFERS_KNOWN_MS } from "../../src/domain/unknown-offers.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import type { Plan } from "../../src/schemas/plan.ts";
import { gathered } from "../gathered.ts";
import { PROGRAM } from "../program.ts";
import { CLI, until } from "./serving.ts";

const candidate = (n: number, isKnown: boolean): Plan["candidates"][number] => ({
  candidate: n,
  provider: "market",
  gpus: "H100",
  region: null,
  spot: "never",
  price_cap: null,
  offers_total: isKnown ? 3 : 0,
  price_per_hour_usd: isKnown ? 2 + n : null,
  refusal: isKnown
    ? null
    : { code: "offers_unknown", message: "market is still searching.", hint: "Ask again.", field: null },
  answer_seconds: null,
  expected_start: null,
  history: null,
});

/** A control plane that knows the offers of the second candidate from the second question on; `svc plan` asks it. */
async function planning() {
  const { plane, server } = await serve();
  const asked: number[] = [];
  const plain = plane.plan.bind(plane);
  plane.plan = async (body) => {
    asked.push(performance.now());
    const isKnown = asked.length > 1;
    return {
      ...(await plain(body)),
      candidates: [candidate(0, true), candidate(1, isKnown)],
      order: isKnown ? [0, 1] : [0],
    };
  };
  const about = { url: server.url, pid: process.pid, started_at: new Date().toISOString() };
  const file = { ...about, installation_id: plane.installationId };
  writeFileSync(homeLayout.controlPlane(plane.home), JSON.stringify(file), { mode: 0o600 });
  const env = { ...process.env, ...PROGRAM, SVC_HOME: plane.home };
  const args = ["plan", "train.py", "--candidate", "market/H100", "--candidate", "market/H200", "--json"];
  const child = spawn(CLI, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  return { asked, child, ...gathered(child) };
}

const refusals = (out: string): (string | undefined)[] =>
  (JSON.parse(out) as Plan).candidates.map(({ refusal }) => refusal?.code);

it("svc plan asks again when the offers are known, and prints one plan", async () => {
  const { asked, exited, out, err } = await planning();
  expect(await exited, err()).toBe(0);
  expect(refusals(out())).toEqual([undefined, undefined]);
  expect(asked).toHaveLength(2);
  // A timer may fire a little early by this clock.
  expect(asked[1]! - asked[0]!).toBeGreaterThan(OFFERS_KNOWN_MS - 50);
});

it("svc plan prints the known offers when it is interrupted during the wait", async () => {
  const { asked, child, exited, out, err } = await planning();
  await until(() => asked.length === 1, "the first plan");
  child.kill("SIGINT");
  await exited;
  expect(refusals(out()), err()).toEqual([undefined, "offers_unknown"]);
  expect(asked).toHaveLength(1);
});
