// The real engine over a real store in a temporary home; the test answers its steps and advances its clock.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../src/domain/clock.ts";
import { TimerQueue } from "../../src/engine/timer-queue.ts";
import type { EngineOptions, EventBody } from "../../src/engine/engine-options.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { PlacementRules } from "../../src/machines/job-context.ts";
import { refold } from "../../src/engine/journal.ts";
import { assert } from "../../src/errors/assert.ts";
import type { FeedEvent, StepName, TimelineStep, StoredLeftOut } from "../../src/schemas/job.ts";
import { STEP_NAMES } from "../../src/schemas/names.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import type {
  RetryPolicy,
  StepContext,
  StepDefinition,
  StepDone,
  StepLater,
  StepRegistry,
} from "../../src/steps/step.ts";
import { openStore } from "../../src/store/database.ts";
import { EngineStore } from "../../src/store/engine-store.ts";
import type { JobRow } from "../../src/store/tables.ts";
import { StoreReads } from "../../src/store/open-reads.ts";

export const START = Date.UTC(2030, 0, 1);
export const INSTALLATION = "testtest00000001";

/** Time stands still until the test advances it; each timer then fires at its own instant, in order. */
export class TestClock implements Clock {
  #now = START;
  #made = 0;
  readonly #timers = new TimerQueue();
  readonly now = (): number => this.#now;
  readonly monotonic = (): number => this.#now;
  readonly setTimer = (ms: number, fn: () => void) => {
    let live = true;
    this.#timers.add({
      at: this.#now + Math.max(0, ms),
      key: String(this.#made++).padStart(9, "0"),
      fire: () => live && fn(),
    });
    return { cancel: () => void (live = false) };
  };

  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await turn();
    for (let next = this.#timers.nextAt; next !== null && next <= until; next = this.#timers.nextAt) {
      this.#now = Math.max(this.#now, next);
      for (const due of this.#timers.take(this.#now)) due.fire();
      await turn();
    }
    this.#now = until;
    await turn();
  }

  /** Sets the clock back, as a user may while no control plane runs. */
  setBack(ms: number): void {
    this.#now -= ms;
  }

  /** Jumps like the clock of a sleeping laptop: timers that were due in between fire only at the end. */
  async jump(ms: number): Promise<void> {
    this.#now += ms;
    await this.advance(0);
  }
}

/** Waits until everything that needs no time has happened: promises, and commits at the end of a turn. */
export async function turn(): Promise<void> {
  for (let i = 0; i < 6; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** One attempt of a step, which the test answers. */
export class Attempt {
  readonly step: StepName;
  readonly context: StepContext;
  answered = false;
  readonly result = Promise.withResolvers<StepDone | StepLater>();

  constructor(step: StepName, context: StepContext) {
    this.step = step;
    this.context = context;
  }

  async done(output: Record<string, unknown> = {}, detail?: Record<string, unknown>): Promise<void> {
    this.answered = true;
    this.result.resolve({ done: output, ...(detail === undefined ? {} : { detail }) });
    await turn();
  }
  async later(afterMs: number, why = "not yet"): Promise<void> {
    this.answered = true;
    this.result.resolve({ later: { afterMs, why } });
    await turn();
  }
  async fail(error: unknown): Promise<void> {
    this.answered = true;
    this.result.reject(error);
    await turn();
  }
}

const RETRY: RetryPolicy = { attemptsMax: 3, delayMsMin: 1_000, delayMsMax: 60_000 };

export interface HarnessOptions {
  retry?: Partial<Record<StepName, RetryPolicy>>;
  attemptMs?: Partial<Record<StepName, number>>;
  engine?: Partial<EngineOptions>;
}

/** The engine of one process. */
export class Harness {
  readonly home: string;
  readonly clock: TestClock;
  readonly store: EngineStore;
  readonly engine: Engine;
  readonly reads: StoreReads;
  readonly attempts: Attempt[] = [];
  readonly published: FeedEvent[] = [];
  readonly reports: string[] = [];
  readonly probes: string[] = [];
  /** Called at each named point; a test that throws here interrupts the current work. */
  onProbe: (point: string) => void = () => {};

  private constructor(home: string, clock: TestClock, store: EngineStore, options: HarnessOptions) {
    this.home = home;
    this.clock = clock;
    this.store = store;
    this.reads = new StoreReads(store.db, home, clock.now);
    let groups = 0;
    this.engine = new Engine({
      store,
      clock,
      steps: this.#steps(options),
      defer: (fn) => void setImmediate(fn),
      publish: (events) => void this.published.push(...events),
      report: (message) => void this.reports.push(message),
      probe: (point) => {
        if (point === "group.ran") {
          if (groups++ % 2 === 0) throw new Error("this group runs again");
          return;
        }
        this.probes.push(point);
        this.onProbe(point);
      },
      ...options.engine,
    });
  }

  static async open(options: HarnessOptions = {}, home = newHome(), clock = new TestClock()): Promise<Harness> {
    const opened = await openStore(home, { newInstallationId: INSTALLATION, now: clock.now(), synchronous: "OFF" });
    return new Harness(home, clock, new EngineStore(opened), options);
  }

  #steps({ retry, attemptMs }: HarnessOptions): StepRegistry {
    const make = (name: StepName): StepDefinition => ({
      name,
      retry: retry?.[name] ?? (name === "terminate" ? { ...RETRY, attemptsMax: Infinity } : RETRY),
      ...(attemptMs?.[name] === undefined ? {} : { attemptMs: attemptMs[name] }),
      run: (context) => {
        const attempt = new Attempt(name, context);
        this.attempts.push(attempt);
        return attempt.result.promise;
      },
    });
    return Object.fromEntries(STEP_NAMES.map((name) => [name, make(name)])) as StepRegistry;
  }

  async create(
    id = "job1",
    options: {
      nodes?: number;
      maxRuntimeMs?: number;
      budgetMicro?: number;
      key?: string;
      spec?: Partial<RunSpecInput>;
      rules?: PlacementRules;
      leftOut?: StoredLeftOut;
    } = {},
  ): Promise<void> {
    const nodes = options.nodes ?? 1;
    const spec = RunSpec.parse({ entrypoint: "train.py", nodes, ...options.spec });
    const key = options.key ?? null;
    await this.engine.create({
      id,
      input: {
        nodes,
        max_runtime_ms: options.maxRuntimeMs ?? null,
        ...(options.budgetMicro === undefined ? {} : { budget_micro: options.budgetMicro }),
        ...(options.rules === undefined ? {} : { rules: options.rules }),
      },
      row: {
        label: null,
        provider: spec.provider,
        gpus: spec.gpus,
        nodes,
        spec: JSON.stringify(spec),
        code_snapshot: null,
        left_out: options.leftOut === undefined ? null : JSON.stringify(options.leftOut),
        idem_key: key,
        idem_hash: key === null ? null : "hash",
      },
    });
    await turn();
  }

  /** The newest attempt of the step. */
  attempt(step: StepName, node = 0): Attempt {
    const found = this.attempts.findLast((a) => a.step === step && a.context.node === node);
    assert(found, `${step} of node ${node} was never begun; begun were: ${this.attempts.map((a) => a.step).join(" ")}`);
    return found;
  }

  /** Answers steps with success, in the order of a job, until the named step has begun. */
  async upTo(step: StepName): Promise<Attempt> {
    for (const name of STEP_NAMES) {
      if (name === step) break;
      for (const attempt of this.attempts.filter((a) => a.step === name && !a.answered)) {
        await attempt.done(
          name === "stream" ? { exit_code: 0, error: null } : name === "collect" ? { exit_code: null } : {},
        );
      }
    }
    return this.attempt(step);
  }

  async kill(id = "job1"): Promise<void> {
    await this.engine.send(id, KILL);
    await turn();
  }

  row(id = "job1"): JobRow {
    const row = this.store.job(id);
    assert(row, `there is no job ${id}`);
    return row;
  }

  steps(id = "job1"): Pick<TimelineStep, "step" | "attempt" | "status">[] {
    return this.reads.timeline(id).steps.map(({ step, attempt, status }) => ({ step, attempt, status }));
  }

  /** The attempts of a job's steps as text, such as `provision 1 succeeded`. */
  story(id = "job1"): string[] {
    return this.steps(id).map((s) => `${s.step} ${s.attempt} ${s.status}`);
  }

  /** Whether folding the journal gives the stored snapshot, byte for byte. */
  folds(id = "job1"): boolean {
    const { text, differsAt } = refold(this.store.journal(id));
    return differsAt === null && text === this.row(id).snapshot;
  }

  /** Ends the process; its open attempts get no answer. */
  async end(): Promise<void> {
    const stopped = this.engine.stop();
    for (const attempt of this.attempts) if (!attempt.answered) attempt.result.reject(new Error("the process ended"));
    await stopped;
    this.store.db.close();
  }

  /** Another process takes over the same home. */
  async restart(options: HarnessOptions = {}): Promise<Harness> {
    await this.end();
    return Harness.open(options, this.home, this.clock);
  }
}

export const full = () => Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
export const KILL: EventBody = { type: "job.kill", error: { code: "cancelled_by_user", message: "m", hint: "h" } };

const homes: string[] = [];

export function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), "svc-engine-"));
  for (const folder of ["logs", "runs", "artifacts", "code", "backups"]) mkdirSync(join(home, folder));
  homes.push(home);
  return home;
}

export function removeHomes(): void {
  for (const home of homes.splice(0)) rmSync(home, { recursive: true, force: true });
}
