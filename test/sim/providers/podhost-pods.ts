// The pods of the simulated pod host: their creation, life and end.
//
// P1. A pod costs money from its creation until its end, even if the answer is lost.
// P2. `desiredStatus` shows the request; only `runtime` shows the state.
// P3. An ended pod reads EXITED for a while, then is missing.

import { randomBytes } from "node:crypto";
import { strike } from "./faults.ts";
import { Forwarder } from "./forwarder.ts";
import { Hosts } from "./hosts.ts";
import { gpuShown, MachineFaults } from "./machine-faults.ts";
import type { LedgerLine, SimMachine, SimParts } from "./parts.ts";
import { noSuchImage, NO_SUCH_DRIVER } from "./runtime-words.ts";
import { podGpus, type PodGpu } from "./podhost-catalogue.ts";

export interface PodTimings {
  /** Time from creation until listings and gets show the pod. */
  listedMs: number;
  /** Time until its container runs: the image is pulled. */
  pullMs: number;
  /** Time from then until its ports are listed. */
  portsMs: number;
  /** Time from then until sshd answers. */
  sshdMs: number;
  /** How long an ended pod still shows EXITED. */
  exitedMs: number;
}

export const POD_TIMINGS: PodTimings = { listedMs: 0, pullMs: 200, portsMs: 100, sshdMs: 100, exitedMs: 200 };

export interface PodRequest {
  name: string;
  imageName: string;
  gpu: PodGpu;
  gpuCount: number;
  cloud: "SECURE" | "COMMUNITY";
  dataCenterId: string | null;
  env: Record<string, string>;
  dockerArgs: string | null;
  ports: string;
  containerDiskInGb: number;
  volumeInGb: number;
  interruptible: boolean;
  private: boolean;
}

export interface Pod extends PodRequest {
  id: string;
  machineId: string;
  madeAtMs: number;
  desiredStatus: "RUNNING" | "EXITED" | "TERMINATED";
  lastStatusChange: string;
  costPerHr: number;
  up: boolean;
  broken: boolean;
  /** The output of its host's runtime; served as the pod's log. */
  log: string;
  machine: SimMachine | null;
  tunnel: Forwarder | null;
  portsShown: boolean;
  /** A key that opens only this pod. */
  key: string;
  startedAtMs: number;
  exitedAtMs: number | null;
  deletesToIgnore: number;
}

const idText = (length: number): string => {
  const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  return [...randomBytes(length)].map((byte) => letters[byte % letters.length]).join("");
};

/** The number of hosts, which receive orders in turn: the customer cannot choose one. */
const HOSTS = 8;

export class PodhostPods {
  readonly all = new Map<string, Pod>();
  readonly gpus: PodGpu[] = podGpus();
  readonly timings: PodTimings;
  /** By `machineId`. */
  readonly hosts: Hosts;
  readonly #hostIds = Array.from({ length: HOSTS }, () => idText(12));
  #turn = 0;
  readonly #parts: SimParts;
  readonly #faults: MachineFaults;
  readonly #apiPort: () => number;
  closed = false;

  constructor(parts: SimParts, timings: Partial<PodTimings>, apiPort: () => number) {
    this.#parts = parts;
    this.timings = { ...POD_TIMINGS, ...timings };
    this.#apiPort = apiPort;
    this.hosts = new Hosts(parts.faults);
    this.#faults = new MachineFaults(parts, {
      vanish: (machine) => this.end(this.#of(machine), "vanished"),
      preempt: (machine) => this.end(this.#of(machine), "preempted"),
      swapPort: async (machine) => await this.#of(machine)?.tunnel?.changePort(),
    });
    parts.faults.on((name) => {
      if (name.startsWith("price_rises")) for (const pod of this.all.values()) this.#bill(pod);
    });
  }

  #of(machine: SimMachine): Pod | undefined {
    return [...this.all.values()].find((pod) => pod.machine === machine);
  }

  date(ms = this.#parts.clock.now()): string {
    // The form of JavaScript's dates in UTC: `Mon Jun 01 2026 12:00:00 GMT+0000 (Coordinated Universal Time)`.
    const [weekday, day, month, year, time] = new Date(ms).toUTCString().split(/,? /);
    return `${weekday} ${month} ${day} ${year} ${time} GMT+0000 (Coordinated Universal Time)`;
  }

  /** A foreign pod that runs. */
  foreign(name: string, id = idText(14)): Pod {
    const [gpu] = this.gpus;
    if (!gpu) throw new Error("the catalogue is empty");
    const request: PodRequest = {
      name,
      imageName: "runpod/stable",
      gpu,
      gpuCount: 1,
      cloud: "SECURE",
      dataCenterId: "US-TX-3",
      env: {},
      dockerArgs: null,
      ports: "22/tcp",
      containerDiskInGb: 20,
      volumeInGb: 0,
      interruptible: false,
      private: false,
    };
    return this.#record(request, id, true);
  }

  make(request: PodRequest): Pod {
    const pod = this.#record(request, idText(14), false);
    void this.#live(pod);
    return pod;
  }

  #record(request: PodRequest, id: string, foreign: boolean): Pod {
    const { clock, ledger, faults } = this.#parts;
    const now = clock.now();
    const usual =
      (request.cloud === "SECURE" ? request.gpu.securePrice : request.gpu.communityPrice) * request.gpuCount;
    const moves = foreign ? 100 : (faults.get("price_moves") ?? 100);
    const dearer = foreign ? null : strike(faults, "price_higher");
    const pod: Pod = {
      ...request,
      id,
      machineId: this.#hostIds[this.#turn++ % HOSTS] ?? "",
      madeAtMs: now,
      desiredStatus: "RUNNING",
      lastStatusChange: `Rented by User: ${this.date(now)}`,
      costPerHr: Number((usual * ((dearer ?? 100) / 100) * (moves / 100)).toFixed(4)),
      up: foreign,
      broken: false,
      log: "create container\npulling image\n",
      machine: null,
      tunnel: null,
      portsShown: false,
      key: `rpa_${idText(40)}`,
      startedAtMs: now,
      exitedAtMs: null,
      deletesToIgnore: 0,
    };
    this.all.set(pod.id, pod);
    ledger.made({ id: pod.id, name: pod.name, usdPerHour: pod.costPerHr, madeAtMs: now, foreign });
    return pod;
  }

  async #live(pod: Pod): Promise<void> {
    const { clock, faults, fleet } = this.#parts;
    const { pullMs, portsMs, sshdMs } = this.timings;
    const alive = (): boolean => !this.closed && pod.desiredStatus === "RUNNING" && this.all.has(pod.id);
    const defect = this.hosts.defectOf(pod.machineId);
    const never = defect === "boot" || faults.take("boot_never");
    const fails = faults.take("boot_fails");
    const refused = faults.take("container_refused") ? NO_SUCH_DRIVER : null;
    const words = refused ?? (faults.take("image_missing") ? noSuchImage(pod.imageName) : null);
    await clock.wait(pullMs);
    if (words !== null) pod.log += words;
    if (!alive() || never || words !== null) return;
    if (fails) return this.#fail(pod);
    try {
      const machine = await fleet.boot({
        name: pod.id,
        authorizedKeys: fleet.kind === "plain" ? [pod.env["PUBLIC_KEY"] ?? ""] : [],
        user: "root",
        env: { ...this.#environment(pod), ...pod.env },
        startScript: startScript(pod, fleet.kind),
        bootMs: portsMs + sshdMs,
        gpus: pod.gpuCount,
        gpuName: gpuShown(this.#parts.faults, pod.gpu.id, defect),
        diskMb: 2048,
        apiPort: this.#apiPort(),
      });
      if (!alive()) return await machine.destroy();
      pod.machine = machine;
      await this.#faults.booted(machine);
      pod.tunnel = await Forwarder.open(machine);
    } catch (error) {
      // The pod was ended while it booted.
      if (!alive()) return this.#release(pod);
      process.stderr.write(`simulator: ${String(error)}\n`);
      return this.#fail(pod);
    }
    if (!alive()) return this.#release(pod);
    pod.up = true;
    this.#bill(pod);
    pod.startedAtMs = clock.now();
    await clock.wait(portsMs);
    if (!alive()) return;
    pod.portsShown = true;
    this.#faults.running(pod.machine, pod.interruptible);
  }

  #fail(pod: Pod): void {
    pod.broken = true;
    pod.desiredStatus = "EXITED";
    pod.lastStatusChange = `Exited by Runpod: ${this.date()}`;
  }

  #environment(pod: Pod): Record<string, string> {
    return {
      RUNPOD_POD_ID: pod.id,
      RUNPOD_API_KEY: pod.key,
      RUNPOD_DC_ID: pod.dataCenterId ?? "US-TX-3",
      RUNPOD_POD_HOSTNAME: `${pod.id}-64411eb2`,
      RUNPOD_GPU_COUNT: String(pod.gpuCount),
      RUNPOD_CPU_COUNT: "8",
      RUNPOD_PUBLIC_IP: "127.0.0.1",
      RUNPOD_TCP_PORT_22: "22",
      CUDA_VERSION: "12.8.1",
      PYTORCH_VERSION: "2.8.0",
    };
  }

  async #release(pod: Pod): Promise<void> {
    const { machine, tunnel } = pod;
    pod.machine = null;
    pod.tunnel = null;
    if (machine) this.#faults.gone(machine);
    await Promise.all([machine?.destroy(), tunnel?.close()]);
  }

  /** Ends the pod and its machine. */
  async end(pod: Pod | undefined, by: NonNullable<LedgerLine["endedBy"]>): Promise<void> {
    if (!pod || pod.exitedAtMs !== null) return;
    const { clock, ledger } = this.#parts;
    const words = {
      terminated: "Terminated by User",
      self: "Terminated by User",
      preempted: "Outbid",
      vanished: "",
      limit: "",
    }[by];
    pod.desiredStatus = by === "preempted" ? "TERMINATED" : "EXITED";
    pod.lastStatusChange = `${words}: ${this.date()}`;
    pod.exitedAtMs = clock.now();
    ledger.ended(pod.id, by, clock.now());
    if (by === "vanished") this.all.delete(pod.id);
    await this.#release(pod);
    // The end took time; the ended pod still stays visible for some time.
    pod.exitedAtMs = clock.now();
  }

  /** Frees the GPU; the pod stays and its disk costs money. */
  async stop(pod: Pod): Promise<void> {
    pod.desiredStatus = "EXITED";
    pod.lastStatusChange = `Exited by User: ${this.date()}`;
    this.#parts.ledger.priced(pod.id, 0, this.#parts.clock.now());
    await this.#release(pod);
  }

  /** The pods that a customer can see now, oldest first. */
  seen(): Pod[] {
    const now = this.#parts.clock.now();
    const lag = Math.max(this.timings.listedMs, this.#parts.faults.get("listing_lag") ?? 0);
    for (const pod of this.all.values())
      if (pod.exitedAtMs !== null && now - pod.exitedAtMs > this.timings.exitedMs) this.all.delete(pod.id);
    return [...this.all.values()].filter((pod) => now - pod.madeAtMs >= lag);
  }

  #bill(pod: Pod): void {
    if (pod.up ? pod.machine : this.#parts.faults.get("price_rises_early"))
      this.#parts.ledger.priced(pod.id, this.price(pod), this.#parts.clock.now());
  }

  price(pod: Pod): number {
    const { faults } = this.#parts;
    const early = (faults.get("price_rises_early") ?? 100) / 100;
    return pod.costPerHr * early * (pod.up ? (faults.get("price_rises") ?? 100) / 100 : 1);
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.all.values()].map((pod) => this.#release(pod)));
  }
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/**
 * The container's command: the image's own /start.sh, or the command that replaces it. When it ends, it is started
 * again.
 */
function startScript({ dockerArgs }: Pod, kind: "namespaces" | "plain"): string | null {
  // With this computer's own files, no script may run as root.
  if (kind === "plain") return null;
  return `cat >/start.sh <<'START'
#!/bin/bash
umask 077
mkdir -p /root/.ssh
[ -z "$PUBLIC_KEY" ] || printf '%s\\n' "$PUBLIC_KEY" >>/root/.ssh/authorized_keys
[ -z "$JUPYTER_PASSWORD" ] || echo "jupyter is not part of this image"
exec sleep infinity
START
chmod 755 /start.sh
cd /
${command(dockerArgs)}
echo "the container's command ended with $?" >&2
sleep 1
kill -USR1 1
`;
}

function command(dockerArgs: string | null): string {
  if (dockerArgs === null || dockerArgs.trim() === "") return "/start.sh";
  if (dockerArgs.trimStart().startsWith("{")) {
    const { cmd = [], entrypoint = [] } = JSON.parse(dockerArgs) as { cmd?: string[]; entrypoint?: string[] };
    return [...entrypoint, ...cmd].map(quoted).join(" ");
  }
  return `bash -c ${quoted(dockerArgs)}`;
}
