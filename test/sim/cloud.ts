// The provider's side of the world: its own list of machines, its own bill, and its faults. The control plane under
// test sees this only through the calls of `SimProvider`.
//
// C1. A request that was sent takes effect within the declared horizon or never.
// C2. A machine may be missing from a listing for the declared lag after it appears, and be in it that long after it is gone.
// C3. `inspect` tells the truth. `terminate` may fail, be late, or be accepted and forgotten until it is requested
//     again.
// C4. A machine with a limit ends itself then, within GUARD_MS. Its guard begins with the machine, also where the rest never boots.

import { PRICE_MICRO, type Plan } from "./plan.ts";
import type { World } from "./world.ts";

export interface CloudMachine {
  id: string;
  name: string;
  jobId: string;
  node: number;
  provider: string;
  /** The job's placement; 0 for a foreign machine. */
  placement: number;
  priceMicro: number;
  /** The price per hour until it is ready, if that is a lower one: micro-dollars. */
  bootMicro: number | null;
  limitAt: number | null;
  landedAt: number;
  readyAt: number;
  goneAt: number | null;
  /** By the provider, with or without a word. */
  takenBack: boolean;
  preempted: boolean;
  /** The machine never boots, because of its host. */
  bad: boolean;
  /** One of two machines that the provider made for one order: svc uses the first one that it finds, and a sweep finds the other. */
  doubled: boolean;
  foreign: boolean;
  /** The number of calls of terminate that the cloud will accept and forget. */
  lies: number;
  /** `from`: the checkpoint from which it started, in units of CHECKPOINT_MS of work. */
  run: { nonce: string; startedAt: number; endsAt: number; exitCode: number; from: number } | null;
}

/** A request that was sent and has not taken effect yet. */
export interface Flight {
  name: string;
  jobId: string;
  node: number;
  provider: string;
  placement: number;
  /** When its guard ends it; null or absent for never. */
  limitAt?: number | null;
}

/** Work between two checkpoints. */
export const CHECKPOINT_MS = 1_000;

/** The guard looks every two seconds. */
const GUARD_MS = 2_000;
const DEAR_MICRO = 2_500_000;
const BOOT_MICRO = 15_000;

/** Micro-dollars that the provider bills for a machine from one instant to another, in milliseconds. */
export function billMicro({ priceMicro, bootMicro, readyAt }: CloudMachine, from: number, to: number): number {
  const bootMs = bootMicro === null ? 0 : Math.max(0, Math.min(readyAt, to) - from);
  return (priceMicro * (to - from - bootMs) + (bootMicro ?? 0) * bootMs) / 3_600_000;
}

export class Cloud {
  readonly machines: CloudMachine[] = [];
  readonly world: World;
  readonly plan: Plan;
  creates = 0;
  readonly #flights = new Set<Flight>();
  readonly #started = new Set<string>();
  /** When the guard of each order's machine would end it. */
  readonly #limits = new Map<string, number | null>();
  #badHosts = 0;
  #preempted = false;
  readonly #fail: (what: string) => void;

  constructor(world: World, plan: Plan, fail: (what: string) => void) {
    this.world = world;
    this.plan = plan;
    this.#fail = fail;
    for (const name of ["svc-0therone-j1-n0-1", "svc-simulat-j1-n0-1", "somebody-elses"]) {
      const order = { name, jobId: "", node: 0, provider: "podhost", placement: 0 };
      this.#make(order, { doubled: false, foreign: true });
    }
  }

  alive(machine: CloudMachine): boolean {
    return machine.goneAt === null || machine.goneAt > this.world.now;
  }

  /** Our machines that run and cost money. */
  running(): CloudMachine[] {
    return this.machines.filter((m) => !m.foreign && this.alive(m));
  }

  /** Requests that may still become machines. */
  get inFlight(): number {
    return this.#flights.size;
  }

  billedMs(): number {
    return this.machines
      .filter((m) => !m.foreign)
      .reduce((sum, m) => sum + Math.min(m.goneAt ?? Infinity, this.world.now) - m.landedAt, 0);
  }

  find(id: string): CloudMachine | undefined {
    return this.machines.find((m) => m.id === id && this.alive(m));
  }

  #make(order: Flight, how: { doubled: boolean; foreign: boolean }): CloudMachine {
    const { rng, now } = this.world;
    const { faults, ideal } = this.plan;
    const machine: CloudMachine = {
      id: `m${this.machines.length}`,
      ...order,
      ...how,
      limitAt: null,
      priceMicro: rng.chance(faults.dearer) ? DEAR_MICRO : PRICE_MICRO,
      bootMicro: rng.chance(faults.cheapBoot) ? BOOT_MICRO : null,
      landedAt: now,
      readyAt: rng.chance(faults.neverReady) ? Infinity : now + (ideal ? 20 : rng.int(0, rng.pick([1_000, 90_000]))),
      goneAt: null,
      takenBack: false,
      preempted: false,
      bad: !how.foreign && (this.#badHosts++ < (this.plan.scripted?.badHosts ?? 0) || rng.chance(faults.badHost)),
      lies: rng.chance(faults.terminateLies) ? rng.int(1, 3) : 0,
      run: null,
    };
    this.machines.push(machine);
    this.limit(machine, order.limitAt ?? null);
    if (!how.foreign && rng.chance(faults.vanishes)) {
      const preempted = rng.chance(faults.preempts);
      this.world.schedule(rng.int(0, rng.pick([5_000, 30 * 60_000])), "vanish", null, () =>
        this.#takeBack(machine, preempted),
      );
    }
    return machine;
  }

  #end(machine: CloudMachine, why: string): void {
    if (!this.alive(machine)) return;
    this.world.say(`cloud: ${machine.id} ${machine.name} ${why}`);
    machine.goneAt = this.world.now;
  }

  /** The machine's guard gets another deadline. */
  limit(machine: CloudMachine, at: number | null): void {
    machine.limitAt = at;
    if (at === null) return;
    const ms = Math.max(0, at - this.world.now) + this.world.rng.int(0, GUARD_MS);
    this.world.schedule(ms, "guard", null, () => {
      if (machine.limitAt === at) this.#end(machine, "ended itself for the budget");
    });
  }

  /** Micro-dollars of the job's machines. @param seen orders that svc found: without a trace is only what the provider took back before that. */
  bill(jobId: string, seen: ReadonlySet<string>): { micro: number; isDear: boolean; isDoubled: boolean } {
    const own = this.machines.filter((m) => m.jobId === jobId && !m.foreign && (seen.has(m.name) || !m.takenBack));
    const end = (m: CloudMachine): number => Math.min(m.goneAt ?? Infinity, this.world.now);
    return {
      micro: own.reduce((sum, m) => sum + billMicro(m, m.landedAt, end(m)), 0),
      isDear: own.some((m) => m.priceMicro > PRICE_MICRO),
      isDoubled: own.some((m) => m.doubled),
    };
  }

  /**
   * The limit that left with an order; null for none, undefined if it never left, or if the provider took the machine back before this
   * instant: then it did not run until its limit, and `bill` leaves it out as well.
   */
  limitOf(name: string, before: number): number | null | undefined {
    const own = this.machines.filter((machine) => machine.name === name);
    const isTakenBack = own.every(({ takenBack, goneAt }) => takenBack && goneAt !== null && goneAt <= before);
    return own.length > 0 && isTakenBack ? undefined : this.#limits.get(name);
  }

  #takeBack(machine: CloudMachine, preempted: boolean): void {
    if (!this.alive(machine)) return;
    machine.takenBack = true;
    machine.preempted = preempted;
    this.#end(machine, preempted ? "was preempted" : "vanished");
  }

  /** The request is sent now. Calls `answer` when an answer arrives, if one does. */
  create(order: Flight, answer: (delayMs: number, result: CloudMachine | Error) => void): void {
    const { rng } = this.world;
    const { faults, certainty, ideal } = this.plan;
    this.creates++;
    this.#checkAlone(order);
    const latency = (): number => (ideal ? 5 : rng.int(1, 800));
    if (rng.chance(faults.createFailsBefore)) return answer(latency(), new Error("no capacity"));
    const lands = ideal
      ? 5
      : rng.chance(faults.createLate)
        ? rng.chance(0.4)
          ? certainty.horizonMs
          : rng.int(0, certainty.horizonMs)
        : rng.int(0, 800);
    const flight: Flight = { ...order };
    this.#limits.set(order.name, order.limitAt ?? null);
    this.#flights.add(flight);
    const lost = rng.chance(faults.createLost);
    this.world.schedule(lands, "land", null, () => {
      this.#flights.delete(flight);
      const doubled = rng.chance(faults.createDoubles);
      const machine = this.#make(order, { doubled, foreign: false });
      this.world.say(`cloud: ${machine.id} ${order.name} runs`);
      if (doubled) this.#make(order, { doubled, foreign: false });
      if (lost) return;
      if (rng.chance(faults.createFailsAfter)) answer(latency(), new Error("internal error"));
      else answer(rng.chance(faults.createAnswersSlowly) ? rng.int(1_000, 120_000) : latency(), machine);
    });
    if (lost) answer(rng.int(100, 60_000), new Error("timed out"));
  }

  /**
   * Checks the rule of one machine per node and one placement per job: every earlier order must really be gone. The other nodes of the same
   * placement may run.
   */
  #checkAlone({ name, jobId, node, placement }: Flight): void {
    const earlier = (m: Pick<Flight, "jobId" | "placement">): boolean => m.jobId === jobId && m.placement !== placement;
    for (const m of this.running())
      if (earlier(m) && !m.doubled) this.#fail(`${name} of placement ${placement} was ordered while ${m.name} runs`);
    for (const f of this.#flights)
      if (earlier(f)) this.#fail(`${name} of placement ${placement} was ordered while ${f.name} may still be made`);
    const same = (m: { name: string; jobId: string; node: number }): boolean => m.jobId === jobId && m.node === node;
    for (const m of this.running()) if (same(m) && !m.doubled) this.#fail(`${name} was ordered while ${m.name} runs`);
    for (const f of this.#flights)
      if (same(f)) this.#fail(`${name} was ordered while the request for ${f.name} is under way`);
  }

  /** A script started on this machine. A node's script starts once per placement, whatever the machine. */
  started(machine: CloudMachine): void {
    const node = `${machine.jobId} node ${machine.node} of placement ${machine.placement}`;
    const { preemptAfterMs } = this.plan.scripted ?? {};
    if (preemptAfterMs !== undefined && !this.#preempted) {
      this.#preempted = true;
      this.world.schedule(preemptAfterMs, "preempt", null, () => this.#takeBack(machine, true));
    }
    if (this.#started.has(node)) this.#fail(`the script of ${node} was started a second time, on ${machine.name}`);
    this.#started.add(node);
  }

  list(prefix: string, provider: string): CloudMachine[] {
    const { rng, now } = this.world;
    const lag = this.plan.certainty.listingLagMs;
    return this.machines.filter((m) => {
      if (!m.name.startsWith(prefix) || m.provider !== provider) return false;
      const goneFor = m.goneAt === null ? -1 : now - m.goneAt;
      if (goneFor >= 0) return !this.plan.ideal && goneFor < lag && rng.chance(0.3);
      return this.plan.ideal || now - m.landedAt >= lag || rng.chance(0.4);
    });
  }

  terminate(id: string): void {
    const machine = this.machines.find((m) => m.id === id);
    if (!machine) return;
    if (machine.foreign) this.#fail(`the foreign machine ${machine.name} was terminated`);
    if (machine.lies > 0) {
      machine.lies--;
      return;
    }
    if (!this.plan.ideal && this.world.rng.chance(0.3)) {
      this.world.schedule(this.world.rng.int(1, 20_000), "end", null, () => this.#end(machine, "ended late"));
    } else this.#end(machine, "ended");
  }
}
