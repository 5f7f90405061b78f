// The faults of the hosts on which machines run. A host has the provider's own id, and a bad one stays bad: everyone
// who rents it meets the same fault.

import type { Faults } from "./parts.ts";

/**
 * `gpu`: nvidia-smi fails on its machines. `memory`: another process uses their GPUs' memory, which only the gate
 * finds. `boot`: its machines never boot.
 */
export type HostDefect = "gpu" | "memory" | "boot";

const DEFECTS = [
  ["bad_hosts", "gpu"],
  ["busy_hosts", "memory"],
  ["dead_hosts", "boot"],
] as const;

export class Hosts {
  readonly #faults: Faults;
  readonly #known = new Map<string, HostDefect>();

  constructor(faults: Faults) {
    this.#faults = faults;
  }

  /** Makes one host bad, whoever rents it. */
  spoil(host: string, defect: HostDefect): void {
    this.#known.set(host, defect);
  }

  /** All hosts are good from now on. */
  heal(): void {
    this.#known.clear();
  }

  /** Called once for each new machine: the faults of DEFECTS count hosts that were not bad before. */
  defectOf(host: string): HostDefect | null {
    const known = this.#known.get(host);
    if (known !== undefined) return known;
    const defect = DEFECTS.find(([fault]) => this.#faults.take(fault))?.[1] ?? null;
    if (defect !== null) this.#known.set(host, defect);
    return defect;
  }
}
