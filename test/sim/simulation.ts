// One run per seed: the work, the crashes, and the checks at the end.

import { join } from "node:path";
import Database from "better-sqlite3";
import { changeRun } from "../../src/engine/change-run.ts";
import { describeError, SvcError } from "../../src/errors/index.ts";
import { specOf } from "../../src/schemas/stored-spec.ts";
import { refold } from "../../src/engine/journal.ts";
import type { JobRow, JournalRow, MachineRow, PlacementRow } from "../../src/store/tables.ts";
import { CHECKPOINT_MS, Cloud } from "./cloud.ts";
import { wrongBudget } from "./budget-oracle.ts";
import { costsOf, NO_COST_SUMS, type CostSums } from "./cost-oracle.ts";
import { Incarnation } from "./incarnation.ts";
import type { JobPlan, Plan } from "./plan.ts";
import { Shadow } from "./watch.ts";
import { World } from "./world.ts";

/** Users repeat what was not acknowledged every few seconds, also while the control plane is away for hours. */
const EVENTS_MAX = 200_000;
/** Time after the last job, in which sweeps find machines that the provider made in addition to our orders. */
const AFTERWARDS_MS = 25 * 60_000;
const AFTERWARDS_MAX_MS = 12 * 3_600_000;
const FAILURES_MAX = 5;
type Wish = "submit" | "job.kill" | "control.end" | "watchdog.idle" | "raise";
const MAY_REPEAT: ReadonlySet<string> = new Set(["machine_unfit", "boot_failed", "preempted"]);
const BEFORE_SCRIPT: ReadonlySet<string> = new Set(["provision", "await_ssh", "sync", "install"]);
/** Only a commit and a request with an effect change anything outside the process's memory. */
const CHANGES = /^commit\.after$|^sent (create|terminate|start|stop)/;

export interface Result {
  failures: string[];
  /** Hash of the whole history: equal seeds give equal hashes. */
  hash: string;
  trace: string[];
  boundaries: number;
  /**
   * Boundaries of the last life at which the world or the store had just changed: a crash at any other boundary equals
   * a crash at the one before it.
   */
  distinct: number[];
  crashes: number;
  creates: number;
  billedMs: number;
  costs: CostSums;
  outcomes: string[];
}

export class Simulation {
  readonly plan: Plan;
  readonly home: string;
  readonly world: World;
  readonly cloud: Cloud;
  readonly jobs: Map<string, JobPlan>;
  readonly shadow: Shadow;
  diskWasFullAt = -Infinity;
  readonly #failures: string[] = [];
  readonly #waiting = new Set<string>();
  readonly #acknowledged: { jobId: string; type: string }[] = [];
  readonly #lives: Incarnation[] = [];
  readonly #over = new Set<string>();
  readonly #saved = new Map<string, number>();
  readonly #distinct: number[] = [];
  #boundaries = 0;
  #costs: CostSums = NO_COST_SUMS;
  #sinceStart = 0;
  #crashes = 0;
  #restarting = false;
  #diskFullUntil = -1;

  constructor(plan: Plan, home: string, trace: boolean) {
    this.plan = plan;
    this.home = home;
    this.world = new World(plan.seed, trace);
    this.cloud = new Cloud(this.world, plan, (what) => this.fail(what));
    this.jobs = new Map(plan.jobs.map((job) => [job.id, job]));
    this.shadow = new Shadow(
      (what) => this.fail(what),
      (row) => this.#ended(row),
    );
  }

  fail(what: string): void {
    this.world.say(`FAILED: ${what}`);
    if (this.#failures.length < FAILURES_MAX) this.#failures.push(what);
  }

  // Boundaries and crashes

  boundary(point: string, life: Incarnation): void {
    this.world.say(point);
    this.#boundaries++;
    this.#sinceStart++;
    if (this.#sinceStart === 1 || CHANGES.test(point)) this.#distinct.push(this.#sinceStart);
    const crash = this.plan.crashes[this.#crashes];
    if (!crash || this.#restarting || this.#sinceStart < crash.afterBoundaries) return;
    this.world.say(`--- ${crash.how} at ${point}, back in ${crash.downMs} ms`);
    this.#crashes++;
    this.#restarting = true;
    if (crash.how === "killed") life.die();
    this.world.schedule(crash.how === "killed" ? crash.downMs : Math.min(crash.downMs, 3_000), "start", null, () => {
      if (crash.how === "usurped") life.usurped = true;
      else if (crash.damage) this.#damage();
      void this.#start();
    });
  }

  async #start(): Promise<void> {
    const life = await Incarnation.open(this);
    this.#restarting = false;
    this.#sinceStart = 0;
    this.#distinct.length = 0;
    this.#lives.push(life);
    this.world.say(`+++ epoch ${life.store.epoch}`);
    await life.begin().catch((e: unknown) => {
      // A start that cannot write, for example on a full disk, fails and is retried.
      if (!life.alive || life.usurped) return;
      this.world.say(`start failed: ${String(e)}`);
      life.die();
      this.#restarting = true;
      this.world.schedule(5_000, "start", null, () => void this.#start());
    });
  }

  #damage(): void {
    const db = new Database(join(this.home, "svc.db"));
    const { changes } = db.prepare("UPDATE job SET snapshot = '{' WHERE state <> 'terminal' AND parked IS NULL").run();
    db.close();
    // A user must end a job that cannot be continued.
    if (changes > 0)
      for (const { id } of this.plan.jobs) this.#user(this.world.rng.int(10_000, 600_000), id, "job.kill");
  }

  get #life(): Incarnation | undefined {
    const life = this.#lives.at(-1);
    return life?.alive && !life.usurped && !this.#restarting ? life : undefined;
  }

  commitDelay(): number {
    if (this.plan.ideal) return 1;
    return this.world.rng.chance(this.plan.faults.slowCommit)
      ? this.world.rng.int(500, 9_000)
      : this.world.rng.int(0, 2);
  }

  diskIsFull(): boolean {
    if (this.world.now >= this.#diskFullUntil && this.world.rng.chance(this.plan.faults.diskFull)) {
      this.#diskFullUntil = this.world.now + this.world.rng.int(1, 40_000);
    }
    const full = this.world.now < this.#diskFullUntil;
    if (full) this.diskWasFullAt = this.world.now;
    return full;
  }

  // Checkpoints

  /** The job's newest complete checkpoint on this computer; 0 for none. */
  saved(jobId: string): number {
    return this.#saved.get(jobId) ?? 0;
  }

  /** The control plane has polled the run on this machine: the saved checkpoints are downloaded. */
  saw({ id }: { id: string }): void {
    const machine = this.cloud.find(id);
    if (!machine?.run) return;
    const { startedAt, endsAt, from } = machine.run;
    const worked = Math.min(this.world.now, endsAt) - startedAt;
    this.#saved.set(machine.jobId, Math.max(this.saved(machine.jobId), from + Math.floor(worked / CHECKPOINT_MS)));
  }

  // People

  /** A user's request, repeated until it is acknowledged. */
  #user(atMs: number, jobId: string, type: Wish): void {
    const wish = `${type} ${jobId} ${this.#waiting.size}`;
    this.#waiting.add(wish);
    const again = (): void => void this.world.schedule(3_000, "ask again", null, ask);
    const ask = (): void => {
      const life = this.#life;
      if (!life) return again();
      this.world.say(`user: ${type} ${jobId}`);
      let answered = false;
      const answer = (ok: boolean): void => {
        if (answered) return;
        answered = true;
        if (!ok) return again();
        this.world.say(`user: ${type} ${jobId} is acknowledged`);
        this.#waiting.delete(wish);
        this.#acknowledged.push({ jobId, type });
      };
      this.#ask(life, jobId, type).then(
        () => answer(life.alive),
        (e: unknown) => answer((e as { code?: string }).code === "job_not_found"),
      );
      // A dead process does not answer.
      this.world.schedule(60_000, "patience", null, () => answer(false));
    };
    this.world.schedule(atMs, "user", null, ask);
  }

  async #ask(life: Incarnation, jobId: string, type: Wish): Promise<unknown> {
    const { engine } = life;
    if (type === "raise") return this.#raise(life, jobId);
    if (type !== "submit") {
      const error = describeError(type === "control.end" ? "control_plane_ended" : "cancelled_by_user", {});
      if (type === "watchdog.idle") return await engine.send(jobId, { type, node: 0, error });
      return await engine.commitWithRetry((tx) => engine.apply(tx, jobId, { type, error }));
    }
    const job = this.jobs.get(jobId);
    if (!job || engine.store.job(jobId)) return undefined;
    const { candidates, rules } = job.further;
    const spec = {
      provider: candidates[0],
      gpus: "cpu",
      nodes: job.nodes,
      ...(candidates.length > 1 ? { candidates: candidates.map((provider) => ({ provider })) } : {}),
      ...(job.priceCap === null ? {} : { price_cap: job.priceCap }),
      ...(job.budgetMicro === null ? {} : { budget_usd: job.budgetMicro / 1e6 }),
    };
    return await engine.create({
      id: jobId,
      input: {
        nodes: job.nodes,
        max_runtime_ms: job.maxRuntimeMinutes > 0 ? job.maxRuntimeMinutes * 60_000 : null,
        ...(job.budgetMicro === null ? {} : { budget_micro: job.budgetMicro }),
        rules,
      },
      row: {
        label: null,
        provider: candidates[0] ?? "podhost",
        gpus: "cpu",
        nodes: job.nodes,
        spec: JSON.stringify(spec),
        code_snapshot: null,
        left_out: null,
        idem_key: null,
        idem_hash: null,
      },
    });
  }

  /** Half as much again; refused where the job is about to end. */
  async #raise({ engine, providers }: Incarnation, id: string): Promise<void> {
    const job = engine.store.job(id);
    const { budget_usd } = job === undefined ? {} : specOf(job);
    if (budget_usd === undefined) return;
    const change = { budget_usd: budget_usd * 1.5 };
    await changeRun({ engine, providers, respec: () => undefined, exceeds: () => null }, id, change).catch(
      (e: unknown) => {
        if (!(e instanceof SvcError) || e.code !== "change_refused") throw e;
      },
    );
  }

  /** A budget was reached: some users raise it at this very moment. */
  reached(jobId: string): void {
    if (!this.world.rng.chance(0.5)) return;
    const ms = this.world.rng.int(0, 12_000);
    this.#user(ms, jobId, "raise");
  }

  // The run and the judgement

  /** Called when a job has just become terminal: from now on none of its orders may cost money. */
  #ended(row: JobRow): void {
    this.world.say(`${row.id} ended ${row.status}`);
    this.#over.add(row.id);
    for (const m of this.cloud.running()) {
      if (m.jobId === row.id && !m.doubled) this.fail(`${row.id} is terminal and ${m.id} ${m.name} still runs`);
    }
  }

  async run(): Promise<Result> {
    for (const job of this.plan.jobs) {
      this.#user(job.submitAtMs, job.id, "submit");
      for (const at of job.killAtMs) this.#user(job.submitAtMs + at, job.id, "job.kill");
      if (job.endAtMs !== null) this.#user(job.submitAtMs + job.endAtMs, job.id, "control.end");
      if (job.idleAtMs !== null) this.#user(job.submitAtMs + job.idleAtMs, job.id, "watchdog.idle");
      if (job.raiseAtMs !== null) this.#user(job.submitAtMs + job.raiseAtMs, job.id, "raise");
    }
    this.world.schedule(0, "start", null, () => void this.#start());
    const open = (): boolean =>
      this.#over.size < this.plan.jobs.length || this.#waiting.size > 0 || this.cloud.inFlight > 0 || !this.#life;
    let quietSince: number | null = null;
    const over = (): boolean => {
      if (this.#failures.length > 0) return true;
      if (open()) {
        quietSince = null;
        return false;
      }
      quietSince ??= this.world.now;
      const waited = this.world.now - quietSince;
      if (this.plan.ideal) return true;
      return (
        waited > AFTERWARDS_MAX_MS ||
        (waited > AFTERWARDS_MS && this.cloud.running().length === 0 && this.#owed() === 0)
      );
    };
    const ended = await this.world.run(over, EVENTS_MAX);
    if (!ended || (this.#failures.length === 0 && open())) this.fail(`it did not come to an end: ${this.#open()}`);
    for (const life of this.#lives) if (life.alive) life.die();
    const outcomes = this.#judge();
    return {
      failures: this.#failures,
      hash: this.world.hash,
      trace: this.world.lines,
      boundaries: this.#boundaries,
      distinct: this.#distinct,
      crashes: this.#crashes,
      creates: this.cloud.creates,
      billedMs: this.cloud.billedMs(),
      costs: this.#costs,
      outcomes,
    };
  }

  #owed(): number {
    return (
      this.#life?.store.db
        .prepare<[], { n: number }>("SELECT count(*) AS n FROM machine WHERE state <> 'released'")
        .get()?.n ?? 1
    );
  }

  #open(): string {
    const life = this.#lives.findLast((l) => l.alive);
    const jobs = life
      ? life.store.liveJobs().map((j) => `${j.id} ${j.state}${j.parked === null ? "" : " (parked)"}`)
      : ["no control plane"];
    return [...jobs, ...this.#waiting].join(", ");
  }

  /** Checks the remaining file while nothing runs. */
  #judge(): string[] {
    const db = new Database(join(this.home, "svc.db"));
    const all = <Row>(sql: string): Row[] => db.prepare<[], Row>(sql).all();
    const jobs = all<JobRow>("SELECT * FROM job ORDER BY id");
    if (this.#failures.length === 0) {
      if (jobs.length !== this.plan.jobs.length) this.fail(`${jobs.length} jobs of ${this.plan.jobs.length}`);
      for (const m of this.cloud.running()) this.fail(`${m.id} ${m.name} still runs and costs money`);
      for (const m of all<MachineRow>("SELECT * FROM machine")) {
        if (m.state !== "released" || m.proof === null) this.fail(`the ledger still has ${m.name} as ${m.state}`);
      }
      for (const job of jobs)
        this.#judgePlacements(
          job,
          all<PlacementRow>(`SELECT * FROM placement WHERE job_id = '${job.id}' ORDER BY n`),
          all<MachineRow>(`SELECT * FROM machine WHERE job_id = '${job.id}'`),
        );
      for (const job of jobs) {
        const journal = all<JournalRow>(`SELECT * FROM journal WHERE job_id = '${job.id}' ORDER BY seq`);
        this.#judgeJob(job, journal);
        const plan = this.jobs.get(job.id);
        const machines = all<MachineRow>(`SELECT * FROM machine WHERE job_id = '${job.id}' ORDER BY created_at`);
        if (plan !== undefined && plan.budgetMicro !== null)
          for (const wrong of wrongBudget({ job, plan, journal, machines, world: this.plan, cloud: this.cloud }))
            this.fail(`${job.id}: ${wrong}`);
      }
      this.#costs = costsOf(
        db,
        jobs.map(({ id }) => id),
        this.cloud,
        (what) => this.fail(what),
      );
      const feed = all<{ seq: number }>("SELECT seq FROM feed ORDER BY seq");
      if (feed.some(({ seq }, i) => seq !== i + 1)) this.fail("the feed has gaps");
      const again = all<{ id: number }>(
        "SELECT id FROM effect WHERE EXISTS (SELECT 1 FROM attempt a JOIN attempt b ON b.effect_id = a.effect_id AND b.attempt > a.attempt WHERE a.effect_id = effect.id AND a.status = 'succeeded')",
      );
      for (const { id } of again) this.fail(`effect ${id} was run again after it had succeeded`);
      for (const { n } of all<{ n: number }>(
        "SELECT count(*) AS n FROM timer UNION ALL SELECT count(*) FROM effect WHERE state IN ('running','retrying')",
      )) {
        if (n > 0) this.fail("timers or effects are left although all jobs are over");
      }
    }
    db.close();
    return jobs.map((job) => job.status);
  }

  /** ADR 0027: checks the rows of placements at the end. */
  #judgePlacements(job: JobRow, placements: PlacementRow[], machines: MachineRow[]): void {
    const rules = this.jobs.get(job.id)?.further.rules;
    if (!rules) return;
    const failures = new Map<string, string | null>();
    let [retries, preemptions] = [0, 0];
    for (const [index, row] of placements.entries()) {
      const of = `placement ${row.n} of ${job.id}`;
      if (row.n !== index + 1) this.fail(`${of} is row ${index + 1}`);
      const goesOn = index < placements.length - 1 || (job.state !== "terminal" && row.goes_on === 1);
      if (row.closed_at === null) this.fail(`${of} was never closed`);
      if (goesOn && row.goes_on !== 1) this.fail(`${of} is followed by another one and does not say so`);
      if (goesOn && row.outcome !== "failed") this.fail(`${of} ended ${row.outcome}, and another one followed`);
      for (const machine of machines.filter(({ placement }) => placement === row.n)) {
        if (machine.provider !== row.provider)
          this.fail(`${machine.name} is of ${machine.provider}, ${of} of ${row.provider}`);
      }
      if (row.goes_on !== 1 || row.failure === null || row.failure === "no_machine") continue;
      if (row.failure === "preempted") preemptions++;
      else retries++;
      const key = `${row.failure} ${row.step}`;
      const before = failures.get(key);
      // A bad machine, and a provider that takes its machine back, say nothing about the run.
      const mayRepeat = MAY_REPEAT.has(row.failure) || BEFORE_SCRIPT.has(row.step ?? "");
      if (!mayRepeat && before !== undefined && before === row.checkpoint)
        this.fail(`${of} failed (${key}) as before without a new checkpoint, and another one followed`);
      failures.set(key, row.checkpoint);
    }
    if (retries > rules.retry_max) this.fail(`${job.id} was retried ${retries} times, ${rules.retry_max} are allowed`);
    if (preemptions > rules.max_preemptions && !rules.falls_back)
      this.fail(`${job.id} went on after ${preemptions} preemptions, ${rules.max_preemptions} are allowed`);
  }

  #judgeJob(job: JobRow, journal: JournalRow[]): void {
    const { text, differsAt } = refold(journal);
    if (text !== job.snapshot || differsAt !== null)
      this.fail(`${job.id}: the journal does not fold to the stored snapshot (${differsAt})`);
    if (job.state !== "terminal") this.fail(`${job.id} is ${job.state}`);
    const wanted = this.#acknowledged.filter(
      (a) => a.jobId === job.id && (a.type === "job.kill" || a.type === "control.end"),
    );
    // The decision in a damaged snapshot is lost with it.
    const first = journal.some((row) => row.type === "machine.rebased")
      ? undefined
      : journal.findLast(
          ({ from_state: from, to_state: to }) =>
            from !== to && (to === "terminating" || (from === "waiting" && to === "terminal")),
        );
    if (first?.type === "job.kill" && job.status !== "cancelled")
      this.fail(`${job.id} was killed and ended ${job.status}`);
    if (first?.type === "control.end" && job.status !== "interrupted")
      this.fail(`${job.id} was interrupted and ended ${job.status}`);
    const asked = journal.findIndex(({ type }) => type === "job.kill" || type === "control.end");
    const begins = ({ type, from_state: from, to_state: to }: JournalRow): boolean =>
      type !== "machine.rebased" && from !== to && (to === "waiting" || to === "provisioning");
    if (asked >= 0 && journal.slice(asked + 1).some(begins))
      this.fail(`${job.id} went on to another machine after it was told to end`);
    const plan = this.jobs.get(job.id);
    // Taken back while no control plane looked, before anything was saved: by default nothing follows.
    const isLost = this.plan.scripted?.preemptAfterMs !== undefined && this.saved(job.id) === 0;
    if (this.plan.ideal && wanted.length === 0 && !isLost && job.status !== "succeeded")
      this.fail(`${job.id} ended ${job.status} although nothing failed`);
    if (plan && job.status === "succeeded" && plan.exitCode.some((code) => code !== 0))
      this.fail(`${job.id} succeeded although its script failed`);
  }
}
