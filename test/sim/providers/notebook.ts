// The simulated notebook: a machine that its owner opened, behind a tunnel that tests can control. It has no API.
//
// Faults: port_swap (the tunnel comes back at another port), hang (the tunnel holds everything, while it is on), vanishes and
// preempted (the runtime ends), host_key_changes, key_refused, key_refused_first, freezes, black_hole, slow_link, disk_full.
// The tunnel's own switches are those of forwarder.ts, and `swapMachine`.

import { Forwarder } from "./forwarder.ts";
import { MachineFaults } from "./machine-faults.ts";
import { usersOf, type ProviderSim, type SimMachine, type SimParts } from "./parts.ts";

export interface NotebookOptions extends SimParts {
  /** The keys that the bootstrap cell put into the runtime. */
  authorizedKeys: readonly string[];
  bootMs?: number;
  gpus?: number;
  gpuName?: string;
}

const ID = "notebook-1";

export class NotebookSim implements ProviderSim {
  readonly name = "notebook";
  readonly tunnel: Forwarder;
  #machine: SimMachine;
  #spare: SimMachine | null = null;
  readonly #options: NotebookOptions;
  readonly #faults: MachineFaults;

  private constructor(options: NotebookOptions, machine: SimMachine, tunnel: Forwarder) {
    this.#options = options;
    this.#machine = machine;
    this.tunnel = tunnel;
    this.#faults = new MachineFaults(options, {
      vanish: () => this.end(),
      preempt: () => this.end(),
      swapPort: () => tunnel.changePort(),
    });
    options.faults.on((name, measure) => {
      if (name === "hang") tunnel.blackhole(measure !== null);
    });
  }

  static async start(options: NotebookOptions): Promise<NotebookSim> {
    const machine = await boot(options, "notebook-1");
    const sim = new NotebookSim(options, machine, await Forwarder.open(machine));
    const { clock, ledger } = options;
    // The runtime belongs to its owner and is free: no test may end it.
    ledger.made({ id: ID, name: "the owner's runtime", usdPerHour: 0, madeAtMs: clock.now(), foreign: true });
    await sim.#faults.booted(machine);
    sim.#faults.running(machine, false);
    return sim;
  }

  /** Only the tunnel: this provider lacks an API. */
  get url(): string {
    return `tcp://${this.tunnel.host}:${this.tunnel.port}`;
  }

  get machine(): SimMachine {
    return this.#machine;
  }

  get #user(): string {
    return usersOf(this.#options.fleet).ssh_user ?? "root";
  }

  /** The line that the bootstrap cell prints. */
  get endpointLine(): string {
    const { host, port } = this.tunnel;
    return `SVC-ENDPOINT ${JSON.stringify({ host, port, user: this.#user, hostKey: this.#machine.hostKey })}`;
  }

  settings(): { env: Record<string, string>; credentials: Record<string, unknown> } {
    const { host, port } = this.tunnel;
    return { env: {}, credentials: { providers: { notebook: { host, port, ssh_user: this.#user } } } };
  }

  /** Ends the runtime: the tunnel has no target any more. */
  async end(): Promise<void> {
    const { clock, ledger } = this.#options;
    this.#faults.gone(this.#machine);
    ledger.ended(ID, "vanished", clock.now());
    this.tunnel.dropAll();
    await this.#machine.destroy();
  }

  /** Another machine behind the same host and port: another host key, other files. */
  async swapMachine(): Promise<void> {
    this.#spare ??= this.#machine;
    const other = await boot(this.#options, "notebook-2");
    this.#machine = other;
    this.tunnel.swap(other);
  }

  async close(): Promise<void> {
    await this.tunnel.close();
    await Promise.all([this.#machine.destroy(), this.#spare?.destroy()]);
  }
}

async function boot(options: NotebookOptions, name: string): Promise<SimMachine> {
  return options.fleet.boot({
    name,
    authorizedKeys: options.authorizedKeys,
    user: "root",
    env: {},
    startScript: null,
    bootMs: options.bootMs ?? 100,
    gpus: options.gpus ?? 1,
    gpuName: options.gpuName ?? "Tesla T4",
    diskMb: 20_480,
    apiPort: null,
  });
}
