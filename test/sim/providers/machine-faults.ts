// The faults that strike a machine rather than an answer. The same for every provider; each provider defines "vanish",
// "preempt" and "another endpoint" itself.
//
// M1. A fault that strikes once strikes one machine: one that runs when the fault is set, or else the first that runs
//     afterwards.
// M2. Times count from the moment when the machine runs; a fault with a duration begins STRIKE_MS later.
// M3. `spot_taken` strikes every spot machine, after half of its measure to one and a half, drawn from the seed.

import { strike } from "./faults.ts";
import type { HostDefect } from "./hosts.ts";
import { numbersFrom } from "./numbers.ts";
import type { FaultName, SimMachine, SimParts } from "./parts.ts";

export interface MachineFaultHooks {
  vanish(machine: SimMachine): Promise<void>;
  preempt(machine: SimMachine): Promise<void>;
  swapPort?(machine: SimMachine): Promise<void>;
}

const STRIKE_MS = 1_000;
/** No practical limit on a loopback. */
const FAST_KBIT = 20_000_000;

/** nvidia-smi's output on the machine: the rented GPU, another one, or a failure (`!EXIT WORDS`). */
export function gpuShown(faults: SimParts["faults"], gpuName: string, host: HostDefect | null): string {
  if (gpuName === "") return gpuName;
  if (host === "gpu" || faults.get("gpu_lost") !== null)
    return "!15 Unable to determine the device handle for GPU0000:01:00.0: GPU is lost. Reboot the system to recover this GPU";
  const shown = faults.get("gpu_other") === null ? gpuName : "NVIDIA GeForce RTX 3060";
  return host === "memory" ? `~${shown}` : shown;
}

export class MachineFaults {
  readonly #parts: SimParts;
  readonly #hooks: MachineFaultHooks;
  readonly #running = new Set<SimMachine>();
  readonly #draw: () => number;
  readonly #booted = new Set<SimMachine>();

  constructor(parts: SimParts, hooks: MachineFaultHooks) {
    this.#parts = parts;
    this.#hooks = hooks;
    this.#draw = numbersFrom(parts.seed ?? 1);
    parts.faults.on((name, measure) => this.#changed(name, measure));
  }

  /** The machine's sshd answers; the provider has not reported it yet. */
  async booted(machine: SimMachine): Promise<void> {
    const { faults, clock } = this.#parts;
    this.#booted.add(machine);
    const first = faults.get("key_refused_first");
    if (faults.get("key_refused") !== null) await machine.refuseKeys(true);
    else if (first !== null) {
      faults.clear("key_refused_first");
      await machine.refuseKeys(true);
      void clock.wait(first).then(() => this.#do(machine, () => machine.refuseKeys(false)));
    }
    const kbit = faults.get("slow_link");
    if (kbit !== null) await machine.rate(kbit);
  }

  /** The provider reports that the machine runs. */
  running(machine: SimMachine, isSpot: boolean): void {
    this.#running.add(machine);
    for (const name of STRIKES) this.#strike(name, machine);
    if (isSpot) this.#take(machine);
  }

  #take(machine: SimMachine): void {
    const { faults, clock } = this.#parts;
    const measure = faults.get("spot_taken");
    if (measure === null) return;
    void clock.wait(measure * (0.5 + this.#draw())).then(() => this.#do(machine, () => this.#hooks.preempt(machine)));
  }

  gone(machine: SimMachine): void {
    this.#running.delete(machine);
    this.#booted.delete(machine);
  }

  #changed(name: FaultName, measure: number | null): void {
    if (name === "slow_link") this.#all((machine) => machine.rate(measure ?? FAST_KBIT));
    if (name === "key_refused") this.#all((machine) => machine.refuseKeys(measure !== null));
    const [machine] = this.#running;
    // Strikes later, because the caller may still be setting other faults.
    if (measure !== null && machine && STRIKES.includes(name)) queueMicrotask(() => this.#strike(name, machine));
  }

  #strike(name: FaultName, machine: SimMachine): void {
    const { faults, clock } = this.#parts;
    if (name === "port_swap" && !this.#hooks.swapPort) return;
    const measure = strike(faults, name);
    if (measure === null) return;
    const lasting = name === "freezes" || name === "black_hole";
    void clock
      .wait(lasting ? STRIKE_MS : measure)
      .then(() => this.#do(machine, () => this.#hit(name, machine, measure)));
  }

  async #hit(name: FaultName, machine: SimMachine, measure: number): Promise<void> {
    const { clock } = this.#parts;
    switch (name) {
      case "vanishes":
        return this.#hooks.vanish(machine);
      case "preempted":
        return this.#hooks.preempt(machine);
      case "port_swap":
        return this.#hooks.swapPort?.(machine);
      case "host_key_changes":
        return machine.changeHostKey();
      case "disk_full":
        return machine.fillDisk();
      case "freezes":
        await machine.freeze();
        await clock.wait(measure);
        return this.#do(machine, () => machine.thaw());
      case "black_hole":
        await machine.cut();
        await clock.wait(measure);
        return this.#do(machine, () => machine.heal());
      default:
    }
  }

  #all(act: (machine: SimMachine) => Promise<void>): void {
    for (const machine of this.#booted) void this.#do(machine, () => act(machine));
  }

  /** Acts unless the machine is gone meanwhile. */
  async #do(machine: SimMachine, act: () => Promise<void>): Promise<void> {
    if (!this.#booted.has(machine)) return;
    try {
      await act();
    } catch (error) {
      if (this.#booted.has(machine)) process.stderr.write(`simulator: ${String(error)}\n`);
    }
  }
}

const STRIKES: readonly FaultName[] = [
  "vanishes",
  "preempted",
  "port_swap",
  "host_key_changes",
  "disk_full",
  "freezes",
  "black_hole",
];
