// A failure before an order leaves this computer must say so: otherwise svc treats the machine as one that may exist
// and cost money.

import { expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import { REMOTE_PROVIDERS } from "../../src/providers/registry.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { CloudStub, PROJECT, ZONE } from "./cloudvm-stub.ts";

const serviceAccount = new CloudStub().keyFile({ token_uri: "https://127.0.0.1:1/token" });

test.each(["podhost", "market", "cloudvm"] as const)("%s: an SSH key that cannot be read", async (name) => {
  const unusable = new SvcError("ssh_key_unusable", { path: "/home/me/id", why: "it is not there" });
  const provider = REMOTE_PROVIDERS[name].open({
    credential: () => ({
      secret: name === "cloudvm" ? serviceAccount : "key",
      settings: { project: PROJECT, zone: ZONE },
    }),
    baseUrl: "https://127.0.0.1:1",
    publicKey: () => Promise.reject(unusable),
    access: () => expect.fail("nothing is reached here"),
    now: () => 0,
    pause: async () => undefined,
  });
  const spec = RunSpec.parse({ entrypoint: "train.py", provider: name, gpus: "L4:1" });
  const offer = { id: "1", priceMicro: 1, extra: { zone: ZONE, gpuTypeId: "NVIDIA L4" } };
  const order = { name: "svc-abcd1234-job000000001-n0-1", jobId: "job000000001", node: 0, spec };
  const thrown = await provider.create(offer, order).catch((e: unknown) => e);
  expect(thrown).toBe(unusable);
  expect(mayHaveBeenSent(thrown)).toBe(false);
});
