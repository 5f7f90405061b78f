// The wall clock may be set back, by hand or by a time server, or differ from the provider's: a record with a later
// time must not win until that time.

import { describe, expect, onTestFinished, test } from "vitest";
import { Recent } from "../../src/providers/recent.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { RateLimiter } from "../../src/providers/rate-limiter.ts";
import { machineRow, NAME, page, Stub } from "./market-stub.ts";
import { data, pod, podhostStub } from "./podhost-stub.ts";

const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

test("a rate limit delays no longer than before", async () => {
  let now = 10 * HOUR_MS;
  const waits: number[] = [];
  const pause = async (ms: number) => void waits.push(ms);
  const limiter = new RateLimiter({ provider: "market", minIntervalMs: 2_000, now: () => now, pause });
  await limiter.slot();
  now -= HOUR_MS;
  await limiter.slot();
  limiter.hold(8_000);
  now -= HOUR_MS;
  await limiter.slot();
  expect(waits).toEqual([2_000, 8_000]);
});

test("an offer that is avoided for a while becomes available again", () => {
  let now = 10 * HOUR_MS;
  const recent = new Recent(15_000, () => now);
  recent.add("offer");
  expect(recent.has("offer")).toBe(true);
  now -= HOUR_MS;
  expect(recent.has("offer")).toBe(false);
});

describe("market", () => {
  const HANDLE: MachineHandle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 };

  test("a machine is polled, ended and proven gone at once", async () => {
    const stub = await new Stub().start();
    onTestFinished(() => stub.close());
    let rows = [machineRow()];
    stub.routes["GET /api/v1/instances/"] = () => page(rows);
    stub.routes["GET /api/v0/instances/9001/"] = () => ({ json: { instances: rows[0] ?? null } });
    stub.routes["DELETE /api/v0/instances/9001/"] = () => {
      rows = [];
      return { json: { success: true } };
    };
    const provider = stub.provider();
    expect(await provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready" });
    stub.clock.ms -= HOUR_MS;
    rows = [machineRow({ actual_status: "exited" })];
    expect(await provider.inspect(HANDLE, never)).toMatchObject({ phase: "broken" });
    stub.clock.ms -= HOUR_MS;
    const before = stub.clock.ms;
    await provider.terminate(HANDLE, never);
    expect(await provider.inspect(HANDLE, never)).toEqual({ phase: "gone" });
    expect(stub.clock.ms - before).toBeLessThan(10_000);
  });

  test("a clock set back during a listing does not delay the second poll by hours", async () => {
    const stub = await new Stub().start();
    onTestFinished(() => stub.close());
    stub.routes["GET /api/v1/instances/"] = () => {
      stub.clock.ms -= HOUR_MS;
      return page([]);
    };
    stub.routes["GET /api/v0/instances/9001/"] = () => ({ json: { instances: null } });
    const before = stub.clock.ms - HOUR_MS;
    expect(await stub.provider().inspect(HANDLE, never)).toEqual({ phase: "gone" });
    expect(stub.clock.ms - before).toBeLessThan(10_000);
  });

  test("a silent host gets no more time", async () => {
    const stub = await new Stub().start();
    onTestFinished(() => stub.close());
    const provider = stub.provider();
    const look = (actual_status: string) => {
      stub.routes["GET /api/v1/instances/"] = () => page([machineRow({ actual_status })]);
      return provider.inspect(HANDLE, never);
    };
    expect(await look("running")).toMatchObject({ phase: "ready" });
    stub.clock.ms += 5_000;
    expect(await look("offline")).toMatchObject({ phase: "starting" });
    stub.clock.ms -= HOUR_MS;
    expect(await look("offline")).toMatchObject({ phase: "starting" });
    stub.clock.ms += 100_000;
    expect(await look("offline")).toMatchObject({ phase: "broken" });
  });
});

test("podhost: an earlier list does not answer a new poll", async () => {
  const HANDLE: MachineHandle = {
    v: 1,
    provider: "podhost",
    id: "q7r2vd0kx1",
    name: "svc-abc-job1-n0-1",
    address: null,
    priceMicro: 1,
    extra: { createdAt: "2026-06-01T01:00:00Z" },
  };
  let pods = [pod()];
  const stub = await podhostStub(({ root }) => (root === "pod" ? data({ pod: null }) : data({ myself: { pods } })));
  expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready" });
  stub.clock.now -= HOUR_MS;
  pods = [];
  expect(await stub.provider.inspect(HANDLE, never)).toEqual({ phase: "gone" });
});

test("podhost: a machine that was found again on a provider whose clock is ahead can still be gone", async () => {
  let pods = [pod({ createdAt: "2026-06-02T12:00:00Z" })];
  const answer = ({ root }: { root: string }) => (root === "pod" ? data({ pod: null }) : data({ myself: { pods } }));
  const [handle] = await (await podhostStub(answer)).provider.listOwned("svc-", never);
  pods = [];
  // After a restart.
  const stub = await podhostStub(answer);
  stub.clock.now += 3 * 60_000;
  expect(await stub.provider.inspect(handle!, never)).toEqual({ phase: "gone" });
});
