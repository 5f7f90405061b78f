// podhost: a machine without a usable id, and a control plane without a key or with a changed one.

import { describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { PodhostProvider } from "../../src/providers/podhost/provider.ts";
import { selfEndScript } from "../../src/providers/podhost/start-command.ts";
import { data, KEY, listing, never, orderOf, pod, podhostStub, PUBLIC_KEY, specOf, thrownBy } from "./podhost-stub.ts";

const NAME = "svc-abc-job1-n0-1";
describe("a pod with an unusable id", () => {
  test.each(["../../x", "$(touch x)", "-rf", "a\nb"])(
    "%j: held by its name, used for nothing, and ended",
    async (id) => {
      let pods = [pod({ id }), pod({ id: "other", name: "theirs" })];
      const stub = await podhostStub((asked) => {
        if (asked.root === "podTerminate")
          pods = pods.filter((each) => each["id"] !== asked.body.variables.input.podId);
        return listing(...pods)(asked);
      });
      const owned = await stub.provider.listOwned("svc-", never);
      expect(owned.map(({ name }) => name)).toEqual([NAME]);
      expect(await stub.provider.inspect(owned[0]!, never)).toMatchObject({ phase: "broken" });
      await stub.provider.terminate(owned[0]!, never);
      expect(await stub.provider.inspect(owned[0]!, never)).toEqual({ phase: "gone" });
      expect(pods.map((each) => each["id"])).toEqual(["other"]);
    },
  );
});

test("the way in which a machine ends itself is known without a credential, too: a run continues while it is missing", () => {
  const none = (): never => {
    throw new SvcError("credential_missing", { provider: "podhost", missing: "PODHOST_API_KEY" });
  };
  const publicKey = () => Promise.resolve(PUBLIC_KEY);
  const pause = () => Promise.resolve();
  const baseUrl = "http://127.0.0.1:9";
  const provider = new PodhostProvider({ credential: none, baseUrl, publicKey, access: none, now: Date.now, pause });
  expect(provider.selfEnd()).toBe(selfEndScript(baseUrl, false));
});

test.each([
  ["H10O:2", 8, /rents out no GPU of that name; near it: H100/],
  ["H100:8", 4, /at most 4 of them on one machine/],
])("%s, which the provider never has, is refused at once, with the reason", async (gpus, maxGpuCount, words) => {
  const types = ["NVIDIA H100 PCIe", "NVIDIA A40"].map((id) => ({ id, memoryInGb: 80, securePrice: 2, maxGpuCount }));
  const stub = await podhostStub(({ body }) =>
    data({ gpuTypes: types.filter(({ id }) => id === (body.variables.filter?.id ?? id)) }),
  );
  const refused = await thrownBy(stub.provider.listOffers(specOf({ gpus }), never));
  expect([refused.code, refused.retry]).toEqual(["gpus_unsupported", "never"]);
  expect(refused.message).toMatch(words);
});

test.each(["graphql", "rest"])("%s: what comes with a 403 is one short line without the key", async (api) => {
  const words = `${KEY} may not\u001b[2J\n${"x".repeat(1_000)}`;
  const stub = await podhostStub(() => ({ status: 403, json: { errors: [{ message: words }] } }), { api });
  const error = await thrownBy(stub.provider.account(never));
  expect(error.code).toBe("credential_refused");
  expect(error.message).toContain("may not");
  expect(error.message).not.toContain(KEY);
  expect(error.message).not.toMatch(/[\n\u001b]/);
  expect(error.message.length).toBeLessThan(600);
});

test.each<[string, string | null]>([
  ["taken away", null],
  ["changed", "another"],
])(
  "a key that is %s while a create call is on its way: what was made is looked for, the key is not shown",
  async (_, secret) => {
    for (const api of ["graphql", "rest"]) {
      const stub = await podhostStub(
        () => {
          stub.secret = secret;
          return { status: 502, json: { title: `no such key: ${KEY}`, errors: [{ message: KEY }] } };
        },
        { api },
      );
      const offer = { id: "offer", priceMicro: 1, extra: { gpuTypeId: "NVIDIA L4", gpuCount: "1", cloud: "SECURE" } };
      const error = await thrownBy(stub.provider.create(offer, orderOf()));
      expect(error.code).toBe("outcome_unknown");
      expect(`${error.message} ${String(error.cause)}`).not.toContain(KEY);
      expect(stub.asked).toHaveLength(1);
    }
  },
);
