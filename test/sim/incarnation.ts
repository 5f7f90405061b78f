// One life of the control plane: the real engine, ledger, steps, sweep and SQLite, from the opening of the store to its
// death, which may come at any boundary. Afterwards nothing that this life has started has any effect, except requests
// that were already sent.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/domain/clock.ts";
import { Budgets } from "../../src/engine/budgets.ts";
import { Engine } from "../../src/engine/engine.ts";
import { FreedMachines } from "../../src/engine/freed-machines.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { reconcile, sweep, type ReconcileParts } from "../../src/engine/reconcile.ts";
import type { FeedEvent } from "../../src/schemas/job.ts";
import type { RunSpec } from "../../src/schemas/spec.ts";
import { MachineLooks } from "../../src/steps/rental/machine-looks.ts";
import { TunnelOutages } from "../../src/steps/rental/tunnel-outage.ts";
import type { StepPorts } from "../../src/steps/ports.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { openStore } from "../../src/store/database.ts";
import { EngineStore } from "../../src/store/engine-store.ts";
import { candidateSpec, withoutBadImages } from "../../src/domain/candidates.ts";
import { PROVIDERS } from "./plan.ts";
import { SimProvider, type Caller } from "./provider.ts";
import { simulatedSteps } from "./steps.ts";
import type { Simulation } from "./simulation.ts";
import type { Shadow } from "./watch.ts";

export const INSTALLATION = "simulation000001";
const SWEEP_EVERY_MS = 10 * 60_000;
const HEALTH_EVERY_MS = 3 * 60_000;
/** Longer than any delay by a slow commit or a full disk. */
const OVERDUE_MS = 90_000;

export class Incarnation implements Caller {
  alive = true;
  /** Another process has taken over: this one continues without knowing it, and its writes must not count. */
  usurped = false;
  readonly engine: Engine;
  readonly store: EngineStore;
  readonly #sim: Simulation;
  readonly #clock: Clock;
  readonly #statements: ReturnType<Shadow["statements"]>;
  readonly #active = new Set<string>();
  /** How often this life started each effect, and how often when the last check saw it running without a process. */
  readonly #begun = new Map<number, number>();
  readonly #suspects = new Map<number, number>();
  readonly #parts: ReconcileParts;
  readonly #freed: FreedMachines;
  readonly #budgets: Budgets | null;
  readonly providers: ReadonlyMap<string, SimProvider>;
  readonly #bornAt: number;
  /** Groups of callers that may run again; every other one has to. */
  #groups = 0;
  #lastSeq = 0;
  #due;

  static async open(sim: Simulation): Promise<Incarnation> {
    const opened = await openStore(sim.home, {
      newInstallationId: INSTALLATION,
      now: sim.world.now,
      synchronous: "OFF",
    });
    return new Incarnation(sim, new EngineStore(opened));
  }

  private constructor(sim: Simulation, store: EngineStore) {
    this.#sim = sim;
    this.store = store;
    this.#bornAt = sim.world.now;
    sim.shadow.guard(store);
    this.#statements = sim.shadow.statements(store);
    this.#due = {
      effect: store.db.prepare<[number], { state: string; attempt: number }>(
        "SELECT state, attempt FROM effect WHERE id = ?",
      ),
      timers: store.db.prepare<[number], { job_id: string; name: string }>(
        "SELECT job_id, name FROM timer JOIN job ON job.id = job_id WHERE due < ? AND parked IS NULL",
      ),
      retries: store.db.prepare<[number], { id: number }>(
        "SELECT effect.id FROM effect JOIN job ON job.id = job_id WHERE effect.state = 'retrying' AND next_at < ? AND parked IS NULL",
      ),
      running: store.db.prepare<[number], { id: number; attempt: number }>(
        `SELECT effect.id, effect.attempt FROM effect JOIN job ON job.id = job_id JOIN attempt ON effect_id = effect.id AND attempt.attempt = effect.attempt
         WHERE effect.state = 'running' AND attempt.started_at < ? AND parked IS NULL`,
      ),
    };
    const { world } = sim;
    this.#clock = {
      now: () => world.now,
      monotonic: () => world.now,
      setTimer: (ms, fn) => world.schedule(ms + (sim.plan.ideal ? 0 : world.rng.int(0, 3)), "timer", this, fn),
    };
    const services = {} as RunServices;
    const providers = new Map(
      PROVIDERS.map((name) => [name as string, new SimProvider(name, sim.cloud, this, sim.jobs)]),
    );
    const provider = (name: string): SimProvider => {
      const found = providers.get(name);
      if (!found) throw new TypeError(`there is no provider ${name}`);
      return found;
    };
    const steps = simulatedSteps({
      world,
      plan: sim.plan,
      providerOf: (handle) => provider(handle.provider),
      contact: ({ id }, jobId) => {
        const machine = sim.cloud.find(id);
        const limit = sim.plan.budgets?.guards === true && this.alive ? this.#budgets?.limit(jobId) : undefined;
        if (machine && limit !== undefined)
          sim.cloud.limit(machine, limit === null ? null : world.now + limit.endSeconds * 1_000);
      },
      saved: (handle) => sim.saw(handle),
      services,
      sleep: (ms, signal) => this.#sleep(ms, signal),
      began: (context) => this.#began(context),
      ended: (context) => this.#active.delete(`${context.effectId}/${context.attempt}`),
    });
    const say = (message: string): void => world.say(`report: ${message.replaceAll(sim.home, "HOME")}`);
    this.engine = new Engine({
      store,
      steps,
      clock: this.#clock,
      defer: (fn) => void world.schedule(sim.commitDelay(), "commit", this, fn),
      probe: (point) => this.probe(point),
      publish: (events) => this.#published(events),
      report: say,
    });
    this.#budgets = sim.plan.budgets && new Budgets({ engine: this.engine, startTimes: () => null, report: say });
    this.#freed = new FreedMachines(this.engine);
    const ledger = new DurableLedger(this.engine);
    /** The spec of a placement of this candidate. */
    const placed = (id: string, index: number): RunSpec =>
      candidateSpec(JSON.parse(store.job(id)?.spec ?? "{}") as RunSpec, index);
    Object.assign(services, {
      installationId: store.installationId,
      now: () => world.now,
      facts: (id: string) => {
        const { n, candidate } = this.engine.placement(id);
        return { id, spec: placed(id, candidate ?? 0), projectDir: "/project", placement: Math.max(1, n) };
      },
      search: (id: string) => {
        const { searching_since, refusals, ruledOut } = this.engine.placement(id);
        const further = sim.jobs.get(id)?.further;
        return {
          ...withoutBadImages(
            (further?.candidates ?? []).map((_, index) => ({ index, spec: placed(id, index) })),
            ruledOut,
          ),
          choose: further?.choose ?? "in_order",
          since: searching_since ?? world.now,
          waitMs: further?.waitMs ?? 0,
          refusals,
          unfit: store
            .placementFailures(id)
            .filter(({ failure }) => failure === "machine_unfit" || failure === "boot_failed")
            .map(({ candidate }) => candidate),
        };
      },
      searches: (id: string) => this.engine.placement(id).searches,
      checkpoint: (id: string) => {
        const saved = sim.saved(id);
        return Promise.resolve(this.engine.placement(id).mayGoOn && saved > 0 ? `step_${saved}@1` : null);
      },
      pause: (ms: number, signal: AbortSignal) => this.#sleep(ms, signal),
      provider,
      ledger,
      ways: new TunnelOutages(() => world.now),
      looks: new MachineLooks(() => world.now),
      ...(this.#budgets && { budget: this.#budgets }),
      plan: (jobId: string, node: number) =>
        Promise.resolve({
          runner: {
            nonce: `${jobId}-${node}-${this.engine.placement(jobId).n}`,
            argv: ["x"],
            env: { SVC_RESUME_FROM: this.engine.placement(jobId).n > 1 ? String(sim.saved(jobId)) : null },
          },
          secretEnv: {},
        }),
    } satisfies StepPorts & Pick<RunServices, "ways"> & Record<"plan", unknown>);
    this.#parts = { engine: this.engine, ledger, providers, connected: () => true };
    this.providers = providers;
  }

  /** The actions of a start: recover, then sweep now and then. */
  async begin(): Promise<void> {
    await this.engine.recover();
    this.#budgets?.begin();
    this.#every(SWEEP_EVERY_MS, () => void this.sweep().catch(() => {}));
    this.#every(HEALTH_EVERY_MS, () => this.#health());
  }

  #every(ms: number, fn: () => void): void {
    this.#clock.setTimer(ms, () => {
      fn();
      this.#every(ms, fn);
    });
  }

  async sweep(): Promise<void> {
    if (this.#sim.world.rng.chance(0.5)) await sweep(this.#parts, { dryRun: false });
    else {
      const { replayed } = await reconcile(this.#parts, { dryRun: false });
      // A life that has lost the home may read it before the next start has parked the jobs that were damaged
      // meanwhile.
      if (this.usurped) return;
      for (const job of replayed)
        if (!job.ok && this.alive && this.store.job(job.job_id)?.parked === null)
          this.fail(`reconcile: the journal of ${job.job_id} differs at ${job.first_difference_seq}`);
    }
  }

  fail(what: string): void {
    this.#sim.fail(what);
  }

  /** This life ends: its memory is lost, and uncommitted changes never happened. */
  die(): void {
    this.alive = false;
    this.#budgets?.stop();
    this.store.db.close();
  }

  probe(point: string): void {
    if (!this.alive) return;
    if (point === "group.ran") {
      if (this.#groups++ % 2 === 0) throw new Error("this group runs again");
      return;
    }
    if (point === "commit.before" && this.#sim.diskIsFull())
      throw Object.assign(new Error("no space"), { code: "SQLITE_FULL" });
    if (this.usurped) return;
    if (point === "commit.after") this.#sim.shadow.check(this.#statements);
    this.#sim.boundary(point, this);
  }

  /**
   * R1: before a request is sent, its intent is readable, including the time until which it may take effect. P-a: no order of another placement of
   * the job is open.
   */
  leaving(name: string): number {
    const row = this.store.db
      .prepare<[string], { state: string; horizon_at: number; job_id: string; placement: number }>(
        "SELECT state, horizon_at, job_id, placement FROM machine WHERE name = ?",
      )
      .get(name);
    if (!row || this.store.db.inTransaction) this.fail(`the request for ${name} left before its intent was durable`);
    else if (row.horizon_at < this.#sim.world.now + this.#sim.plan.certainty.horizonMs)
      this.fail(`the request for ${name} may land after the horizon that its intent names`);
    if (!row) return 0;
    const open = this.store.db
      .prepare<[string, number], { name: string; state: string; resource_id: string | null }>(
        "SELECT name, state, resource_id FROM machine WHERE job_id = ? AND placement <> ? AND state <> 'released'",
      )
      .all(row.job_id, row.placement);
    // A late answer may reopen the row of a machine that is proven gone, and a sweep that of an order with two machines: it ends the second
    // one while the job goes on. Only another row whose machine may exist is a fault.
    const mayExist = (id: string | null): boolean => id === null || this.#sim.cloud.find(id)?.doubled === false;
    for (const other of open.filter(({ resource_id: id }) => mayExist(id)))
      this.fail(`${name} was ordered while ${other.name} of another placement is ${other.state}`);
    return row.placement;
  }

  saved(jobId: string): number {
    return this.#sim.saved(jobId);
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const timer = this.#clock.setTimer(ms, resolve);
      signal.addEventListener(
        "abort",
        () => {
          timer.cancel();
          if (this.alive) reject(signal.reason as Error);
        },
        { once: true },
      );
    });
  }

  #began({ effectId, attempt }: StepContext): void {
    if (!this.alive || this.usurped) return;
    if (this.store.db.inTransaction) this.fail(`effect ${effectId} began before its commit`);
    const key = `${effectId}/${attempt}`;
    if (this.#active.has(key)) this.fail(`effect ${effectId} attempt ${attempt} was begun twice at once`);
    this.#active.add(key);
    this.#begun.set(effectId, (this.#begun.get(effectId) ?? 0) + 1);
    const row = this.#due.effect.get(effectId);
    if (row?.state !== "running" || row.attempt !== attempt)
      this.fail(`effect ${effectId} attempt ${attempt} began although it is not open`);
  }

  #published(events: FeedEvent[]): void {
    if (!this.alive) return;
    for (const { seq } of events) {
      if (this.usurped) this.fail(`feed event ${seq} was published by a process that had lost the home`);
      if (this.#lastSeq !== 0 && seq !== this.#lastSeq + 1) this.fail(`the feed goes from ${this.#lastSeq} to ${seq}`);
      this.#lastSeq = seq;
    }
    this.#budgets?.heard(events);
    this.#freed.heard(events);
    for (const { type, job_id: id } of events) if (type === "budget.reached" && id !== null) this.#sim.reached(id);
  }

  /** Checks that no row waits for a process that has forgotten it. */
  #health(): void {
    const { now } = this.#sim.world;
    if (this.usurped || now - this.#bornAt < OVERDUE_MS || this.#sim.diskWasFullAt > now - OVERDUE_MS) return;
    const limit = now - OVERDUE_MS;
    for (const t of this.#due.timers.all(limit)) this.fail(`the timer ${t.name} of ${t.job_id} is overdue`);
    for (const e of this.#due.retries.all(limit)) this.fail(`the retry of effect ${e.id} is overdue`);
    for (const e of this.#due.running.all(limit)) {
      if (!this.#active.has(`${e.id}/${e.attempt}`) && !this.#settling(e.id))
        this.fail(`effect ${e.id} stands as running and nobody runs it`);
    }
  }

  /**
   * An attempt that has just ended waits for its commit. It counts as lost if its effect has started nothing since the last check.
   */
  #settling(effectId: number): boolean {
    const begun = this.#begun.get(effectId) ?? 0;
    const before = this.#suspects.get(effectId);
    this.#suspects.set(effectId, begun);
    return before !== begun;
  }
}

/** Makes an empty, migrated home once; each run starts with a copy. */
export async function templateHome(folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const { db } = await openStore(folder, { newInstallationId: INSTALLATION, now: 0, synchronous: "OFF" });
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.pragma("journal_mode = DELETE");
  db.close();
  return join(folder, "svc.db");
}
