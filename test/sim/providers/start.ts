// Starts a simulated provider by name; only the one that is asked for is loaded.

import type { ProviderSim, SimParts } from "./parts.ts";

export interface StartOptions extends SimParts {
  /** 0 or absent: any free one. */
  port?: number;
  /** For the notebook, whose runtime is there before anybody orders anything: who may log in. */
  authorizedKeys?: readonly string[];
  /** A line for every call of the API. */
  onCall?(line: string): void;
}

export const SIM_NAMES = ["podhost", "market", "cloudvm", "notebook"] as const;
export type SimName = (typeof SIM_NAMES)[number];

export async function startSim(name: SimName, options: StartOptions): Promise<ProviderSim> {
  switch (name) {
    case "podhost":
      return (await import("./podhost.ts")).PodhostSim.start(options);
    case "market":
      return (await import("./market.ts")).MarketSim.start(options);
    case "cloudvm":
      return (await import("./cloudvm.ts")).CloudvmSim.start(options);
    case "notebook":
      return (await import("./notebook.ts")).NotebookSim.start({
        ...options,
        authorizedKeys: options.authorizedKeys ?? [],
      });
  }
}
