// `svc limits`, with and without a control plane.

import { afterAll, expect, it } from "vitest";
import { Workplace } from "./serving.ts";

const at = new Workplace();
afterAll(() => at.close());

it("Shows, sets and clears limits without a control plane and through a running one", async () => {
  expect(at.svc("limits").code).toBe(0);
  const set = at.svc("limits", "set", "usd_per_day=$20", "max_gpus=8");
  expect([set.code, set.out]).toEqual([
    0,
    "usd_per_day\t$20.00\t$0.00\t$0.00\t$20.00\nusd_per_month\tnone\t$0.00\t$0.00\t-\nusd_per_hour\tnone\t$0.00\t$0.00\t-\nmax_machines\tnone\t0\t0\t-\nmax_gpus\t8\t0\t0\t8\n",
  ]);
  await at.serve();
  const cleared = at.svc("limits", "clear", "usd_per_day", "--json");
  expect(JSON.parse(cleared.out)).toMatchObject({ usd_per_day: { limit: null }, max_gpus: { limit: 8 }, waiting: [] });
  expect(at.svc("limits", "set", "max_machines=3").out).toContain("max_machines\t3\t0\t0\t3\n");
  expect(JSON.parse(at.svc("limits", "--json").out)).toMatchObject({ max_machines: { limit: 3, used: 0, left: 3 } });
  expect(at.svc("limits", "clear").out).not.toMatch(/\t[38]\t/);
});

it.each([
  [["set"], /needs a limit/],
  [["set", "usd_per_day=-1"], /usd_per_day.*0 or more/],
  [["set", "usd_per_day=NaN"], /is not LIMIT=NUMBER/],
  [["set", "usd_per_week=1"], /no limit usd_per_week/],
  [["set", "max_gpus=1.5"], /max_gpus.*whole number/],
  [["raise"], /Unknown action/],
])("%j is wrong usage, says why, and changes nothing", (args, why) => {
  const { code, err } = at.svc("limits", ...args);
  expect([code, err]).toEqual([2, expect.stringMatching(why)]);
});
