// The durable engine. It folds events through the pure job machine, commits event, snapshot and requested effects
// together, and only then acts. It may lose its memory at any moment: the committed rows are enough to continue.
//
// E1. An effect starts strictly after the commit that requested it, and starts again after a crash: at least once.
// E2. A result is accepted once: only from the current attempt, in one transaction with its changes.
// E3. Effects and timers belong to the state that requested them; the transition that leaves it cancels them.
// E4. Deadlines and retries are rows. The process only remembers when to check them.
// E5. A stored snapshot that cannot be loaded parks its job. The engine never guesses; a kill still releases its machine.

import { asSvcError, describeError, SvcError } from "../errors/index.ts";
import type { Clock } from "../domain/clock.ts";
import type { ClosePlacement, OpenPlacement, SetTimer, StartSteps } from "../machines/effects.ts";
import { JOB_MACHINE_VERSION, jobMachine } from "../machines/job-machine.ts";
import type { JobContext, JobEvent, JobInput } from "../machines/job-context.ts";
import { loadStored, type StoredSnapshot } from "../machines/versions.ts";
import type { StepName } from "../schemas/job.ts";
import type { EngineStore } from "../store/engine-store.ts";
import { createdEvent, errorOf } from "../store/records.ts";
import type { EffectRow, JobRow } from "../store/tables.ts";
import { moveAfterSetBack, movedContext } from "./clock-set-back.ts";
import { TimerQueue } from "./timer-queue.ts";
import { EffectRunner, interrupted, retryDelayMs, type EffectVerdict } from "./effect-runner.ts";
import type { EngineOptions, EventBody, NewJob, PlacementNow, Rebased, SendResult } from "./engine-options.ts";
import { failureOfStep } from "../domain/failure.ts";
import { firstFold, fold, type Folded, type Live, type Snapshot } from "./fold.ts";
import { fingerprint, withLastSeen } from "./journal.ts";
import { putOff, setTimer } from "./set-timer.ts";
import { commitWithRetry } from "./commit-with-retry.ts";
import { closePlacement, openPlacement, placementNow } from "./placements.ts";
import { writeTransition } from "./write-transition.ts";
import { Committer, reportingFailures, type Transaction } from "./transaction.ts";

/** Even a wait of years is checked again after this long: clocks jump and laptops sleep. */
const TICK_MS = 30_000;
/** Longest wait for a retry, whatever its row says. */
const RETRY_WAIT_MS_MAX = 15 * 60_000;

const retryKey = (effectId: number): string => `retry ${String(effectId).padStart(12, "0")}`;

export class Engine {
  readonly store: EngineStore;
  readonly clock: Clock;
  readonly #o: EngineOptions;
  readonly #committer: Committer;
  readonly #effects: EffectRunner;
  readonly #timers = new TimerQueue();
  readonly #live = new Map<string, Live>();
  #alarm: { at: number; cancel: () => void } | null = null;
  #stopped = false;

  constructor(options: EngineOptions) {
    this.#o = options;
    this.store = options.store;
    this.clock = options.clock;
    const probe = options.probe ?? (() => {});
    this.#committer = new Committer({
      store: options.store,
      clock: options.clock,
      defer: options.defer,
      probe,
      forget: (jobs) => {
        for (const id of jobs) this.#live.delete(id);
      },
      publish: reportingFailures(options.publish, (e) => this.#report(e)),
      noticed: options.noticed,
    });
    this.#effects = new EffectRunner({
      steps: options.steps,
      clock: options.clock,
      probe,
      firstFailedAt: (effectId, code) => this.store.firstFailedAt(effectId, code),
      settle: (effect, verdict) => this.#settle(effect, verdict),
      detail: (effectId, attempt, text) => {
        const written = this.commit((tx) => tx.store.detailAttempt(effectId, attempt, text));
        written.catch((e: unknown) => this.#report(e));
      },
    });
  }

  /** Durable when it resolves. See `Committer`. */
  commit<T>(fn: (tx: Transaction) => T): Promise<T> {
    return this.#committer.commit(fn);
  }

  /** Durable when it resolves, and perhaps a moment later: for commits that many runs make at once. See `Committer`. */
  commitTogether<T>(fn: (tx: Transaction) => T): Promise<T> {
    return this.#committer.commitTogether(fn);
  }

  /** Like `commit`, for external effects that must be recorded: retries until it succeeds. `fn` keeps nothing in memory. */
  commitWithRetry<T>(fn: (tx: Transaction) => T): Promise<T> {
    return commitWithRetry(
      () => this.#committer.commit(fn, true),
      this.clock,
      (error) => {
        if (error.code === "disk_full") this.#o.onDiskFull?.();
        this.#report(error);
        return !this.#stopped;
      },
    );
  }

  // Jobs

  /** First transaction of a job: its row, the first journal entry, the first effects. */
  create(job: NewJob): Promise<void> {
    return this.commit((tx) => {
      const held = this.#o.holds?.(tx, job) === true ? { held: true } : {};
      const input: JobInput = { ...job.input, ...held, job_id: job.id, at: tx.at };
      const { snapshot, actions } = firstFold(input);
      const { text, hash } = fingerprint(snapshot);
      const state = snapshot.value as string;
      tx.store.insertJob({
        ...job.row,
        id: job.id,
        seq: 1,
        version: JOB_MACHINE_VERSION,
        state,
        status: state,
        snapshot: text,
        hash,
        parked: null,
        exit_code: null,
        error: null,
        created_at: tx.at,
        started_at: null,
        ended_at: null,
      });
      tx.store.insertJournal({
        job_id: job.id,
        seq: 1,
        at: tx.at,
        epoch: tx.store.epoch,
        type: "job.created",
        event: JSON.stringify({ type: "job.created", input, version: JOB_MACHINE_VERSION }),
        from_state: null,
        to_state: state,
        hash,
      });
      const live = this.#remember(tx, { id: job.id, seq: 1, snapshot });
      job.also?.();
      tx.feed(job.id, "job.created", createdEvent(state, job.row));
      this.#act(tx, live, actions);
    });
  }

  /** Folds one event. Resolves once it is durable; an event without meaning in this state changes nothing. */
  send(jobId: string, event: EventBody): Promise<SendResult> {
    return this.commit((tx) => this.apply(tx, jobId, event));
  }

  apply(tx: Transaction, jobId: string, body: EventBody): SendResult {
    let live = this.#live.get(jobId);
    if (!live) {
      const row = this.store.job(jobId);
      if (!row) throw new SvcError("job_not_found", { id: jobId });
      if (row.state === "terminal") return { accepted: false, state: row.state };
      if (row.parked !== null)
        return body.type === "job.kill" ? this.#rescue(tx, row, body) : { accepted: false, state: row.state };
      const loaded = this.#load(tx, row);
      // Discovered only now: this process was not started to resume the job.
      if (typeof loaded === "string") {
        if (body.type === "job.kill") return this.#rescue(tx, row, body);
        throw new SvcError("needs_attention", { why: loaded });
      }
      live = loaded;
    }
    const state = live.snapshot.value as string;
    if (state === "terminal") return { accepted: false, state };
    const event = { ...body, at: tx.at };
    const next = fold(live.snapshot, event);
    if (next.snapshot === live.snapshot && next.actions.length === 0) return { accepted: false, state };
    this.#advance(tx, { id: jobId, seq: live.seq, state }, event, next);
    return { accepted: true, state: next.snapshot.value };
  }

  /** Journal, row, cancelled and new effects of one transition. */
  #advance(
    tx: Transaction,
    before: Pick<JobRow, "id" | "seq" | "state">,
    event: JobEvent | Rebased,
    { snapshot, actions }: Folded,
  ): void {
    const { id, state: from } = before;
    const { seq, to, status } = writeTransition(tx, before, event, snapshot);
    const live = this.#remember(tx, { id, seq, snapshot });
    if (to !== from) {
      for (const effect of tx.store.openEffectsOf(id)) this.#cancel(tx, effect);
      tx.store.clearTimers(id);
      tx.feed(id, "job.transition", { seq, from, to, event: event.type, status });
    }
    this.#act(tx, live, actions);
    if (to === "terminal") tx.after(() => this.#live.delete(id));
  }

  #act(tx: Transaction, { id: jobId, seq, snapshot }: Live, actions: Folded["actions"]): void {
    for (const action of actions) {
      // The machine's own types name these params; xstate returns actions untyped.
      if (action.type === "startSteps") {
        const { step, nodes } = action.params as StartSteps;
        for (const node of nodes) this.#start(tx, jobId, seq, step, node);
      } else if (action.type === "cancelSteps") {
        const { step } = action.params as { step: StepName };
        for (const effect of tx.store.openEffectsOf(jobId)) if (effect.step === step) this.#cancel(tx, effect);
      } else if (action.type === "setTimer") {
        const wanted = action.params as SetTimer;
        const due = setTimer(tx, jobId, wanted, snapshot.value);
        if (due !== null) tx.after(() => this.#awaitTimer(jobId, wanted.timer, due));
      } else if (action.type === "openPlacement") {
        openPlacement(tx, jobId, seq, action.params as OpenPlacement);
      } else if (action.type === "closePlacement") {
        closePlacement(tx, jobId, action.params as ClosePlacement);
      }
    }
  }

  /** Loads a job that no event has reached in this process; undefined if the job has ended, or cannot be loaded. */
  #committed(jobId: string): Live | undefined {
    const row = this.store.job(jobId);
    if (row === undefined || row.state === "terminal" || row.parked !== null) return undefined;
    const loaded = loadStored(row.version, row.snapshot);
    if (!loaded.ok) return undefined;
    const live = { id: row.id, seq: row.seq, snapshot: jobMachine.resolveState(loaded.snapshot) };
    // A row read within a transaction may be rolled back, so it is not cached.
    if (!loaded.migrated && !this.store.db.inTransaction) this.#live.set(jobId, live);
    return live;
  }

  /** The state and context of a job; undefined if it has ended or is parked. */
  now(jobId: string): Snapshot | undefined {
    return (this.#live.get(jobId) ?? this.#committed(jobId))?.snapshot;
  }

  /** The job's position in its list of placements. */
  placement(jobId: string): PlacementNow {
    return placementNow(this.store, jobId, this.now(jobId)?.context);
  }

  /** The first attempt counts as begun with the commit that requests it: one fsync per step, not two. */
  #start(tx: Transaction, jobId: string, seq: number, step: StepName, node: number): void {
    const effect = {
      job_id: jobId,
      seq,
      step,
      node,
      state: "running",
      attempt: 1,
      first_at: tx.at,
      next_at: null,
    } as const;
    this.#beginAttempt(tx, { ...effect, id: tx.store.insertEffect(effect) });
  }

  #beginAttempt(tx: Transaction, effect: EffectRow): void {
    tx.store.insertAttempt({
      effect_id: effect.id,
      attempt: effect.attempt,
      epoch: tx.store.epoch,
      status: "running",
      started_at: tx.at,
      ended_at: null,
      error: null,
      detail: null,
    });
    tx.feed(effect.job_id, "step.started", { step: effect.step, node: effect.node, attempt: effect.attempt });
    tx.after(() => this.#effects.start(effect));
  }

  #cancel(tx: Transaction, effect: EffectRow): void {
    tx.store.cancelEffect(effect.id);
    // A failed attempt that waits for the next one keeps its state.
    tx.store.leaveAttempt(effect.id, tx.at);
    tx.feed(effect.job_id, "step.cancelled", { step: effect.step, node: effect.node, attempt: effect.attempt });
    tx.after(() => this.#effects.abort(effect.id));
  }

  // Results of effects

  async #settle(effect: EffectRow, verdict: EffectVerdict): Promise<void> {
    if (this.#stopped) return;
    try {
      await this.commitWithRetry((tx) => this.#take(tx, effect, verdict));
    } catch (e) {
      this.#report(e);
    }
  }

  #take(tx: Transaction, effect: EffectRow, verdict: EffectVerdict): void {
    const step = effect.step as StepName;
    const about = { step, node: effect.node, attempt: effect.attempt };
    const detail = (d: Record<string, unknown> | undefined) => (d === undefined ? null : JSON.stringify(d));
    const close = (state: EffectRow["state"], nextAt: number | null) =>
      tx.store.settleEffect(effect.id, effect.attempt, state, nextAt);
    const end = { effect_id: effect.id, attempt: effect.attempt, ended_at: tx.at, error: null };

    if (verdict.kind === "later") {
      const nextAt = tx.at + Math.max(0, Math.round(verdict.afterMs));
      if (!close("retrying", nextAt)) return; // E2: too late, or reported twice
      const told = JSON.stringify({ waiting_for: verdict.why, ...verdict.detail });
      tx.store.detailAttempt(effect.id, effect.attempt, told);
      tx.after(() => this.#awaitRetry({ ...effect, state: "retrying", next_at: nextAt }, "same attempt"));
      return;
    }
    if (verdict.kind === "done") {
      if (!close("done", null)) return;
      tx.store.endAttempt({ ...end, status: "succeeded", detail: detail(verdict.detail) });
      tx.feed(effect.job_id, "step.succeeded", about);
      // Each step's result contains the fields that its own event needs; the machine's types enforce that.
      this.apply(tx, effect.job_id, {
        type: `${step}.done`,
        node: effect.node,
        ...verdict.output,
      } as unknown as EventBody);
      return;
    }
    const error = errorOf(effect.job_id, tx.store.job(effect.job_id)?.provider ?? "", verdict.error.toJobError());
    if (verdict.error.code === "disk_full") tx.after(() => this.#report(verdict.error));
    const failed = { ...end, status: "failed", error: JSON.stringify(error), detail: detail(verdict.detail) } as const;
    const policy = this.#o.steps[step].retry;
    const failures = tx.store.failures(effect.id) + 1;
    if (policy.attemptsMax === Infinity || (verdict.error.retry !== "never" && failures < policy.attemptsMax)) {
      const nextAt = tx.at + retryDelayMs(policy, effect.id, failures);
      if (!close("retrying", nextAt)) return;
      tx.store.endAttempt(failed);
      tx.feed(effect.job_id, "step.retrying", { ...about, error, next_attempt_at: new Date(nextAt).toISOString() });
      tx.after(() => this.#awaitRetry({ ...effect, state: "retrying", next_at: nextAt }, "next attempt"));
    } else {
      if (!close("failed", null)) return;
      tx.store.endAttempt(failed);
      tx.feed(effect.job_id, "step.failed", { ...about, error });
      const failure = failureOfStep(step, verdict.error);
      this.apply(tx, effect.job_id, { type: "step.failed", step, node: effect.node, error, failure });
    }
  }

  // Time
  #awaitTimer(jobId: string, name: string, due: number): void {
    this.#timers.add({
      at: due,
      key: `timer ${jobId} ${name}`,
      fire: () => this.#commitDue((tx) => this.#fireTimer(tx, jobId, name, due)),
    });
    this.#arm();
  }

  #fireTimer(tx: Transaction, jobId: string, name: string, due: number): void {
    const row = tx.store.timer(jobId, name);
    if (row?.due !== due || !tx.store.takeTimer(jobId, name, due)) return;
    if (putOff(tx, row, (later) => this.#awaitTimer(jobId, name, later))) return;
    this.apply(tx, jobId, withLastSeen(tx.store, jobId, JSON.parse(row.event) as EventBody));
  }

  #awaitRetry(effect: EffectRow, as: "same attempt" | "next attempt"): void {
    const now = this.clock.now();
    // A clock that was set back while no control plane ran must not delay the next try by as much.
    const at = Math.min(effect.next_at ?? now, now + RETRY_WAIT_MS_MAX);
    const fire = () => this.#commitDue((tx) => this.#retry(tx, effect, as));
    this.#timers.add({ at, key: retryKey(effect.id), fire });
    this.#arm();
  }

  #retry(tx: Transaction, effect: EffectRow, as: "same attempt" | "next attempt"): void {
    const open = tx.store.openEffectsOf(effect.job_id).find((e) => e.id === effect.id);
    if (open?.state !== "retrying" || open.attempt !== effect.attempt) return;
    const attempt = open.attempt + (as === "next attempt" ? 1 : 0);
    const next: EffectRow = { ...open, state: "running", attempt, next_at: null };
    tx.store.rearmEffect(next.id, next.attempt);
    if (as === "next attempt") {
      tx.store.leaveAttempt(next.id, tx.at);
      this.#beginAttempt(tx, next);
    } else tx.after(() => this.#effects.start(next));
  }

  /** Ends the delay of a step that waits for its next attempt. */
  hasten(jobId: string, step: StepName): void {
    for (const effect of this.store.openEffectsOf(jobId))
      if (effect.step === step) this.#timers.pull(retryKey(effect.id))?.fire();
  }

  #commitDue(fn: (tx: Transaction) => void): void {
    void this.commitWithRetry(fn).catch((e: unknown) => this.#report(e));
  }

  #arm(): void {
    const next = this.#timers.nextAt;
    if (next === null || this.#stopped || (this.#alarm && this.#alarm.at <= next)) return;
    this.#alarm?.cancel();
    const wait = Math.min(Math.max(0, next - this.clock.now()), TICK_MS);
    const timer = this.clock.setTimer(wait, () => {
      this.#alarm = null;
      for (const due of this.#timers.take(this.clock.now())) due.fire();
      this.#arm();
    });
    this.#alarm = { at: next, cancel: () => timer.cancel() };
  }

  // Recovery

  /** One pass over the open jobs, without a provider call: loads or parks them, restarts effects, arms timers. */
  async recover(what: "all" | "ending only" | "nothing" = "all"): Promise<{ resumed: string[]; parked: string[] }> {
    if (what === "nothing") return { resumed: [], parked: [] };
    return await this.commit((tx) => {
      const resumed: string[] = [];
      const parked: string[] = [];
      const alive = new Set<string>();
      this.#moveBack(tx, moveAfterSetBack(tx));
      for (const row of tx.store.liveJobs()) {
        // A process that ends some jobs need not follow the others: their rows wait unchanged.
        if (what === "ending only" && row.state !== "terminating") continue;
        if (this.#takeUp(tx, row)) {
          alive.add(row.id);
          resumed.push(row.id);
        } else parked.push(row.id);
      }
      for (const effect of tx.store.openEffects()) if (alive.has(effect.job_id)) this.#resume(tx, effect);
      for (const timer of tx.store.timers()) {
        if (alive.has(timer.job_id)) tx.after(() => this.#awaitTimer(timer.job_id, timer.name, timer.due));
      }
      return { resumed, parked };
    });
  }

  #resume(tx: Transaction, effect: EffectRow): void {
    if (effect.state === "retrying") {
      // Failed or only waited: the store does not say, and after a crash it counts as a new attempt either way.
      tx.after(() => this.#awaitRetry(effect, "next attempt"));
      return;
    }
    tx.store.endAttempt(interrupted(effect, tx.at));
    const next: EffectRow = { ...effect, attempt: effect.attempt + 1 };
    tx.store.rearmEffect(next.id, next.attempt);
    this.#beginAttempt(tx, next);
  }

  #moveBack(tx: Transaction, backMs: number): void {
    for (const row of backMs > 0 ? tx.store.liveJobs() : []) {
      const live = this.#load(tx, row);
      if (typeof live === "string") continue;
      const { value, context } = live.snapshot;
      this.#rebase(tx, { ...row, seq: live.seq, state: value }, { value, context: movedContext(context, backMs) });
    }
  }

  /** False when the job is parked. This program may know a snapshot that an older one could not continue. */
  #takeUp(tx: Transaction, row: JobRow): boolean {
    const loaded = this.#load(tx, row);
    const why = typeof loaded === "string" ? loaded : null;
    if (why === row.parked) return why === null;
    tx.store.park(row.id, why);
    if (why !== null) tx.feed(row.id, "notice", { level: "error", ...describeError("needs_attention", { why }) });
    return why === null;
  }

  /** The job of its row, migrated to today's version; or why it cannot be continued. */
  #load(tx: Transaction, row: JobRow): Live | string {
    const loaded = loadStored(row.version, row.snapshot);
    if (!loaded.ok) return loaded.why;
    const snapshot = jobMachine.resolveState(loaded.snapshot);
    if (!loaded.migrated) return { id: row.id, seq: row.seq, snapshot };
    return { id: row.id, seq: this.#rebase(tx, row, loaded.snapshot).seq, snapshot };
  }

  /** A snapshot without an event (a migration, a rescue) enters the journal whole: folds start from it. */
  #rebase(tx: Transaction, row: JobRow, stored: StoredSnapshot): JobRow {
    const snapshot = jobMachine.resolveState(stored);
    const rebased: Rebased = { type: "machine.rebased", snapshot: stored, version: JOB_MACHINE_VERSION };
    this.#advance(tx, row, rebased, { snapshot, actions: [] });
    return { ...row, seq: row.seq + 1, version: JOB_MACHINE_VERSION, state: stored.value };
  }

  /** A kill of a parked job: a fresh machine replaces it and goes straight to releasing the ledger's machines. */
  #rescue(tx: Transaction, row: JobRow, body: EventBody): SendResult {
    const fresh = firstFold({ job_id: row.id, nodes: row.nodes, max_runtime_ms: null, at: tx.at }).snapshot;
    const last = tx.store.lastPlacement(row.id);
    const placed = last && { placement: last.n, candidate: last.candidate };
    const context: JobContext = { ...fresh.context, ...placed, occupied: true };
    tx.store.park(row.id, null);
    const based = this.#rebase(tx, row, { value: "provisioning", context });
    return this.apply(tx, based.id, body);
  }

  #remember(tx: Transaction, live: Live): Live {
    tx.touched.add(live.id);
    this.#live.set(live.id, live);
    return live;
  }

  #report(e: unknown): void {
    if (!this.#stopped) this.#o.report?.(asSvcError(e).message);
  }

  /** Ends all activity in this process and leaves every row unchanged: the next start resumes open jobs. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#alarm?.cancel();
    await this.#effects.abortAll();
    this.#committer.flush();
  }
}
