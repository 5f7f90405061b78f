// Instances and operations of the simulated cloud: the events of a machine's life, and its record.

import { randomBytes } from "node:crypto";
import type { InsertOrder, Json } from "./cloudvm-insert.ts";
import { Forwarder } from "./forwarder.ts";
import { Hosts, type HostDefect } from "./hosts.ts";
import { gpuShown, MachineFaults } from "./machine-faults.ts";
import type { LedgerLine, SimMachine, SimParts } from "./parts.ts";

/** Milliseconds of the simulator's clock. */
export interface CloudTimings {
  operationPendingMs: number;
  provisioningMs: number;
  stagingMs: number;
  /** Time from RUNNING until the guest agent has installed the keys: sshd refuses them before. */
  guestAgentMs: number;
  /** Time from a delete until the instance is gone. */
  deletingMs: number;
  /** From the preemption notice until the machine stops. */
  noticeMs: number;
  /** How long a machine without capacity is visible. */
  stockoutMs: number;
  /** How long a queued order waits when capacity exists. */
  queuedMs: number;
}

export type InstanceStatus = "PENDING" | "PROVISIONING" | "STAGING" | "RUNNING" | "STOPPING" | "TERMINATED";

export interface Instance {
  id: string;
  order: InsertOrder;
  status: InstanceStatus;
  madeAtMs: number;
  startedAtMs: number | null;
  networkIp: string | null;
  natIp: string | null;
  machine: SimMachine | null;
  door: Forwarder | null;
  hostile: boolean;
  /** Being taken back. */
  preempted: boolean;
  foreign: boolean;
  /** Set during deletion: resolves when the instance is gone. */
  leaving: Promise<void> | null;
  gone: boolean;
}

export interface Operation {
  id: string;
  name: string;
  type: string;
  zone: string;
  status: "PENDING" | "RUNNING" | "DONE";
  targetId: string;
  targetName: string;
  user: string;
  requestId: string | null;
  insertedAtMs: number;
  endedAtMs: number | null;
  error: { code: string; message: string; errorDetails?: Json[] } | null;
  httpStatus: number | null;
  done: Promise<void>;
  finish: (failure?: { error: Operation["error"]; httpStatus: number }) => void;
}

/** The reason why the next insert fails inside its operation. */
export interface OperationFailure {
  code: string;
  message: string;
  errorDetails?: Json[];
  httpStatus: number;
}

const SYSTEM = "system";

export class CloudInstances {
  readonly all = new Map<string, Instance>();
  readonly operations: Operation[] = [];
  /** Hosts by instance: the API shows no hosts. */
  readonly hosts: Hosts;
  /** The port of every machine's sshd. */
  sshPort = 22;
  /** Set on the project: keys in the metadata then count only if the instance disables it. */
  projectOsLogin = false;

  readonly #parts: SimParts;
  readonly #timings: CloudTimings;
  readonly #faults: MachineFaults;
  readonly #apiPort: () => number;
  readonly #user: string;
  #count = 0;

  constructor(parts: SimParts, timings: CloudTimings, user: string, apiPort: () => number) {
    this.#parts = parts;
    this.#timings = timings;
    this.#user = user;
    this.#apiPort = apiPort;
    this.hosts = new Hosts(parts.faults);
    const by = (act: (instance: Instance) => Promise<void>) => async (machine: SimMachine) => {
      const instance = [...this.all.values()].find((one) => one.machine === machine);
      if (instance) await act(instance);
    };
    this.#faults = new MachineFaults(parts, {
      vanish: by((instance) => this.vanish(instance)),
      preempt: by((instance) => this.preempt(instance)),
      swapPort: by((instance) => this.#move(instance)),
    });
  }

  find(zone: string, nameOrId: string): Instance | undefined {
    return [...this.all.values()].find(
      (one) => one.order.zone === zone && (one.order.name === nameOrId || one.id === nameOrId),
    );
  }

  operation(
    type: string,
    instance: { id: string; zone: string; name: string },
    options: { user?: string; requestId?: string | null } = {},
  ): Operation {
    this.#count += 1;
    let settle = (): void => undefined;
    const done = new Promise<void>((resolve) => (settle = resolve));
    const { clock } = this.#parts;
    const operation: Operation = {
      id: String(5_000_000_000_000_000_000n + BigInt(this.#count)),
      name: `operation-${clock.now().toFixed(0)}-${randomBytes(6).toString("hex")}`,
      type,
      zone: instance.zone,
      status: "PENDING",
      targetId: instance.id,
      targetName: instance.name,
      user: options.user ?? this.#user,
      requestId: options.requestId ?? null,
      insertedAtMs: clock.now(),
      endedAtMs: null,
      error: null,
      httpStatus: null,
      done,
      finish: (failure) => {
        if (operation.status === "DONE") return;
        operation.status = "DONE";
        operation.endedAtMs = clock.now();
        operation.error = failure?.error ?? null;
        operation.httpStatus = failure?.httpStatus ?? null;
        settle();
      },
    };
    this.operations.push(operation);
    return operation;
  }

  /** Accepts the order. With `failure`, the instance is visible for a moment, and then the operation fails with it. */
  insert(
    order: InsertOrder,
    requestId: string | null,
    usdPerHour: number,
    failure: OperationFailure | null,
  ): Operation {
    const { clock, ledger, faults } = this.#parts;
    this.#count += 1;
    const instance: Instance = {
      id: String(4_200_000_000_000_000_000n + BigInt(this.#count) * 7_919n),
      order,
      status: order.queuesMs === null ? "PROVISIONING" : "PENDING",
      madeAtMs: clock.now(),
      startedAtMs: null,
      networkIp: null,
      natIp: null,
      machine: null,
      door: null,
      hostile: failure === null && faults.take("hostile_strings"),
      preempted: false,
      foreign: false,
      leaving: null,
      gone: false,
    };
    this.all.set(instance.id, instance);
    const operation = this.operation("insert", { ...order, id: instance.id }, { requestId });
    if (failure === null) {
      ledger.made({ id: instance.id, name: order.name, usdPerHour, madeAtMs: clock.now(), foreign: false });
      ledger.calls.push(`create ${order.name}`);
      void this.#live(instance, operation).catch((error: unknown) => {
        if (instance.gone) return;
        process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`);
        operation.finish({ error: { code: "INTERNAL_ERROR", message: "Internal error" }, httpStatus: 500 });
      });
    } else {
      void clock.wait(order.queuesMs ?? this.#timings.stockoutMs).then(() => {
        this.all.delete(instance.id);
        instance.gone = true;
        const { httpStatus, ...error } = failure;
        operation.finish({ error, httpStatus });
      });
    }
    return operation;
  }

  async #live(instance: Instance, operation: Operation): Promise<void> {
    const { clock, faults } = this.#parts;
    // A delete during creation ends the creating operation with a separate error.
    const cancelled = (): boolean => {
      if (instance.leaving === null && !instance.gone) return false;
      operation.finish({
        error: { code: "CONFLICT", message: "The instance was deleted while it was created." },
        httpStatus: 409,
      });
      return true;
    };
    await clock.wait(this.#timings.operationPendingMs);
    if (operation.status === "PENDING") operation.status = "RUNNING";
    if (instance.status === "PENDING") {
      await clock.wait(this.#timings.queuedMs);
      if (cancelled()) return;
      instance.status = "PROVISIONING";
    }
    await clock.wait(this.#timings.provisioningMs);
    if (cancelled()) return;
    instance.status = "STAGING";
    const defect = this.hosts.defectOf(instance.id);
    if (defect === "boot" || faults.take("boot_never")) return;
    const fails = faults.take("boot_fails");
    if (!fails) await this.#boot(instance, defect);
    await clock.wait(this.#timings.stagingMs);
    if (cancelled()) return;
    instance.startedAtMs = clock.now();
    operation.finish();
    if (fails) {
      // Its guest halts itself at once.
      instance.status = "TERMINATED";
      this.#parts.ledger.priced(instance.id, 0, this.#parts.clock.now());
      this.operation("compute.instances.guestTerminate", this.#target(instance), { user: SYSTEM }).finish();
      return;
    }
    await this.#open(instance);
  }

  async #boot(instance: Instance, defect: HostDefect | null): Promise<void> {
    const { order } = instance;
    const { metadata, gpus } = order;
    const keys = (metadata["ssh-keys"] ?? "").split("\n").flatMap((line) => {
      const [, user = "", key = ""] = /^([a-z_][a-z0-9_-]*):((?:ssh|ecdsa)-\S+ \S.*)$/.exec(line.trim()) ?? [];
      return key === "" ? [] : [{ user, key }];
    });
    const user = keys[0]?.user ?? "nobody-yet";
    const osLogin = (metadata["enable-oslogin"] ?? (this.projectOsLogin ? "TRUE" : "FALSE")).toUpperCase() === "TRUE";
    // Root may not log in, whatever the metadata say; but machines that share this computer have no users of their own.
    const barred = user === "root" && this.#parts.fleet.kind === "namespaces";
    const machine = await this.#parts.fleet.boot({
      name: `cloudvm-${order.name}`.slice(0, 60),
      authorizedKeys: osLogin || barred ? [] : keys.filter((one) => one.user === user).map((one) => one.key),
      user: barred ? "nobody-yet" : user,
      env: {},
      startScript: metadata["startup-script"] ?? null,
      bootMs: this.#timings.stagingMs,
      gpus: gpus?.count ?? 0,
      gpuName: gpuShown(this.#parts.faults, gpus?.type.gpuName ?? "", defect),
      diskMb: order.diskGb * 1024,
      apiPort: this.#apiPort(),
    });
    if (instance.gone) return machine.destroy();
    instance.machine = machine;
    void machine.ended?.then(() => this.#poweredOff(instance, machine));
    await machine.refuseKeys(true);
    await this.#faults.booted(machine);
    instance.networkIp = machine.privateAddress;
    if (machine.port !== this.sshPort) instance.door = await Forwarder.open(machine, this.sshPort, this.#freeAddress());
  }

  async #open(instance: Instance): Promise<void> {
    const { clock, faults } = this.#parts;
    const { machine, order, door } = instance;
    if (machine === null) return;
    instance.status = "RUNNING";
    if (order.external) instance.natIp = door?.host ?? machine.address;
    this.#faults.running(machine, order.spot);
    const refused =
      faults.get("key_refused") !== null ? null : (faults.get("key_refused_first") ?? this.#timings.guestAgentMs);
    if (refused !== null)
      void clock.wait(refused).then(async () => {
        if (instance.machine === machine && faults.get("key_refused") === null) await machine.refuseKeys(false);
      });
    if (order.maxRunMs === null) return;
    void clock.wait(order.maxRunMs).then(() => {
      if (instance.gone || instance.status !== "RUNNING") return;
      const type =
        order.onTermination === "DELETE" ? "compute.instances.deferredDelete" : "compute.instances.deferredStop";
      const operation = this.operation(type, this.#target(instance), { user: SYSTEM });
      void (order.onTermination === "DELETE" ? this.remove(instance, "limit") : this.stop(instance)).then(() =>
        operation.finish(),
      );
    });
  }

  /** An unused loopback address from the instance's network; each address has all ports. */
  #freeAddress(): string {
    this.#count += 1;
    return `127.${200 + (process.pid % 50)}.${Math.floor(this.#count / 250) % 250}.${(this.#count % 250) + 1}`;
  }

  /** A restart by the host: another ephemeral address. */
  async #move(instance: Instance): Promise<void> {
    const { machine, door } = instance;
    if (machine === null) return;
    instance.door = await Forwarder.open(machine, this.sshPort, this.#freeAddress());
    instance.natIp = instance.door.host;
    await door?.close();
  }

  /** A removal by a call takes time, and shows STOPPING meanwhile. */
  remove(instance: Instance, by: NonNullable<LedgerLine["endedBy"]>): Promise<void> {
    instance.leaving ??= (async () => {
      instance.status = "STOPPING";
      instance.natIp = null;
      await this.#tearDown(instance);
      await this.#parts.clock.wait(this.#timings.deletingMs);
      this.#end(instance, by);
    })();
    return instance.leaving;
  }

  /** Stops the machine; its disk still costs money, and its name stays taken. */
  async stop(instance: Instance): Promise<void> {
    instance.status = "STOPPING";
    this.#parts.ledger.priced(instance.id, 0, this.#parts.clock.now());
    await this.#tearDown(instance);
    if (!instance.gone) instance.status = "TERMINATED";
    instance.natIp = null;
  }

  /** The machine powered itself off; its disk still costs money, and its name stays taken. */
  async #poweredOff(instance: Instance, machine: SimMachine): Promise<void> {
    if (instance.machine !== machine || instance.preempted) return;
    this.operation("compute.instances.guestTerminate", this.#target(instance), { user: SYSTEM }).finish();
    await this.stop(instance);
  }

  /**
   * The cloud takes it back: its metadata server says so from now on, it shows STOPPING, and it lives for the time of
   * the notice, or until it powers itself off.
   */
  async preempt(instance: Instance): Promise<void> {
    const { machine } = instance;
    if (instance.leaving !== null || instance.gone || instance.preempted) return;
    const operation = this.operation("compute.instances.preempted", this.#target(instance), { user: SYSTEM });
    operation.status = "RUNNING";
    instance.preempted = true;
    instance.status = "STOPPING";
    await Promise.race([
      this.#parts.clock.wait(this.#timings.noticeMs),
      machine?.ended ?? new Promise(() => undefined),
    ]);
    if (instance.leaving !== null || instance.gone) return operation.finish();
    await (instance.order.onTermination === "DELETE" ? this.remove(instance, "preempted") : this.stop(instance));
    operation.finish();
  }

  /** Removes the instance without a message; only the list of operations shows it. */
  async vanish(instance: Instance): Promise<void> {
    this.operation("compute.instances.hostError", this.#target(instance), { user: SYSTEM }).finish();
    this.#end(instance, "vanished");
    await this.#tearDown(instance);
  }

  #end(instance: Instance, by: NonNullable<LedgerLine["endedBy"]>): void {
    instance.gone = true;
    this.all.delete(instance.id);
    this.#parts.ledger.ended(instance.id, by, this.#parts.clock.now());
  }

  async #tearDown(instance: Instance): Promise<void> {
    const { machine, door } = instance;
    instance.machine = null;
    instance.door = null;
    if (machine) this.#faults.gone(machine);
    await Promise.all([door?.close(), machine?.destroy()]);
  }

  addForeign(zone: string, name: string, labels: Record<string, string>): void {
    this.#count += 1;
    const { clock, ledger } = this.#parts;
    const id = String(3_100_000_000_000_000_000n + BigInt(this.#count));
    const order: InsertOrder = {
      name,
      zone,
      machineType: "e2-medium",
      gpus: null,
      model: "STANDARD",
      spot: false,
      queuesMs: null,
      onTermination: "STOP",
      maxRunMs: null,
      diskGb: 10,
      labels,
      metadata: {},
      external: false,
      body: {},
    };
    this.all.set(id, {
      id,
      order,
      status: "RUNNING",
      madeAtMs: clock.now(),
      startedAtMs: clock.now(),
      networkIp: "10.128.0.2",
      natIp: null,
      machine: null,
      door: null,
      hostile: false,
      preempted: false,
      foreign: true,
      leaving: null,
      gone: false,
    });
    ledger.made({ id, name, usdPerHour: 0.04, madeAtMs: clock.now(), foreign: true });
  }

  #target(instance: Instance): { id: string; zone: string; name: string } {
    return { id: instance.id, zone: instance.order.zone, name: instance.order.name };
  }

  /** Whether a new instance is still missing from lists and gets. */
  hidden(instance: Instance): boolean {
    const lag = this.#parts.faults.get("listing_lag");
    return lag !== null && this.#parts.clock.now() - instance.madeAtMs < lag;
  }
}
