// Instances of the simulated market: their life, their endpoints, and their rows.

import { randomBytes } from "node:crypto";
import { strike } from "./faults.ts";
import { Forwarder } from "./forwarder.ts";
import { gpuShown, MachineFaults } from "./machine-faults.ts";
import { Hosts, type HostDefect } from "./hosts.ts";
import type { MarketOffer } from "./market-offers.ts";
import type { MarketOrder } from "./market-order.ts";
import { numbersFrom } from "./numbers.ts";
import type { LedgerLine, SimMachine, SimParts } from "./parts.ts";
import { noSuchImage, NO_SUCH_DRIVER } from "./runtime-words.ts";

/** Times of the steps of an instance's life, in milliseconds of the simulator's clock. */
export interface MarketTimings {
  /** From renting until the host begins; `actual_status` is null meanwhile. */
  acceptedMs: number;
  /** Loading the image, until sshd answers. */
  loadingMs: number;
  /** From `running` until `ports` is filled in. */
  portsLateMs: number;
  /** From a destroy until the instance is gone. */
  teardownMs: number;
  /** Keys that were not attached to the instance are lost this long after it runs; null for never. */
  keysForgottenMs: number | null;
}

export interface Instance {
  id: number;
  offer: MarketOffer;
  order: MarketOrder;
  apiKey: string;
  usdPerHour: number;
  madeAtMs: number;
  endAtMs: number;
  /** `actual_status` as the API gives it. */
  actual: string | null;
  intended: "running" | "stopped";
  current: "running" | "stopped" | "unloaded";
  message: string;
  portsAtMs: number;
  /** Keys attached to the instance; the account's keys are in `keysAtStart`. */
  attached: { id: number; key: string }[];
  keysAtStart: string[];
  machine: SimMachine | null;
  direct: Forwarder | null;
  proxy: Forwarder | null;
  hostile: boolean;
  ended: boolean;
}

/** The closed endpoint. */
export type Shut = "none" | "direct" | "proxy";

export class MarketInstances {
  readonly all = new Map<number, Instance>();
  /** By `machine_id`. */
  readonly hosts: Hosts;
  shut: Shut = "none";
  readonly #parts: SimParts;
  readonly #faults: MachineFaults;
  readonly #timings: MarketTimings;
  readonly #apiPort: () => number;
  readonly #next: () => number;
  #id = 31_000_000;

  constructor(parts: SimParts, timings: MarketTimings, apiPort: () => number) {
    this.#parts = parts;
    this.#timings = timings;
    this.#apiPort = apiPort;
    this.#next = numbersFrom(7);
    this.hosts = new Hosts(parts.faults);
    const of = (machine: SimMachine): Instance | undefined => [...this.all.values()].find((i) => i.machine === machine);
    this.#faults = new MachineFaults(parts, {
      vanish: async (machine) => {
        const instance = of(machine);
        if (instance) await this.remove(instance, "vanished");
      },
      preempt: async (machine) => {
        const instance = of(machine);
        if (instance) await this.outbid(instance);
      },
      swapPort: async (machine) => {
        const instance = of(machine);
        await instance?.direct?.changePort();
        await instance?.proxy?.changePort();
      },
    });
    parts.faults.on((name) => {
      if (name.startsWith("price_rises")) for (const instance of this.all.values()) this.#bill(instance);
    });
  }

  /** Makes the instance and starts its life. `broken`: it will never boot. */
  make(
    offer: MarketOffer,
    order: MarketOrder,
    accountKeys: readonly string[],
    broken: boolean,
    factor: number,
  ): Instance {
    const { clock, ledger, faults } = this.#parts;
    this.#id += 1 + Math.floor(this.#next() * 500);
    const compute = order.bid ?? offer.dphBase;
    const instance: Instance = {
      id: this.#id,
      offer,
      order,
      apiKey: randomBytes(32).toString("hex"),
      usdPerHour: (compute + (order.diskGb * offer.storageCost) / 720) * factor,
      madeAtMs: clock.now(),
      endAtMs: clock.now() + offer.durationS * 1000,
      actual: null,
      intended: order.stopped ? "stopped" : "running",
      current: order.stopped ? "stopped" : "running",
      message: "",
      portsAtMs: Infinity,
      attached: [],
      keysAtStart: [...accountKeys],
      machine: null,
      direct: null,
      proxy: null,
      hostile: faults.take("hostile_strings"),
      ended: false,
    };
    offer.rented = true;
    offer.rentable = false;
    this.all.set(instance.id, instance);
    ledger.made({
      id: String(instance.id),
      name: order.label,
      usdPerHour: instance.usdPerHour,
      madeAtMs: instance.madeAtMs,
      foreign: false,
    });
    if (!order.stopped) void this.#live(instance, broken).catch((error: unknown) => this.#failed(instance, error));
    else instance.actual = "stopped";
    return instance;
  }

  async #live(instance: Instance, broken: boolean): Promise<void> {
    const { clock, faults } = this.#parts;
    await clock.wait(this.#timings.acceptedMs);
    if (instance.ended) return;
    instance.actual = "loading";
    instance.message = `Pulling from ${instance.order.image}`;
    const defect = this.hosts.defectOf(String(instance.offer.machineId));
    if (defect === "boot" || faults.take("boot_never")) return;
    const refused = faults.take("container_refused") ? NO_SUCH_DRIVER : null;
    const words = refused ?? (faults.take("image_missing") ? noSuchImage(instance.order.image) : null);
    if (words !== null) {
      await clock.wait(this.#timings.loadingMs);
      instance.message = words;
      return;
    }
    if (faults.take("boot_fails") || broken) {
      await clock.wait(this.#timings.loadingMs);
      instance.actual = "created";
      instance.message =
        "Error response from daemon: failed to create task for container: OCI runtime create failed: runc create failed: unable to start container process\n";
      return;
    }
    await this.#boot(instance, defect);
  }

  async #boot(instance: Instance, defect: HostDefect | null): Promise<void> {
    const { clock, fleet } = this.#parts;
    const { order, offer } = instance;
    const known = instance.attached.length;
    const machine = await fleet.boot({
      name: `market-${instance.id}`,
      authorizedKeys: [...instance.keysAtStart, ...instance.attached.map(({ key }) => key)],
      user: "root",
      env: {
        ...Object.fromEntries(Object.entries(order.env).filter(([name]) => !name.startsWith("-"))),
        CONTAINER_ID: String(instance.id),
        CONTAINER_API_KEY: instance.apiKey,
        VAST_CONTAINERLABEL: `C.${instance.id}`,
        GPU_COUNT: String(offer.numGpus),
        DATA_DIRECTORY: "/workspace/",
      },
      startScript: order.onstart === "" ? null : order.onstart,
      bootMs: this.#timings.loadingMs,
      gpus: offer.numGpus,
      gpuName: gpuShown(this.#parts.faults, `NVIDIA ${offer.gpuName}`, defect),
      diskMb: order.diskGb * 1024,
      apiPort: this.#apiPort(),
    });
    if (this.#gone(instance)) return machine.destroy();
    instance.machine = machine;
    // Keys that were attached meanwhile.
    for (const { key } of instance.attached.slice(known)) await machine.addKey(key);
    await this.#faults.booted(machine);
    instance.direct = await Forwarder.open(machine);
    instance.proxy = await Forwarder.open(machine);
    await clock.wait(this.#timings.loadingMs);
    if (this.#gone(instance)) return this.#tearDown(instance);
    instance.actual = "running";
    this.#bill(instance);
    instance.message = `success, running ${order.image}/ssh\n`;
    instance.portsAtMs = clock.now() + this.#timings.portsLateMs;
    this.#faults.running(machine, order.bid !== null);
    const forgotten = this.#timings.keysForgottenMs;
    if (forgotten !== null)
      void clock.wait(forgotten).then(async () => {
        if (instance.attached.length === 0 && !instance.ended) await machine.refuseKeys(true);
      });
  }

  #gone(instance: Instance): boolean {
    return instance.ended || instance.current !== "running";
  }

  #failed(instance: Instance, error: unknown): void {
    if (instance.ended) return;
    process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`);
    instance.actual = "offline";
  }

  async attach(instance: Instance, key: string): Promise<number> {
    const { machine } = instance;
    this.#id += 1;
    if (!instance.attached.some((one) => one.key === key)) instance.attached.push({ id: this.#id, key });
    if (machine !== null) {
      await machine.addKey(key);
      if (this.#timings.keysForgottenMs !== null && this.#parts.faults.get("key_refused") === null)
        await machine.refuseKeys(false);
    }
    return this.#id;
  }

  /**
   * Another user paid more, or the credit ran out: the instance halts without a notice, and its disk still costs money.
   */
  async outbid(instance: Instance): Promise<void> {
    this.#halt(instance);
    instance.current = "stopped";
    instance.intended = "stopped";
    instance.actual = "exited";
    instance.message = "";
    await this.#tearDown(instance);
  }

  /** A customer's stop; `start` begins again with an empty container. */
  async stop(instance: Instance): Promise<void> {
    instance.current = "stopped";
    instance.intended = "stopped";
    instance.actual = "stopped";
    this.#halt(instance);
    await this.#tearDown(instance);
  }

  #halt(instance: Instance): void {
    this.#parts.ledger.priced(String(instance.id), 0, this.#parts.clock.now());
  }

  #bill(instance: Instance): void {
    if (instance.machine === null) return;
    const usdPerHour = instance.usdPerHour * this.#rises(instance);
    this.#parts.ledger.priced(String(instance.id), usdPerHour, this.#parts.clock.now());
  }

  #rises({ actual }: Instance): number {
    const { faults } = this.#parts;
    const early = (faults.get("price_rises_early") ?? 100) / 100;
    return actual === "running" ? early * ((faults.get("price_rises") ?? 100) / 100) : early;
  }

  start(instance: Instance): void {
    if (instance.current === "running") return;
    instance.current = "running";
    instance.intended = "running";
    instance.actual = "loading";
    this.#parts.ledger.priced(String(instance.id), instance.usdPerHour, this.#parts.clock.now());
    void this.#boot(instance, this.hosts.defectOf(String(instance.offer.machineId))).catch((error: unknown) =>
      this.#failed(instance, error),
    );
  }

  async restart(instance: Instance, wipe: boolean): Promise<void> {
    if (instance.machine === null) return;
    instance.actual = wipe ? "recycling" : "rebooting";
    await instance.machine.restart({ wipe });
    if (!instance.ended) instance.actual = "running";
  }

  /** The end of the instance, whatever its cause. `terminated` and `self` take time. */
  async remove(instance: Instance, by: NonNullable<LedgerLine["endedBy"]>): Promise<void> {
    if (instance.ended) return;
    instance.ended = true;
    instance.current = "unloaded";
    await this.#tearDown(instance);
    if (by === "terminated" || by === "self") await this.#parts.clock.wait(this.#timings.teardownMs);
    this.all.delete(instance.id);
    this.#parts.ledger.ended(String(instance.id), by, this.#parts.clock.now());
    instance.offer.rented = false;
    instance.offer.rentable = true;
  }

  async #tearDown(instance: Instance): Promise<void> {
    const { machine, direct, proxy } = instance;
    instance.machine = null;
    instance.direct = null;
    instance.proxy = null;
    if (machine) this.#faults.gone(machine);
    await Promise.all([direct?.close(), proxy?.close(), machine?.destroy()]);
  }

  /** The end of the contract: halted at its `end_date`, deleted 48 hours later. */
  async settle(): Promise<void> {
    const now = this.#parts.clock.now();
    for (const instance of this.all.values()) {
      if (now > instance.endAtMs + 48 * 3_600_000) await this.remove(instance, "limit");
      else if (now > instance.endAtMs && instance.current === "running") await this.stop(instance);
    }
  }

  /** Whether a new instance is still missing from listings and gets. */
  hidden(instance: Instance): boolean {
    const lag = this.#parts.faults.get("listing_lag");
    return lag !== null && this.#parts.clock.now() - instance.madeAtMs < lag;
  }

  /** The instance in the form of `get` and of the list. Strings have the same white space as the real ones. */
  shown(instance: Instance): Record<string, unknown> {
    const { clock } = this.#parts;
    const { order, offer, direct, proxy, hostile } = instance;
    const up = instance.actual === "running" && direct !== null && proxy !== null && clock.now() >= instance.portsAtMs;
    const rises = this.#rises(instance);
    const port = direct === null ? 0 : this.shut === "direct" ? shutPort : direct.port;
    const jupyter = order.runtype.includes("jupyter");
    return {
      id: instance.id,
      label: order.label === "" ? null : order.label,
      machine_id: offer.machineId,
      host_id: offer.hostId,
      actual_status: instance.actual,
      intended_status: instance.intended,
      cur_state: instance.current,
      next_state: instance.intended,
      status_msg: instance.message === "" ? null : instance.message,
      image_uuid: order.image,
      image_runtype: order.runtype === "ssh_direct" ? "ssh_direc ssh_proxy" : order.runtype,
      extra_env: Object.entries(order.env),
      onstart: order.onstart,
      ssh_host: hostile ? "-oProxyCommand=touch${IFS}/tmp/owned" : "127.0.0.1",
      ssh_port: proxy === null ? null : (this.shut === "proxy" ? shutPort : proxy.port) - (jupyter ? 1 : 0),
      ssh_idx: "5",
      public_ipaddr: hostile ? "127.0.0.1; touch /tmp/owned #\n" : direct === null ? null : "127.0.0.1\n",
      ports: up
        ? {
            "22/tcp": [
              { HostIp: "0.0.0.0", HostPort: hostile ? "22 -oProxyCommand=id" : String(port) },
              { HostIp: "::", HostPort: hostile ? "$(id)" : String(port) },
            ],
          }
        : instance.actual === "running"
          ? {}
          : null,
      local_ipaddrs: "10.0.0.5 172.17.0.1 \n",
      gpu_name: offer.gpuName,
      num_gpus: offer.numGpus,
      gpu_util: 0,
      disk_space: order.diskGb,
      is_bid: order.bid !== null,
      min_bid: offer.minBid,
      dph_base: (order.bid ?? offer.dphBase) * rises,
      dph_total: instance.usdPerHour * rises,
      storage_cost: offer.storageCost,
      inet_up_cost: 0.003,
      inet_down_cost: 0.003,
      start_date: instance.madeAtMs / 1000,
      end_date: instance.endAtMs / 1000,
      duration: (instance.endAtMs - clock.now()) / 1000,
      uptime_mins: null,
      geolocation: offer.geolocation,
      reliability2: offer.reliability,
      verification: offer.verification,
      driver_version: "570.86.10",
    };
  }

  /** The price of the next machine as a factor of its offer's price. */
  dearer(): number {
    return ((strike(this.#parts.faults, "price_higher") ?? 100) / 100) * moved(this.#parts.faults);
  }
}

/** The change of prices since the search, as a factor. */
export const moved = (faults: SimParts["faults"]): number => (faults.get("price_moves") ?? 100) / 100;

/** A port of this computer without a listener: privileged, and of an obsolete service. */
const shutPort = 1;
