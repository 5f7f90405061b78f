// The setting `ssh_user`, for providers that do not say which user may log in.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { machineRow, NAME, page, spec, Stub } from "./market-stub.ts";
import { data, never, pod, podhostStub, specOf } from "./podhost-stub.ts";

const NO_NAME = "-oProxyCommand=x";
const CASES = [
  ["trainer", "trainer"],
  [" ", "root"],
  // The setting was changed after the order: svc must still be able to poll the machine.
  [NO_NAME, "root"],
] as const;

describe("podhost", () => {
  test.each(CASES)("ssh_user %j: the machine is entered as %s", async (ssh_user, user) => {
    const { provider } = await podhostStub(() => data({ myself: { pods: [pod()] } }), { ssh_user });
    const handle = {
      v: 1,
      provider: "podhost",
      id: String(pod()["id"]),
      name: "n",
      address: null,
      priceMicro: 1,
    } as const;
    expect(await provider.inspect(handle, never)).toMatchObject({ phase: "ready", ssh: [{ user }] });
  });

  test("an impossible user name is refused before any request", async () => {
    const stub = await podhostStub(() => data({}), { ssh_user: NO_NAME });
    await expect(stub.provider.listOffers(specOf(), never)).rejects.toMatchObject({ code: "credential_missing" });
    expect(stub.names()).toEqual([]);
  });
});

describe("market", () => {
  let stub: Stub;
  beforeEach(async () => {
    stub = await new Stub().start();
  });
  afterEach(() => stub.close());

  test.each(CASES)("ssh_user %j: the machine is entered as %s", async (ssh_user, user) => {
    stub.settings = { ssh_user };
    stub.routes["GET /api/v1/instances/"] = () => page([machineRow()]);
    const handle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 } as const;
    const status = await stub.provider().inspect(handle, never);
    expect(status.phase === "ready" && new Set(status.ssh?.map((way) => way.user))).toEqual(new Set([user]));
  });

  test("an impossible user name is refused before any request", async () => {
    stub.settings = { ssh_user: NO_NAME };
    await expect(stub.provider().listOffers(spec(), never)).rejects.toMatchObject({ code: "credential_missing" });
    expect(stub.calls).toEqual([]);
  });
});
