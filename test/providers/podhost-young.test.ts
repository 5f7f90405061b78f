// podhost: a new pod may be missing from answers for some seconds.

import { expect, test } from "vitest";
import { data, errors, HANDLE, listing, never, pod, podhostStub } from "./podhost-stub.ts";

const REACHED = { address: "203.0.113.9", ssh: [{ host: "203.0.113.9", port: 22, user: "root" }] };

test.each([false, true])(
  "a young pod that was seen (by another process: %s) is gone once it has been missing for a minute",
  async (restarted) => {
    const stub = await podhostStub(listing(pod()));
    const extra = { createdAt: new Date(stub.clock.now).toISOString() };
    const young = { ...HANDLE, extra, ...(restarted ? REACHED : {}) };
    if (!restarted) expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "ready" });
    stub.script = listing();
    for (let look = 0; look < 3; look++) {
      stub.clock.now += 12_000;
      const why = expect.stringContaining("any more") as string;
      expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "starting", why });
    }
    stub.script = listing(pod());
    stub.clock.now += 5_000;
    expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "ready" });
    stub.script = listing();
    stub.clock.now += 5_000;
    expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "starting" });
    stub.clock.now += 60_000;
    expect(await stub.provider.inspect(young, never)).toEqual({ phase: "gone" });
  },
);

test("a young pod that svc cannot reach any more is gone once it has been missing for 20 s", async () => {
  const stub = await podhostStub(listing(pod()));
  const young = { ...HANDLE, extra: { createdAt: new Date(stub.clock.now).toISOString() } };
  expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "ready" });
  stub.script = listing();
  const looked: string[] = [];
  for (let look = 0; look < 4; look++) {
    stub.clock.now += 5_000;
    stub.provider.unreachable(young);
    looked.push((await stub.provider.inspect(young, never)).phase);
  }
  expect(looked).toEqual(["starting", "starting", "starting", "gone"]);
});

test("a young pod that another process reached is gone once its end was accepted, or the answer to that was lost", async () => {
  for (const [answer, phase] of [
    [data({ podTerminate: null }), "gone"],
    [{ cut: true }, "gone"],
    [errors("pod not found to terminate"), "starting"],
  ] as const) {
    const stub = await podhostStub((asked) => (asked.root === "podTerminate" ? answer : listing()(asked)));
    const young = { ...HANDLE, ...REACHED, extra: { createdAt: new Date(stub.clock.now).toISOString() } };
    await stub.provider.terminate(young, never).catch(() => undefined);
    expect(await stub.provider.inspect(young, never)).toMatchObject({ phase });
  }
});

test("a pod that was found a moment ago is young, whatever time the provider reports", async () => {
  const stub = await podhostStub(listing(pod({ createdAt: "2026-06-01T03:00:00Z" })));
  const [found] = await stub.provider.listOwned("svc-", never);
  stub.script = listing();
  stub.clock.now += 5_000;
  expect(await stub.provider.inspect(found!, never)).toMatchObject({ phase: "starting" });
});
