// A control plane with machines to rent: `svc serve` as a user starts it, with a simulated provider whose machines are
// real, each with an sshd, all on this computer.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SshEndpoint } from "../../src/domain/endpoint.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import { HostKeyPins } from "../../src/ssh/host-keys.ts";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { sshArguments } from "../../src/ssh/system-ssh.ts";
import { makeFleet } from "../../test/sim/machines/fleet.ts";
import { realClock } from "../../test/sim/providers/clock.ts";
import { makeFaults } from "../../test/sim/providers/faults.ts";
import { makeLedger } from "../../test/sim/providers/ledger.ts";
import type { Faults, Fleet, SimLedger } from "../../test/sim/providers/parts.ts";
import { PodhostSim } from "../../test/sim/providers/podhost.ts";
import type { LoopDelay } from "./loop-delay.ts";
import { pause } from "./measure.ts";
import { Served } from "./served.ts";

/** An event of the feed, and the time of its arrival here. */
export interface Seen {
  type: string;
  jobId: string | null;
  data: Record<string, unknown>;
  atMs: number;
}

const SPEC = { provider: "podhost", gpus: "RTX4090:1", price_cap: 5, install: "none" };
const ENDED_WITHIN_MS = 60_000;

export class RentedWorld {
  readonly served: Served;
  readonly sim: PodhostSim;
  readonly fleet: Fleet;
  readonly home: string;
  readonly faults: Faults;
  readonly events: Seen[] = [];
  readonly #ledger: SimLedger;
  readonly #socket: WebSocket;
  readonly #loopFile: string;
  readonly #waiting = new Set<() => void>();

  private constructor(
    parts: Pick<RentedWorld, "served" | "sim" | "fleet" | "home" | "faults">,
    ledger: SimLedger,
    loop: string,
  ) {
    this.served = parts.served;
    this.sim = parts.sim;
    this.fleet = parts.fleet;
    this.home = parts.home;
    this.faults = parts.faults;
    this.#ledger = ledger;
    this.#loopFile = loop;
    this.#socket = new WebSocket(`${this.served.url.replace(/^http/, "ws")}/v1/events`);
    this.#socket.addEventListener("message", ({ data }) => {
      const event = JSON.parse(String(data)) as { type: string; job_id: string; data?: Record<string, unknown> };
      this.events.push({
        type: event.type,
        jobId: event.job_id,
        data: event.data ?? {},
        atMs: performance.now(),
      });
      for (const look of this.#waiting) look();
    });
  }

  /** `folder` must exist and belong to this world alone; runs take their code from `project`. `loop` needs `isLoopMeasured`. */
  static async start(folder: string, project: string, { isLoopMeasured = false } = {}): Promise<RentedWorld> {
    const home = join(folder, "home");
    const machines = join(folder, "machines");
    mkdirSync(machines);
    const fleet = await makeFleet({ dir: machines });
    const ledger = makeLedger();
    const parts = { fleet, ledger, faults: makeFaults(), clock: realClock(), apiKey: "bench-key-0123456789" };
    // The machine's sshd answers as soon as the provider reports its ports.
    const sim = await PodhostSim.start({ ...parts, timings: { pullMs: 100, portsMs: 100, sshdMs: 0 } });
    const loop = join(folder, "loop.json");
    const preload = join(import.meta.dirname, "loop-delay.ts");
    const env = {
      ...sim.settings().env,
      SVC_GATE_INDEX: "off",
      // It writes a file twice a second, which would count as the control plane's own work.
      ...(isLoopMeasured ? { SVC_BENCH_LOOP: loop, NODE_OPTIONS: `--import=${preload}` } : {}),
    };
    const served = await Served.start(home, project, env);
    const world = new RentedWorld({ served, sim, fleet, home, faults: parts.faults }, ledger, loop);
    await new Promise<void>((resolve, reject) => {
      world.#socket.addEventListener("open", () => resolve());
      world.#socket.addEventListener("error", () => reject(new Error("the feed cannot be read")));
    });
    return world;
  }

  submit(spec: Record<string, unknown>): Promise<string> {
    return this.served.submit({ ...SPEC, ...spec });
  }

  /** Resolves once `holds` returns true; checks it at each event. */
  until(holds: () => boolean, ms: number, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
      };
      const look = (): void => {
        if (!holds()) return;
        over();
        resolve();
      };
      const timer = setTimeout(() => {
        over();
        reject(new Error(`not within ${ms / 1000} s: ${what}`));
      }, ms);
      this.#waiting.add(look);
      look();
    });
  }

  /** The endpoint of the job's machine. */
  async machineOf(jobId: string): Promise<{ name: string; endpoint: SshEndpoint }> {
    const record = JSON.parse((await this.served.get(`/jobs/${jobId}`)).body.toString()) as JobRecord;
    const held = record.machines.at(-1);
    const tunnel = this.sim.pods.all.get(held?.id ?? "")?.tunnel;
    if (!held || !tunnel) throw new Error(`the job ${jobId} holds no machine`);
    return { name: held.name, endpoint: { host: tunnel.host, port: tunnel.port, user: "root" } };
  }

  /** The OpenSSH command with the same options, key and pin that svc uses. */
  async ssh(machine: { name: string; endpoint: SshEndpoint }): Promise<string[]> {
    const key = await loadSshKey({ path: null, home: this.home });
    return sshArguments({
      machine: machine.name,
      endpoint: machine.endpoint,
      key,
      pins: new HostKeyPins(this.home),
    });
  }

  forgetLoop(): void {
    process.kill(this.served.pid, "SIGUSR2");
  }

  async loop(): Promise<LoopDelay> {
    await pause(600);
    return JSON.parse(readFileSync(this.#loopFile, "utf8")) as LoopDelay;
  }

  /** Ends all runs; throws if a machine remains that costs money. */
  async endAll(ms = ENDED_WITHIN_MS): Promise<void> {
    const { status } = await this.served.post("/jobs/kill", { all: true });
    if (status !== 202) throw new Error(`POST /jobs/kill: ${status}`);
    const end = performance.now() + ms;
    while (this.#ledger.alive().length > 0) {
      if (performance.now() > end) throw new Error(`${this.#ledger.alive().length} machines are left`);
      await pause(50);
    }
  }

  alive(): number {
    return this.#ledger.alive().length;
  }

  async close(): Promise<void> {
    this.#socket.close();
    await this.served.kill();
    await this.sim.close();
    await this.fleet.close();
  }
}

/** Milliseconds from the start of a program until its first output; `over` resolves when it has ended. */
export async function firstByte(program: string, args: readonly string[]): Promise<number> {
  const start = performance.now();
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  let at = Number.NaN;
  child.stdout.once("data", () => {
    at = performance.now() - start;
    child.kill();
  });
  await ended;
  if (Number.isNaN(at)) throw new Error(`${program} wrote nothing`);
  return at;
}
