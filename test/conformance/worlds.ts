// The worlds of the providers that more than one test builds.

import { CloudvmProvider } from "../../src/providers/cloudvm/provider.ts";
import { MarketProvider } from "../../src/providers/market/provider.ts";
import { CloudvmSim, type CloudvmOptions } from "../sim/providers/cloudvm.ts";
import { shownInstance } from "../sim/providers/cloudvm-shown.ts";
import { MarketSim, type MarketOptions } from "../sim/providers/market.ts";
import { FAULTS } from "../sim/providers/parts.ts";
import { call } from "../sim/harness-parts.ts";
import { simulatedWorld, type World } from "./world.ts";

const keyOf = (sim: MarketSim): string => sim.settings().env["MARKET_API_KEY"] ?? "";

export const marketWorld = (options: Partial<MarketOptions> = {}): Promise<World & { sim: MarketSim }> =>
  simulatedWorld({
    start: (parts) => MarketSim.start({ ...parts, accountKeys: [parts.publicKey], ...options }),
    provider: (remote) => new MarketProvider(remote),
    spec: { provider: "market", gpus: "RTX4090", price_cap: 2 },
    faults: FAULTS.filter((fault) => !fault.startsWith("api_")),
    addForeign: (sim, name) => void sim.addForeign(name),
    everythingShown: async (sim) => {
      const rows = [...sim.instances.all.values()].map((instance) => sim.instances.shown(instance));
      return JSON.stringify(rows) + (await call("GET", `${sim.url}/api/v1/instances/`, { key: keyOf(sim) })).text;
    },
    clear: async (sim) => {
      sim.instances.hosts.heal();
      for (const instance of sim.instances.all.values()) await sim.instances.remove(instance, "vanished");
    },
    credential: (sim, good) => ({ secret: good ? keyOf(sim) : "wrong", settings: {} }),
  });

export const cloudvmWorld = (
  settings: Record<string, string> = {},
  options: Pick<CloudvmOptions, "timings"> = {},
): Promise<World & { sim: CloudvmSim }> =>
  simulatedWorld({
    start: (parts) => CloudvmSim.start({ ...parts, ...options }),
    provider: (remote) => new CloudvmProvider(remote),
    spec: { provider: "cloudvm", gpus: "L4" },
    // Its API tells no prices.
    faults: FAULTS.filter(
      (fault) => !/^(price|api)_/.test(fault) && !["container_refused", "image_missing"].includes(fault),
    ),
    addForeign: (sim, name) => sim.addForeign(name),
    everythingShown: (sim) =>
      Promise.resolve(JSON.stringify([...sim.instances.all.values()].map((one) => shownInstance(sim.project, one)))),
    clear: async (sim) => {
      sim.instances.hosts.heal();
      for (const instance of sim.instances.all.values()) await sim.instances.vanish(instance);
    },
    credential: (sim, good) => {
      const block = sim.settings().credentials["providers"] as { cloudvm: Record<string, string | number> };
      const { service_account_json: _, ...rest } = block.cloudvm;
      return {
        // A wrong credential is that of another account of the same project.
        secret: JSON.stringify({ ...sim.serviceAccount(), ...(good ? {} : { client_email: "nobody@example.org" }) }),
        settings: {
          ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)])),
          ...settings,
        },
      };
    },
  });
