import { expect, test } from "vitest";
import { configure, listGpus, SvcError, vramFor } from "../../sdk/index.ts";

test("the local provider needs nothing", () => {
  configure({ registry: {}, use: [] });
  configure();
  configure({ registry: { credentials: [{ cred_id: "me", provider: "local" }] }, use: ["me"] });
});

test.each([
  [{ registri: {} }, "registri"],
  [{ registry: { credential: [] } }, "registry.credential"],
  [{ registry: { credentials: {} } }, "registry.credentials"],
  [{ registry: { credentials: [{ provider: "local" }] } }, "cred_id"],
  [{ registry: { credentials: [{ cred_id: "a", provider: "moon" }] } }, "provider"],
  [{ registry: { credentials: [{ cred_id: "a", provider: "local", secret_ref: "plain" }] } }, "secret_ref"],
  [
    {
      registry: {
        credentials: [
          { cred_id: "a", provider: "local" },
          { cred_id: "a", provider: "local" },
        ],
      },
    },
    "twice",
  ],
  [{ use: ["nobody"] }, "use[0]"],
])("refuses %j and names %s", (settings, named) => {
  expect(() => configure(settings as Parameters<typeof configure>[0])).toThrow(SvcError);
  expect(() => configure(settings as Parameters<typeof configure>[0])).toThrow(named);
});

test("the catalogue is there without a control plane", () => {
  expect(vramFor("A100")).toBe(80);
  expect(vramFor("a100")).toBe(80);
  expect(listGpus("notebook").map((g) => g.model)).toEqual(["A100", "V100", "T4"]);
  expect(() => vramFor("Z9000")).toThrow(/does not know Z9000/);
});
