// The provider `local`: this computer, at no cost. Its machine is a run directory.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { SvcError } from "../../errors/index.ts";
import { infoOf } from "../descriptors.ts";
import type { MachineAccess, RunHost } from "../host.ts";
import type { Certainty, MachineHandle, MachineStatus, Offer, Order, Provider } from "../provider.ts";
import { LocalHost } from "./local-host.ts";
import { listLocalRuns, terminateLocal } from "./local-runs.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** The time between SIGTERM and SIGKILL here. It is short: `collect` has already given the script its `stop_grace_seconds`. */
const LAST_GRACE_SECONDS = 2;

export interface LocalProviderOptions {
  home: string;
  runnerPath: string;
  /** Path of the Python that supervises runs. Throws `python_missing`. */
  python: () => Promise<string>;
  /** The part of machine names that marks this installation. */
  prefix: string;
}

export class LocalProvider implements Provider {
  readonly name = "local" as const;
  readonly info = infoOf("local");
  /** Answers do not lag and are never lost. */
  readonly certainty: Certainty = { horizonMs: 0, listingLagMs: 0, emptyLooks: 1, lookGapMs: 0 };
  readonly #o: LocalProviderOptions;
  /** Run directories that `terminate` proved empty of processes; after a restart the proof is repeated. */
  readonly #ended = new Set<string>();
  #python = "";

  constructor(options: LocalProviderOptions) {
    this.#o = options;
  }

  listOffers(): Promise<Offer[]> {
    return Promise.resolve([{ id: "this computer", priceMicro: 0 }]);
  }

  async create(_offer: Offer, order: Order): Promise<MachineHandle> {
    this.#python = await this.#o.python();
    const id = homeLayout.node(this.#o.home, order.jobId, order.node);
    await mkdir(join(id, "install"), { recursive: true, mode: 0o700 });
    this.#ended.delete(id); // an earlier order of this node used the same directory
    return this.#handle(id, order.name);
  }

  inspect(handle: MachineHandle): Promise<MachineStatus> {
    return Promise.resolve(this.#ended.has(handle.id) ? { phase: "gone" } : { phase: "ready", address: null });
  }

  async terminate(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    this.#python ||= await this.#o.python();
    for (const runDir of [join(handle.id, "install"), handle.id]) {
      await terminateLocal(
        { runDir, runnerPath: this.#o.runnerPath, python: this.#python },
        LAST_GRACE_SECONDS,
        signal,
      );
    }
    this.#ended.add(handle.id);
  }

  /**
   * One machine per run directory, under the same id as in `create`: a run lists several processes, those of its
   * `install` are one folder below, and the home may be reached through a symlink.
   */
  listOwned(prefix: string): Promise<MachineHandle[]> {
    const machines = new Map<string, MachineHandle>();
    for (const { jobId, node } of listLocalRuns(this.#o.home)) {
      const machine = this.#handle(homeLayout.node(this.#o.home, jobId, node), `${this.#o.prefix}${jobId}-n${node}-1`);
      if (machine.name.startsWith(prefix)) machines.set(machine.id, machine);
    }
    return Promise.resolve([...machines.values()]);
  }

  /** Only the run's processes have to end, and the runner does that. */
  selfEnd(): null {
    return null;
  }

  access(handle: MachineHandle): MachineAccess {
    return {
      inPlace: true,
      layout: () => unreachableInPlace(),
      greet: () => Promise.resolve(unreachableInPlace()),
      push: () => Promise.resolve(unreachableInPlace()),
      compare: () => Promise.resolve(unreachableInPlace()),
      keep: () => Promise.resolve(),
      host: (purpose) => this.#host(handle, purpose),
    };
  }

  #host(handle: MachineHandle, purpose: "run" | "install"): RunHost {
    const runDir = purpose === "run" ? handle.id : join(handle.id, "install");
    return new LocalHost({ runDir, runnerPath: this.#o.runnerPath, python: this.#python || "python3" });
  }

  #handle(id: string, name: string): MachineHandle {
    return { v: 1, provider: "local", id, name, address: null, priceMicro: 0 };
  }
}

/** Steps that work in place never call these. */
function unreachableInPlace(): never {
  throw new SvcError("internal_error", { why: "a local run has no other machine to greet or to send files to" });
}
