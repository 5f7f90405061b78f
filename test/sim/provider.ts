// The real `Provider` contract over the simulated cloud, as one life of the control plane sees it. A request that was
// sent belongs to the world and takes effect whatever happens to its sender; an answer belongs to its caller and is
// lost with it.

import { SvcError } from "../../src/errors/index.ts";
import type { MachineAccess, RunHost } from "../../src/providers/host.ts";
import type { MachineHandle, MachineStatus, Offer, Order, Provider } from "../../src/providers/provider.ts";
import type { RunnerSpec, RunnerStatus } from "../../src/schemas/runner.ts";
import { CHECKPOINT_MS, type Cloud, type CloudMachine } from "./cloud.ts";
import type { JobPlan, SimProviderName } from "./plan.ts";
import type { Life } from "./world.ts";

/** The life that calls: it may end at each of the two boundaries of a call. */
export interface Caller extends Life {
  probe(point: string): void;
  /** Called when the create request is sent, with its name. @returns the placement to which it belongs. */
  leaving(name: string): number;
  /** The job's newest downloaded checkpoint, and its next one; in units of CHECKPOINT_MS of work. */
  saved(jobId: string): number;
  fail(what: string): void;
}

const unused = (): never => {
  throw new TypeError("not part of the simulation");
};

const never = <T>(): Promise<T> => new Promise<T>(() => {});

export class SimProvider implements Provider {
  readonly name: SimProviderName;
  readonly info: Provider["info"];
  readonly certainty: Provider["certainty"];
  readonly #cloud: Cloud;
  readonly #caller: Caller;
  readonly #jobs: Map<string, JobPlan>;

  constructor(name: SimProviderName, cloud: Cloud, caller: Caller, jobs: Map<string, JobPlan>) {
    this.name = name;
    this.#cloud = cloud;
    this.#caller = caller;
    this.#jobs = jobs;
    this.certainty = cloud.plan.certainty;
    this.info = {
      name,
      speaks: "simulation",
      stops_by_itself: "never",
      capabilities: {
        runs_here: false,
        bills: true,
        gpus: "optional" as const,
        owns_machine: true,
        reports_price: true,
        nodes_max: 8,
        self_end: false,
        list_by_tag: true,
        spot: false,
      },
    };
  }

  /** One exchange: `serve` runs in the world; its value or error returns if the caller is still alive and waiting. */
  call<T>(what: string, signal: AbortSignal | null, serve: () => T): Promise<T> {
    const { world, plan } = this.#cloud;
    const caller = this.#caller;
    if (!caller.alive) return never();
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      signal?.addEventListener("abort", () => caller.alive && reject(signal.reason as Error), { once: true });
      const latency = (): number => (plan.ideal ? 5 : world.rng.int(1, 400));
      world.schedule(latency(), `serve ${what}`, null, () => {
        let settle: () => void;
        try {
          const value = serve();
          settle = () => resolve(value);
        } catch (e) {
          settle = () => reject(e);
        }
        if (world.rng.chance(plan.faults.noAnswer)) return;
        const slow = world.rng.chance(plan.faults.slowAnswer);
        world.schedule(slow ? world.rng.int(1_000, 60_000) : latency(), `answer ${what}`, caller, () => {
          caller.probe(`answered ${what}`);
          if (caller.alive) settle();
        });
      });
      caller.probe(`sent ${what}`);
    });
  }

  #mood(p: number, what: string): void {
    if (this.#cloud.world.rng.chance(p))
      throw new SvcError("provider_error", { provider: this.name, why: `${what} failed` });
  }

  listOffers(_spec: unknown, signal: AbortSignal): Promise<Offer[]> {
    return this.call("offers", signal, () => {
      this.#mood(this.#cloud.plan.faults.offersFail, "listing offers");
      const { scripted, faults } = this.#cloud.plan;
      if (scripted?.noStock?.includes(this.name) === true || this.#cloud.world.rng.chance(faults.noStock)) return [];
      return [
        { id: "small", priceMicro: 1_500_000 },
        { id: "other", priceMicro: 1_500_000 },
      ];
    });
  }

  create(offer: Offer, { name, jobId, node, limit }: Order): Promise<MachineHandle> {
    const caller = this.#caller;
    const { world } = this.#cloud;
    if (!caller.alive) return never();
    return new Promise((resolve, reject) => {
      const placement = caller.leaving(name);
      world.say(`create ${name} is sent`);
      const guards = this.#cloud.plan.budgets?.guards === true;
      const limitAt = guards && limit ? limit.madeAtMs + limit.endSeconds * 1_000 : null;
      this.#cloud.create({ name, jobId, node, provider: this.name, placement, limitAt }, (delayMs, result) => {
        if (world.rng.chance(this.#cloud.plan.faults.noAnswer)) return;
        world.schedule(delayMs, `answer create ${name}`, caller, () => {
          caller.probe("answered create");
          if (!caller.alive) return;
          world.say(`create ${name} is answered: ${result instanceof Error ? result.message : result.id}`);
          if (!(result instanceof Error)) resolve(this.#handle(result));
          else if (result.message === "timed out")
            reject(new SvcError("outcome_unknown", { provider: this.name, what: "create" }));
          else if (result.message === "no capacity")
            reject(new SvcError("offer_taken", { provider: this.name, offer: offer.id, why: result.message }));
          else reject(new SvcError("provider_error", { provider: this.name, why: result.message }));
        });
      });
      caller.probe("sent create");
    });
  }

  #handle(m: CloudMachine): MachineHandle {
    const { id, name, priceMicro, bootMicro } = m;
    const boot = bootMicro === null ? {} : { billedMicro: bootMicro };
    return { v: 1, provider: this.name, id, name, address: null, priceMicro, ...boot };
  }

  inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus> {
    return this.call("inspect", signal, () => {
      this.#mood(this.#cloud.plan.faults.inspectFails, "inspecting");
      const machine = this.#cloud.find(handle.id);
      if (!machine) {
        const was = this.#cloud.machines.find(({ id }) => id === handle.id);
        return was?.preempted === true
          ? { phase: "gone", preempted: true, why: "it was preempted" }
          : { phase: "gone" };
      }
      if (machine.bad) return { phase: "broken", why: "its host has no driver", elsewhere: true };
      return machine.readyAt <= this.#cloud.world.now
        ? { phase: "ready", address: null }
        : { phase: "starting", why: "it boots", ...(machine.bootMicro === null ? {} : { cheaper: true as const }) };
    });
  }

  terminate(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    return this.call(`terminate ${handle.id}`, signal, () => {
      this.#mood(this.#cloud.plan.faults.terminateFails, "terminating");
      this.#cloud.terminate(handle.id);
    });
  }

  listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]> {
    return this.call("list", signal, () => {
      this.#mood(this.#cloud.plan.faults.listFails, "listing");
      return this.#cloud.list(prefix, this.name).map((m) => this.#handle(m));
    });
  }

  // The machine itself, with only the methods that the simulated steps use; other tests cover the rest with real
  // processes.

  selfEnd(): null {
    return null;
  }

  access(handle: MachineHandle): MachineAccess {
    const host = (): RunHost => this.#host(handle);
    return { inPlace: true, layout: unused, greet: unused, push: unused, compare: unused, keep: unused, host };
  }

  #host(handle: MachineHandle): RunHost {
    return {
      start: (spec, _secrets, signal) => this.#start(handle, spec, signal),
      status: (signal) => this.call("status", signal, () => this.#status(this.#reach(handle))),
      stop: (_grace, signal) =>
        this.call("stop", signal, () => {
          const { run } = this.#reach(handle);
          if (run) run.endsAt = Math.min(run.endsAt, this.#cloud.world.now);
        }),
      readLog: unused,
      readSamples: unused,
      ackLog: unused,
      follow: unused,
      listCheckpoints: unused,
      fetchCheckpoint: unused,
    };
  }

  #reach(handle: MachineHandle): CloudMachine {
    const machine = this.#cloud.find(handle.id);
    if (!machine) throw new SvcError("machine_lost", { provider: this.name, machine: handle.name });
    return machine;
  }

  #start(handle: MachineHandle, spec: RunnerSpec, signal: AbortSignal): Promise<RunnerStatus> {
    return this.call("start", signal, () => {
      const machine = this.#reach(handle);
      const job = this.#jobs.get(machine.jobId);
      if (!job) throw new TypeError(`nobody planned ${machine.jobId}`);
      if (job.priceCap !== null && machine.priceMicro > job.priceCap * 1e6)
        this.#caller.fail(`${machine.name} runs a script above the price cap`);
      if (machine.run && machine.run.nonce !== spec.nonce) this.#caller.fail(`${machine.name} was launched twice`);
      if (!machine.run) {
        this.#cloud.started(machine);
        const from = Number(spec.env["SVC_RESUME_FROM"] ?? 0);
        const saved = this.#caller.saved(machine.jobId);
        if (machine.placement > 1 && from !== saved)
          this.#caller.fail(`${machine.name} resumed from ${from}, and ${saved} is at home`);
        const { now } = this.#cloud.world;
        machine.run = {
          nonce: spec.nonce,
          from,
          startedAt: now,
          endsAt: now + Math.max(0, (job.runMs[machine.node] ?? 0) - from * CHECKPOINT_MS),
          exitCode: job.exitCode[machine.node] ?? 0,
        };
      }
      return this.#status(machine) as RunnerStatus;
    });
  }

  #status({ run }: CloudMachine): RunnerStatus | null {
    if (!run) return null;
    const over = run.endsAt <= this.#cloud.world.now;
    return {
      phase: over ? "exited" : "running",
      nonce: run.nonce,
      runner_pid: 1,
      runner_start: 0,
      boot_id: "b",
      pid: 2,
      started_at_ms: 0,
      ended_at_ms: over ? run.endsAt : null,
      exit_code: over ? run.exitCode : null,
      signal: null,
      stopped: false,
      preempted: false,
      oom: false,
      not_runnable: false,
      left: [],
      log_bytes: 0,
      error: null,
    };
  }
}
