// The simulated providers by name; only the requested one is loaded.

import type { ProviderSim, SimParts } from "./parts.ts";

export interface StartOptions extends SimParts {
  /** 0 or absent: any free port. */
  port?: number;
  /** For the notebook, whose runtime exists before any order: the login keys. */
  authorizedKeys?: readonly string[];
  /** For the market: keys of the account, which each new machine gets. */
  accountKeys?: readonly string[];
  /**
   * How long a machine of cloudvm lives after the notice that it is taken back; less than the provider's time by default.
   */
  noticeMs?: number;
  /** A line for every call of the API. */
  onCall?(line: string): void;
}

interface Simulated {
  /** GPUs that it offers as long as no fault removes them. */
  gpus: string;
  start(options: StartOptions): Promise<ProviderSim>;
}

const SIMULATED = {
  podhost: { gpus: "A40:1", start: async (options) => (await import("./podhost.ts")).PodhostSim.start(options) },
  market: { gpus: "RTX4090:1", start: async (options) => (await import("./market.ts")).MarketSim.start(options) },
  cloudvm: {
    gpus: "T4:1",
    start: async ({ noticeMs, ...options }) =>
      (await import("./cloudvm.ts")).CloudvmSim.start({
        ...options,
        timings: noticeMs === undefined ? {} : { noticeMs },
      }),
  },
  notebook: {
    gpus: "T4:1",
    start: async (options) =>
      (await import("./notebook.ts")).NotebookSim.start({ ...options, authorizedKeys: options.authorizedKeys ?? [] }),
  },
} as const satisfies Record<string, Simulated>;

export type SimName = keyof typeof SIMULATED;
export const SIM_NAMES = Object.keys(SIMULATED) as SimName[];

export const gpusOnOffer = (name: SimName): string => SIMULATED[name].gpus;
export const startSim = (name: SimName, options: StartOptions): Promise<ProviderSim> => SIMULATED[name].start(options);
