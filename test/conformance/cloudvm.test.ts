import { CloudvmProvider } from "../../src/providers/cloudvm/provider.ts";
import { CloudvmSim } from "../sim/providers/cloudvm.ts";
import { shownInstance } from "../sim/providers/cloudvm-shown.ts";
import { FAULTS } from "../sim/providers/parts.ts";
import { conformance } from "./provider.ts";
import { simulatedWorld } from "./world.ts";

conformance("cloudvm", () =>
  simulatedWorld({
    start: (parts) => CloudvmSim.start(parts),
    provider: (remote) => new CloudvmProvider(remote),
    spec: { provider: "cloudvm", gpus: "L4" },
    faults: FAULTS.filter((fault) => !fault.startsWith("price_")),
    addForeign: (sim, name) => sim.addForeign(name),
    everythingShown: (sim) =>
      Promise.resolve(JSON.stringify([...sim.instances.all.values()].map((one) => shownInstance(sim.project, one)))),
    clear: async (sim) => {
      for (const instance of [...sim.instances.all.values()]) await sim.instances.vanish(instance);
    },
    credential: (sim, good) => ({
      // Another account of the same project.
      secret: JSON.stringify({ ...sim.serviceAccount(), ...(good ? {} : { client_email: "nobody@example.org" }) }),
      settings: { project: sim.project, zone: sim.zone, ssh_port: String(sim.instances.sshPort) },
    }),
  }),
);
