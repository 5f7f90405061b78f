// A provider and its simulator, connected as in the product; time runs faster for both of them alike.

import { readFileSync } from "node:fs";
import { RunSpec } from "../../src/schemas/spec.ts";
import type { RemoteOptions } from "../../src/providers/remote.ts";
import type { Provider } from "../../src/providers/provider.ts";
import { testParts, type TestParts } from "../sim/harness-parts.ts";
import { scaledClock } from "../sim/providers/clock.ts";
import type { FaultName, ProviderSim } from "../sim/providers/parts.ts";

/** Seconds of the provider and the product in one second of this computer. */
const FACTOR = 20;

export interface Simulated {
  parts: TestParts;
  sim: ProviderSim;
  /** Faults that this provider's simulator can commit. */
  faults: ReadonlySet<FaultName>;
  /** Sets the number of machines on one page of every list; without an argument, the usual number. */
  pages: (size?: number) => void;
  /** Makes a foreign machine on the account; returns its id or name, as the provider lists it. */
  addForeign: ((name: string) => void) | null;
  /** All texts about machines that the account's owner can see. */
  everythingShown: () => Promise<string>;
  /** Ends the remaining machines without the provider's API. */
  clear: () => Promise<void>;
}

export interface World {
  /** Makes a new provider every time, as after a restart: it remembers nothing. */
  provider(): Provider;
  spec: RunSpec;
  /** Null for a provider without a simulator. */
  simulated: Simulated | null;
  /** Makes the credential wrong from now on; null for a provider without one. */
  spoilKey: (() => void) | null;
  mendKey: () => void;
  close(): Promise<void>;
}

export const spec = (over: Record<string, unknown>): RunSpec =>
  RunSpec.parse({
    entrypoint: "train.py",
    project_dir: "/tmp",
    env: { TOKEN: SECRET },
    orphan_grace_minutes: 30,
    ...over,
  });

/** A value of the run's environment that no listing of a provider may ever show. */
export const SECRET = "tok-5up3r-53cr3t-v4lu3";

export async function simulatedWorld<S extends ProviderSim>(options: {
  start: (parts: TestParts) => Promise<S>;
  provider: (remote: RemoteOptions) => Provider;
  spec: Record<string, unknown>;
  faults: readonly FaultName[];
  addForeign?: (sim: S, name: string) => void;
  everythingShown: (sim: S) => Promise<string>;
  clear: (sim: S) => Promise<void>;
  /** The right credential, or a wrong one. */
  credential: (sim: S, good: boolean) => { secret: string; settings: Record<string, string> };
  keyless?: boolean;
}): Promise<World & { sim: S }> {
  const clock = scaledClock(FACTOR);
  const parts = await testParts(clock);
  const sim = await options.start(parts);
  let good = true;
  const remote: RemoteOptions = {
    credential: () => options.credential(sim, good),
    baseUrl: sim.url.replace(/\/+$/, ""),
    publicKey: () => Promise.resolve(parts.publicKey),
    access: () => {
      throw new Error("no case here connects by the product");
    },
    now: () => clock.now(),
    pause: (ms, signal) => pause(ms / FACTOR, signal),
  };
  const { addForeign } = options;
  const { pageSize } = sim;
  return {
    sim,
    provider: () => options.provider(remote),
    spec: spec(options.spec),
    simulated: {
      parts,
      sim,
      faults: new Set(options.faults),
      pages: (size) => {
        if (pageSize !== undefined) sim.pageSize = size ?? pageSize;
      },
      addForeign: addForeign ? (name) => addForeign(sim, name) : null,
      everythingShown: () => options.everythingShown(sim),
      clear: () => options.clear(sim),
    },
    spoilKey: options.keyless === true ? null : () => (good = false),
    mendKey: () => (good = true),
    async close() {
      await sim.close();
      await parts.close();
    },
  };
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

/** The private half of the key that machines are made with. */
export const privateKeyOf = (parts: TestParts): string => readFileSync(parts.keyPath, "utf8");
