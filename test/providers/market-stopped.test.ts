// Machines on demand of the marketplace that the provider stops or holds in other states: whether another machine may take the order, and which price counts.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { machineRow, NAME, page, Stub } from "./market-stub.ts";

const signal = new AbortController().signal;
const stopped = { cur_state: "stopped", next_state: "stopped", intended_status: "stopped" };
const fresh: MachineHandle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 };
const entered: MachineHandle = { ...fresh, extra: { home: "/root" } };

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

/** Looks at the machine in each of these states, one after the other. */
async function lookAt(handle: MachineHandle, ...states: Record<string, unknown>[]) {
  let now: Record<string, unknown> = {};
  stub.routes["GET /api/v1/instances/"] = () => page([machineRow(now)]);
  const provider = stub.provider();
  let status = await provider.inspect(handle, signal);
  for (now of states) {
    stub.clock.ms += 10_000;
    status = await provider.inspect(handle, signal);
  }
  return status;
}

test.each([
  ["before its container came up", [{ ...stopped, actual_status: null }]],
  ["while its image was loading", [{ ...stopped, actual_status: "loading" }]],
  ["after its container had ended", [{ ...stopped, actual_status: "exited" }]],
  ["after its container came up", [{ actual_status: "running" }, { ...stopped, actual_status: "running" }]],
])("a machine that is stopped %s and before the first login is replaced", async (_when, states) => {
  expect(await lookAt(fresh, ...states)).toMatchObject({ phase: "broken", elsewhere: true });
});

test("a machine that is stopped after the first login had worked, so its host is not blamed", async () => {
  const status = await lookAt(entered, { actual_status: "running" }, { ...stopped, actual_status: "exited" });
  expect(status.phase).toBe("broken");
  expect(status).not.toHaveProperty("elsewhere");
});

test.each([
  [null, undefined],
  ["created", undefined],
  ["loading", undefined],
  ["rebooting", 430_000],
  ["recycling", 430_000],
  ["defragmenting", 430_000],
])(
  "a machine in the state %j may cost its full price, unless the provider bills its disk alone",
  async (state, price) => {
    const status = await lookAt(fresh, { actual_status: state });
    expect(status.phase).toBe("starting");
    expect(status.phase === "starting" && status.priceMicro).toBe(price);
    expect(status.phase === "starting" && status.cheaper).toBe(price === undefined ? true : undefined);
  },
);
