// Gives access to rented machines: one link for each, by name, for every caller. A handle may change (new endpoints);
// its latest version counts from the next connect.

import type { HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";
import { MachineLink } from "./machine-link.ts";
import { remoteGate } from "./remote-gate.ts";
import { compareTree } from "./tree-compare.ts";
import { RemoteHost, type RunnerText } from "./remote-host.ts";
import { SvcError } from "../errors/index.ts";
import type {
  Guard,
  MachineAccess,
  MachineFacts,
  MachineGate,
  MachineLayout,
  RunHost,
  TreeCompare,
  TreePush,
  TreePushed,
} from "../providers/host.ts";
import type { MachineHandle } from "../providers/provider.ts";

export interface RemoteMachinesOptions {
  /** The home of this control plane. */
  home: string;
  /** The key for the login. Throws `ssh_key_unusable`. Requested before every connect. */
  key: (provider: MachineHandle["provider"]) => Promise<SshKey>;
  pins: HostKeyPins;
  runner: RunnerText;
  /** The text of the agent; asked when the first machine is connected to. */
  agentText: () => Buffer;
  /** The text of the gate; asked when the first machine is tested. */
  gateText: () => Buffer;
}

interface Known {
  link: MachineLink;
  handle: MachineHandle;
}

export class RemoteMachines {
  readonly #options: RemoteMachinesOptions;
  readonly #known = new Map<string, Known>();
  #agentText: Buffer | undefined;
  #gateText: Buffer | undefined;

  constructor(options: RemoteMachinesOptions) {
    this.#options = options;
  }

  /** Does not connect yet. */
  access(handle: MachineHandle): MachineAccess {
    const known = this.#known.get(handle.name);
    if (known && (handle.ssh?.length ?? 0) > 0) known.handle = handle;
    return new RemoteAccess(handle, () => this.#link(handle), this.#options.runner, this.#gate);
  }

  /**
   * For a machine that is gone: ends the connection and the keepalive. Its pinned key stays; names are never reused.
   */
  forget(name: string): void {
    this.#known.get(name)?.link.close();
    this.#known.delete(name);
  }

  /** Ends every connection. Machines and runs continue. */
  close(): void {
    for (const name of this.#known.keys()) this.forget(name);
  }

  readonly #gate = (): Buffer => (this.#gateText ??= this.#options.gateText());

  #link(handle: MachineHandle): MachineLink {
    let known = this.#known.get(handle.name);
    if (!known) {
      const { key, pins } = this.#options;
      const link = new MachineLink({
        machine: handle.name,
        endpoints: () => this.#known.get(handle.name)?.handle.ssh ?? [],
        key: () => key(handle.provider),
        pins,
        agentSource: () => (this.#agentText ??= this.#options.agentText()),
        wasReached: () => this.#known.get(handle.name)?.handle.extra?.["home"] !== undefined,
      });
      known = { link, handle };
      this.#known.set(handle.name, known);
    }
    return known.link;
  }
}

/** The folder of one machine's run, below the user's home there. */
export const machineDir = (home: string, name: string): string => `${home.replace(/\/+$/, "")}/.svc-machine/${name}`;

export class RemoteAccess implements MachineAccess {
  readonly inPlace = false;
  readonly #handle: MachineHandle;
  readonly #link: () => MachineLink;
  readonly #runner: RunnerText;
  readonly #gateText: () => Buffer;

  constructor(handle: MachineHandle, link: () => MachineLink, runner: RunnerText, gateText: () => Buffer) {
    this.#handle = handle;
    this.#link = link;
    this.#runner = runner;
    this.#gateText = gateText;
  }

  get gate(): MachineGate {
    return remoteGate(this.#link(), this.#gateText, this.#base());
  }

  layout(): MachineLayout {
    const base = this.#base();
    return {
      project: `${base}/project`,
      checkpoints: `${base}/checkpoints`,
      data: `${base}/data`,
      packages: `${base}/packages`,
      environment: `${base}/environment`,
    };
  }

  greet(signal: AbortSignal): Promise<MachineFacts> {
    return this.#link().greet(signal);
  }

  push(tree: TreePush, signal: AbortSignal): Promise<TreePushed> {
    return this.#link().push(tree, signal);
  }

  compare(tree: TreeCompare, signal: AbortSignal): Promise<{ path: string; why: string }[]> {
    return compareTree(this.#link(), tree, signal);
  }

  keep(guard: Guard, signal: AbortSignal): Promise<void> {
    return this.#link().keep(guard, signal);
  }

  leave(signal: AbortSignal): Promise<void> {
    return this.#link().remove(this.#base(), signal);
  }

  host(purpose: "run" | "install"): RunHost {
    const machine = this.#handle.name;
    const runDir = `${this.#base()}/${purpose}`;
    return new RemoteHost({ machine, runDir, runner: this.#runner, agent: this.#link().agent });
  }

  #base(): string {
    const home = this.#handle.extra?.["home"] ?? this.#link().facts?.home;
    if (home?.startsWith("/") !== true || home.split("/").includes(".."))
      throw new SvcError("ssh_unreachable", { machine: this.#handle.name, why: "svc has not logged in to it yet" });
    return machineDir(home, this.#handle.name);
  }
}
