// @module-tag needs/sshd

import { NotebookProvider } from "../../src/providers/notebook/provider.ts";
import { NotebookSim } from "../sim/providers/notebook.ts";
import { conformance } from "./provider.ts";
import { simulatedWorld } from "./world.ts";

conformance("notebook", () =>
  simulatedWorld({
    start: (parts) => NotebookSim.start({ ...parts, authorizedKeys: [parts.publicKey] }),
    provider: (remote) => new NotebookProvider(remote),
    spec: { provider: "notebook", gpus: "T4" },
    faults: [],
    everythingShown: () => Promise.resolve(""),
    clear: () => Promise.resolve(),
    credential: (sim) => ({
      secret: "",
      settings: { host: sim.tunnel.host, port: String(sim.tunnel.port), ssh_user: "root" },
    }),
    keyless: true,
  }),
);
