// A machine that cannot be reached: the provider's answer decides, and a missing answer decides nothing.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../../src/errors/index.ts";
import type { MachineHandle, MachineStatus, Provider } from "../../../src/providers/provider.ts";
import { UnreadableSecrets } from "../../../src/steps/launch/run-secrets.ts";
import { isVerdict, reaching, type HeldMachine } from "../../../src/steps/rental/held-machine.ts";
import type { StepContext } from "../../../src/steps/step.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => void rent.h.store.db.close());
afterAll(removeHomes);

const unreachable = new SvcError("ssh_unreachable", { machine: "m", why: "the connection was cut" });

async function whatEnds(
  look: Rent["cloud"]["inspect"],
  extra: MachineHandle["extra"] = {},
  failure: SvcError = unreachable,
): Promise<unknown> {
  const name = rent.name(1);
  const handle: MachineHandle = { v: 1, provider: "podhost", id: "m1", name, address: null, priceMicro: 1, extra };
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  await rent.ledger.held(name, handle);
  rent.cloud.inspect = look;
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const access = { inPlace: false } as HeldMachine["access"];
  return reaching(rent.ports, context, { provider: rent.cloud, handle, access }, () => Promise.reject(failure)).catch(
    (e: unknown) => e,
  );
}

test.each([
  new SvcError("credential_missing", { provider: "podhost", missing: "PODHOST_API_KEY" }),
  new SvcError("credential_refused", { provider: "podhost", why: "status 401" }),
  new SvcError("provider_unreachable", { provider: "podhost", why: "no network" }),
])("the provider cannot be reached ($code): the step is retried", async (no) => {
  expect(await whatEnds(() => Promise.reject(no))).toBe(unreachable);
});

const keyless = [
  new SvcError("ssh_key_unusable", { path: "/home/me/id", why: "the SSH agent does not hold it: run ssh-add" }),
  new SvcError("credentials_unusable", { why: "line 3 is not JSON" }),
  new SvcError("credential_missing", { provider: "podhost", missing: "PODHOST_API_KEY" }),
];

test.each(keyless)(
  "svc has no key for the login now ($code): the step is retried, and the run continues",
  async (no) => {
    const end = await whatEnds(() => Promise.resolve({ phase: "ready", address: null }), { home: "/root" }, no);
    expect(end).toMatchObject({ code: no.code, message: no.message, retry: "backoff" });
  },
);

test.each(keyless)("svc has no key for the login ($code), and the machine is gone: the run ends", async (no) => {
  const end = await whatEnds(() => Promise.resolve({ phase: "gone" }), { home: "/root" }, no);
  expect(end).toMatchObject({ code: "machine_lost" });
});

test("the home cannot be written for a while: the step is retried, and the provider is not asked", async () => {
  const failure = new SvcError("home_unusable", { home: "/h", why: "may not be written by you" });
  const end = await whatEnds(() => Promise.resolve({ phase: "gone" }), { home: "/root" }, failure);
  expect(end).toMatchObject({ code: "home_unusable", retry: "backoff" });
});

test("the secrets of its run cannot be read: the error keeps its class, so that its words are not masked", async () => {
  const failure = new UnreadableSecrets("home_unusable", { home: "/h", why: "holds secrets" }, { retry: "backoff" });
  expect(await whatEnds(() => Promise.resolve({ phase: "gone" }), { home: "/root" }, failure)).toBe(failure);
});

test("the provider says that it is gone", async () => {
  const end = await whatEnds(() => Promise.resolve({ phase: "gone" }));
  expect(end).toMatchObject({ code: "machine_lost" });
});

test.each([
  ["that was logged in to", { home: "/root" }, unreachable, ["unreachable", "look"]],
  ["that never let svc in", {}, unreachable, ["look"]],
  [
    "that refuses the key",
    { home: "/root" },
    new SvcError("ssh_refused", { machine: "m", user: "root", why: "publickey" }),
    ["look"],
  ],
])("the provider hears of the failed connection to a machine %s", async (_, extra, failure, order) => {
  const calls: string[] = [];
  const cloud: Provider = rent.cloud;
  cloud.unreachable = () => void calls.push("unreachable");
  const look = () => {
    calls.push("look");
    return Promise.resolve({ phase: "starting", why: "it is missed" } as const);
  };
  expect(await whatEnds(look, extra, failure)).toBe(failure);
  expect(calls).toEqual(order);
});

test.each<[string, MachineStatus, string, object]>([
  ["and it is gone", { phase: "gone", why: "zone reclaim", preempted: true }, "machine_preempted", { gone: true }],
  ["and it is stopped", { phase: "broken", why: "outbid", preempted: true }, "machine_preempted", { why: "outbid" }],
  [
    "before it ever came up",
    { phase: "broken", why: "outbid", preempted: true, elsewhere: true },
    "machine_broken",
    { elsewhere: true },
  ],
])("the provider took it back, %s", async (_when, status, code, data) => {
  const end = await whatEnds(() => Promise.resolve(status));
  expect(end).toMatchObject({ code, data });
  expect(isVerdict(end)).toBe(true);
});

describe("a machine whose provider cannot be asked", () => {
  const turnedAway = new SvcError("ssh_unreachable", { machine: "m", why: "connection refused", closed: true });
  const minutes = 60_000;

  /** Runs attempts one after the other, each `gapMs` after the one before; returns the code of the last error. */
  async function tries(gapMs: number, thrown: readonly SvcError[]): Promise<string> {
    Object.assign(rent.cloud.info.capabilities, { owns_machine: false });
    rent.cloud.inspect = () => Promise.reject(new SvcError("provider_error", { provider: "notebook", why: "no API" }));
    const handle = { v: 1, provider: "notebook", id: "m1", name: rent.name(1), address: null, priceMicro: 0 } as const;
    const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
    const held = { provider: rent.cloud, handle, access: { inPlace: false } } as unknown as HeldMachine;
    let code = "";
    for (const one of thrown) {
      const end = await reaching(rent.ports, context, held, () => Promise.reject(one)).catch((e: unknown) => e);
      code = (end as SvcError).code;
      await rent.h.clock.advance(gapMs);
    }
    return code;
  }
  const times = (n: number, error: SvcError): SvcError[] => Array.from({ length: n }, () => error);

  test("has no runtime any more when its tunnel refused every login for five minutes", async () => {
    expect(await tries(minutes, times(5, turnedAway))).toBe("ssh_unreachable");
    expect(await tries(minutes, times(1, turnedAway))).toBe("runtime_gone");
  });

  test("may still exist if nothing answers, or if this computer slept", async () => {
    expect(await tries(minutes, times(30, unreachable))).toBe("ssh_unreachable");
    expect(await tries(60 * minutes, times(10, turnedAway))).toBe("ssh_unreachable");
    expect(await tries(minutes, [...times(4, turnedAway), unreachable, ...times(4, turnedAway)])).toBe(
      "ssh_unreachable",
    );
  });
});
