// @module-tag needs/sshd

import { PodhostProvider } from "../../src/providers/podhost/provider.ts";
import { FAULTS } from "../sim/providers/parts.ts";
import { PodhostSim } from "../sim/providers/podhost.ts";
import { call } from "../sim/harness-parts.ts";
import { conformance } from "./provider.ts";
import { simulatedWorld } from "./world.ts";

const keyOf = (sim: PodhostSim): string => sim.settings().env["PODHOST_API_KEY"] ?? "";

// Tests both APIs: the second one alone once the first is retired.
for (const retired of [false, true])
  conformance(
    "podhost",
    () =>
      simulatedWorld({
        start: (parts) => PodhostSim.start({ ...parts, retired }),
        provider: (remote) => new PodhostProvider(remote),
        spec: { provider: "podhost", gpus: "RTX4090" },
        // With the first API retired, the takeover cannot be tested.
        faults: FAULTS.filter((fault) => !retired || !fault.startsWith("api_")),
        addForeign: (sim, name) => void sim.pods.foreign(name),
        everythingShown: async (sim) => (await call("GET", `${sim.url}/v2/pods`, { key: keyOf(sim) })).text,
        clear: async (sim) => {
          sim.pods.hosts.heal();
          for (const pod of sim.pods.all.values()) await sim.pods.end(pod, "vanished");
        },
        credential: (sim, good) => ({ secret: good ? keyOf(sim) : "wrong", settings: {} }),
      }),
    retired ? "by its second API" : "by its first API",
  );
