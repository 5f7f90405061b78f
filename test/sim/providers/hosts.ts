// What is wrong with the hosts that machines run on. A host is known by the provider's own id for it, and a bad one stays bad: whoever
// rents it again meets the same.

import type { Faults } from "./parts.ts";

/** `gpu`: nvidia-smi fails on its machines. `boot`: they never come up. */
export type HostDefect = "gpu" | "boot";

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

  /** Asked once for each machine that is made: the faults `bad_hosts` and `dead_hosts` count hosts that were not bad before. */
  defectOf(host: string): HostDefect | null {
    const known = this.#known.get(host);
    if (known !== undefined) return known;
    const defect = this.#faults.take("bad_hosts") ? "gpu" : this.#faults.take("dead_hosts") ? "boot" : null;
    if (defect !== null) this.#known.set(host, defect);
    return defect;
  }
}
