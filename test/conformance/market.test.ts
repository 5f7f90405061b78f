import { MarketProvider } from "../../src/providers/market/provider.ts";
import { FAULTS } from "../sim/providers/parts.ts";
import { MarketSim } from "../sim/providers/market.ts";
import { call } from "../sim/harness-parts.ts";
import { conformance } from "./provider.ts";
import { simulatedWorld } from "./world.ts";

conformance("market", () =>
  simulatedWorld({
    start: (parts) => MarketSim.start({ ...parts, accountKeys: [parts.publicKey] }),
    provider: (remote) => new MarketProvider(remote),
    spec: { provider: "market", gpus: "RTX4090", price_cap: 2 },
    faults: FAULTS,
    addForeign: (sim, name) => void sim.addForeign(name),
    everythingShown: async (sim) =>
      (await call("GET", `${sim.url}/api/v1/instances/`, { key: sim.settings().env["MARKET_API_KEY"] ?? "" })).text,
    clear: async (sim) => {
      for (const instance of [...sim.instances.all.values()]) await sim.instances.remove(instance, "vanished");
    },
    credential: (sim, good) => ({
      secret: good ? (sim.settings().env["MARKET_API_KEY"] ?? "") : "wrong",
      settings: {},
    }),
  }),
);
