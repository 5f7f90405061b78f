// Options of a remote provider for tests of `check`, which reaches neither a machine nor the network.

import type { RemoteOptions } from "../../src/providers/remote.ts";

export const CHECK_OPTIONS: RemoteOptions = {
  credential: () => ({ secret: "", settings: { zone: "us-central1-a" } }),
  baseUrl: "http://127.0.0.1:1",
  publicKey: () => Promise.reject(new Error("no key is needed for a check")),
  access: () => {
    throw new Error("no machine is reached by a check");
  },
  now: () => 0,
  pause: () => Promise.resolve(),
};
