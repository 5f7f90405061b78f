// The control plane behind the API: requests become events, answers are read from the store.

import { resolve } from "node:path";
import { providersOf, withFirstCandidate } from "../domain/candidates.ts";
import { microOf } from "../domain/money.ts";
import { placementRules } from "../machines/placement-rules.ts";
import type { Redactor } from "../domain/redaction.ts";
import { describeError, SvcError } from "../errors/index.ts";
import type { HubPullHint } from "../schemas/hub.ts";
import type { FeedEvent, FeedHint, JobRecord, ProviderInfo, ReconcileReport, ResumePoint } from "../schemas/job.ts";
import type { Plan, Summary } from "../schemas/plan.ts";
import type { JobChange } from "../schemas/change.ts";
import type { HomeLimits, LimitsChange } from "../schemas/limits.ts";
import type { CheckpointRemovalBody, CheckpointsRemoved, Removed } from "../schemas/removal.ts";
import type { RunSpec, SubmitBody } from "../schemas/spec.ts";
import { runsHere } from "../providers/descriptors.ts";
import type { Reads } from "../store/reads.ts";
import type {
  ControlPlane,
  CredentialsOf,
  ModelsOfHub,
  NotificationsOf,
  RetentionOf,
  SubmitOptions,
} from "./control-plane.ts";
import { planRun } from "./cost-preview.ts";
import { OfferBook } from "./offers.ts";
import type { Offers, OffersQuery } from "../schemas/offers.ts";
import { historyOf } from "../domain/host-history.ts";
import type { LimitKeeper } from "./home-limits.ts";
import { refuseMasked } from "./refuse-masked.ts";
import { extraGraceMs } from "../domain/stop-grace.ts";
import { untilOver, untilSettled } from "./graceful-shutdown.ts";
import { named } from "./naming-field.ts";
import type { KeptCode, ServiceOptions } from "./service-options.ts";
import { addCosts } from "./cost-sums.ts";
import { CheckpointRemovals } from "./checkpoint-removals.ts";
import { Removals, type RemovalRule } from "./removals.ts";
import { ResumeClaims } from "./resume-claims.ts";
import { changeRun } from "./change-run.ts";
import { checkBudget, checkEnough, checkRates } from "./check-budget.ts";
import { checkCandidate, checkCandidates, checkFurtherMachines } from "./check-candidates.ts";
import { confirmGone } from "./confirm-gone.ts";
import { reconcile, sweep } from "./reconcile.ts";
import { specOf, storedSpec, withoutDefaults } from "../schemas/stored-spec.ts";
import { storedTags } from "../store/stored-tags.ts";

const RESERVE_CHECK_MS = 30_000;
/** Time at the shutdown for copies of ended runs: the next start continues the rest. */
const SINKS_MS_MAX = 30_000;
const SWEEP_EVERY_MS = 10 * 60_000;
/** The first search for orphans comes soon after the start, when the first calls have been answered. */
const FIRST_SWEEP_MS = 1_000;

/** Events after which there may be more to copy. */
const BRINGS_HOME = new Set(["job.created", "job.transition", "checkpoint.saved", "log.advanced"]);

/** The spec with its project directory made absolute. */
const placed = (body: SubmitBody, defaultProjectDir: string, defaults: Partial<RunSpec>): RunSpec => ({
  ...defaults,
  ...withFirstCandidate(body.spec),
  project_dir: resolve(defaultProjectDir, body.spec.project_dir ?? "."),
});

export class Service implements ControlPlane {
  readonly home: string;
  readonly installationId: string;
  readonly startedAt: string;
  readonly reads: Reads;
  readonly credentials: CredentialsOf;
  readonly hub: ModelsOfHub;
  readonly notifications: NotificationsOf;
  readonly retention: RetentionOf;
  readonly #o: ServiceOptions;
  readonly #listeners = new Set<(event: FeedEvent | FeedHint | HubPullHint) => void>();
  readonly #timers: { cancel(): void }[] = [];
  readonly #creating = new Set<Promise<void>>();
  readonly #claims: ResumeClaims;
  readonly #removals: Removals;
  readonly #checkpointRemovals: CheckpointRemovals;
  readonly #offers = new OfferBook();
  #closing = false;
  #began = false;
  #sweepAt: { cancel(): void } | null = null;
  #sweepDueMs = 0;

  constructor(options: ServiceOptions) {
    this.#o = options;
    this.home = options.home;
    this.installationId = options.engine.store.installationId;
    this.startedAt = options.startedAt;
    this.reads = options.reads;
    this.credentials = options.credentials;
    this.hub = options.hub;
    this.notifications = options.notifications;
    this.retention = options.retention;
    const claims = (this.#claims = new ResumeClaims(options.engine.store));
    this.#removals = new Removals({ ...options, claims });
    const measure = (jobId: string) => this.#removals.measure(jobId);
    this.#checkpointRemovals = new CheckpointRemovals({ ...options, claims, measure });
  }

  /** Starts the periodic chores. */
  begin(): void {
    this.#began = true;
    this.#o.reserve.restore();
    this.#o.sinks.begin();
    this.#removals.begin((ms, work) => this.#every(ms, work));
    this.#checkpointRemovals.begin((ms, work) => this.#every(ms, work));
    addCosts(this.#o, (ms, work) => this.#every(ms, work));
    this.#every(RESERVE_CHECK_MS, () => void this.#o.reserve.restore());
    this.#timers.push(this.#o.engine.clock.setTimer(FIRST_SWEEP_MS, () => void this.#sweep()));
    this.#every(SWEEP_EVERY_MS, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    await sweep(this.#reconcileParts(), { dryRun: false }).catch(() => {
      // Each provider's failure is in the sweep's report; an error here is the store's, and the next commit reports it.
    });
  }

  /**
   * Call it when an order was closed. Its create call may have made more machines than it reported, even if it was
   * refused, and a listing shows that late: sweeps again when the listing cannot lag any more.
   */
  #sweepLater(provider: string): void {
    const lagMs = this.#o.providers.get(provider)?.certainty.listingLagMs ?? 0;
    if (lagMs === 0 || this.#closing || !this.#began) return;
    const { clock } = this.#o.engine;
    this.#sweepDueMs = Math.max(this.#sweepDueMs, clock.monotonic() + lagMs + 5_000);
    this.#sweepAt ??= clock.setTimer(lagMs + 5_000, () => this.#sweepNow());
  }

  /** And again, if another order was closed since that sweep was scheduled. */
  #sweepNow(): void {
    this.#sweepAt = null;
    if (this.#closing) return;
    void this.#sweep();
    const leftMs = this.#sweepDueMs - this.#o.engine.clock.monotonic();
    // Clocks and timers round differently: a rest of less than a second does not justify a second sweep.
    if (leftMs > 0) this.#sweepAt = this.#o.engine.clock.setTimer(Math.max(1_000, leftMs), () => this.#sweepNow());
  }

  #every(ms: number, fn: () => void): void {
    const next = (): void => {
      const timer = this.#o.engine.clock.setTimer(ms, () => {
        this.#timers.splice(this.#timers.indexOf(timer), 1);
        fn();
        if (!this.#closing) next();
      });
      this.#timers.push(timer);
    };
    next();
  }

  // Events

  publish(events: readonly (FeedEvent | FeedHint | HubPullHint)[]): void {
    for (const event of events) {
      const id = event.job_id;
      if (id !== null && event.type === "job.transition" && event.data["to"] === "terminal")
        this.#hears(() => this.#o.onTerminal(id));
      if (event.type === "machine.changed" && event.data["state"] === "released")
        this.#hears(() => this.#sweepLater(this.#o.ledger.row(String(event.data["name"]))?.provider ?? ""));
      if (id !== null && BRINGS_HOME.has(event.type)) this.#hears(() => this.#o.sinks.changed(id));
      for (const listener of this.#listeners) this.#hears(() => listener(event));
    }
  }

  /** A throwing listener must neither end the process nor starve other listeners. */
  #hears(listener: () => void): void {
    try {
      listener();
    } catch (e) {
      this.#o.report(`A listener to events failed: ${e instanceof Error ? (e.stack ?? e.message) : String(e)}`);
    }
  }

  subscribe(listener: (event: FeedEvent | FeedHint | HubPullHint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // Jobs

  async submit(body: SubmitBody, options: SubmitOptions): Promise<{ record: JobRecord; created: boolean }> {
    const { reserve } = this.#o;
    const spec = this.#resumed(this.#rated(placed(body, options.defaultProjectDir, this.#o.defaults())));
    // Without any defaults: a repeated request has the same body, even after those of the home or of svc have changed.
    const asked = withoutDefaults(placed(body, options.defaultProjectDir, {}));
    const tagged = body.tags?.length ? { tags: body.tags } : {};
    const hash = this.#o.fingerprint(JSON.stringify({ label: body.label ?? null, ...tagged, spec: asked }));
    this.#o.remember(spec);
    const secrets = this.#o.secrets();
    const key = options.idempotencyKey === undefined ? null : this.#keyOf(options.idempotencyKey, secrets);
    const before = key === null ? undefined : this.#byKey(key, hash);
    if (before) return before;
    if (this.#closing) throw new SvcError("shutting_down", {});
    if (!reserve.restore()) throw new SvcError("disk_full", { path: this.home });
    refuseMasked(body);
    checkCandidates(this.#o, spec);
    this.#o.limits.check(spec);
    await checkBudget({ providers: this.#o.providers, startTimes: this.#startTimes }, spec);
    const projectDir = spec.project_dir ?? options.defaultProjectDir;
    await named(this.#o.checkProject(projectDir, spec));
    this.#o.checkSecrets(spec);
    const unclaim = this.#claims.claim(spec);
    try {
      await named(this.#o.checkResume(spec));
      await this.#o.checkData(spec.data);
      const code = await named(this.#o.snapshot(projectDir, spec));
      try {
        return await this.#submitted(body, { spec, hash, key, code });
      } finally {
        code.release();
      }
    } finally {
      unclaim();
    }
  }

  async #submitted(
    body: SubmitBody,
    { spec, hash, key, code }: { spec: RunSpec; hash: string; key: string | null; code: KeptCode },
  ): Promise<{ record: JobRecord; created: boolean }> {
    const { engine } = this.#o;
    const secrets = this.#o.secrets();
    const id = this.#o.newJobId();
    if (spec.sinks.length > 0) await this.#o.sinks.check(spec, id);
    // The checks took a while: the shutdown may have begun meanwhile.
    if (this.#closing) throw new SvcError("shutting_down", {});
    const unpin = this.#o.pinData(id, spec.data);
    try {
      await this.#created(
        engine.create({
          id,
          input: {
            nodes: spec.nodes,
            // Rounded up: the smallest limit must not become no limit.
            max_runtime_ms: spec.max_runtime_minutes ? Math.ceil(spec.max_runtime_minutes * 60_000) : null,
            budget_micro: spec.budget_usd === undefined ? null : microOf(spec.budget_usd),
            rules: placementRules(spec, this.#o.providers.get(spec.provider)?.info.capabilities.bills === true),
          },
          row: {
            label: body.label ? secrets.redactText(body.label) : null,
            tags: storedTags((body.tags ?? []).map((tag) => secrets.redactText(tag))),
            provider: spec.provider,
            gpus: secrets.redactText(spec.gpus),
            nodes: spec.nodes,
            spec: storedSpec(this.#o.seal(spec)),
            code_snapshot: code.id,
            left_out: code.leftOut && JSON.stringify(code.leftOut),
            idem_key: key,
            idem_hash: key === null ? null : hash,
          },
          also: () => this.#o.sinks.enter(id, spec),
        }),
      );
    } catch (e) {
      unpin();
      // Two calls with one key at once: the second finds the first's job.
      const raced = key === null ? undefined : this.#byKey(key, hash);
      if (raced) return raced;
      throw e;
    }
    return { record: this.#record(id), created: true };
  }

  resumePoints(jobId: string): Promise<ResumePoint[]> {
    return this.#o.resumes.points(jobId);
  }

  async plan(body: SubmitBody, options: Pick<SubmitOptions, "defaultProjectDir">): Promise<Plan> {
    const spec = this.#resumed(this.#rated(placed(body, options.defaultProjectDir, this.#o.defaults())));
    const projectDir = spec.project_dir ?? options.defaultProjectDir;
    const connected = new Set(this.#o.describeProviders().flatMap((each) => (each.connected ? [each.name] : [])));
    const secrets = this.#o.secrets(spec);
    const stats = this.reads.hostStats();
    const plan = await planRun(spec, {
      checks: [
        () => refuseMasked(body),
        () => checkFurtherMachines(this.#o.providers, spec),
        () => checkRates(this.#o.providers, spec),
        () => this.#o.limits.check(spec),
        () => named(this.#o.checkProject(projectDir, spec)),
        () => this.#o.checkSecrets(spec),
        () => named(this.#o.checkResume(spec)),
        () => this.#o.checkData(spec.data),
      ],
      clock: this.#o.engine.clock,
      checkCandidate: (index) => checkCandidate(this.#o, spec, index),
      providerOf: (name) => this.#o.providers.get(name),
      isConnected: (name) => connected.has(name),
      startTimes: this.#startTimes,
      checkEnough: (priced) =>
        checkEnough(spec, priced, { providers: this.#o.providers, startTimes: this.#startTimes }),
      projectDir,
      history: (provider, gpus) => historyOf(stats, { provider, gpus }),
      measure: () => this.#o.measureProject(projectDir, runsHere(spec.provider)),
      preview: (files) => named(this.#o.preview(projectDir, spec, files)),
    });
    const wait = plan.refusals.length > 0 ? null : this.#o.limits.wouldWait(spec);
    return secrets.redactValue(wait === null ? plan : { ...plan, warnings: [wait, ...plan.warnings] });
  }

  readonly #startTimes = (provider: string, gpus: string) => this.reads.startTimes(provider, gpus);

  /** The spec with the rate of its credential, where it needs one. */
  #rated(spec: RunSpec): RunSpec {
    if (spec.rate_usd_per_hour !== undefined) return spec;
    const rate = providersOf(spec).flatMap((name) => this.#o.rateOf(name) ?? []);
    return rate.length === 0 ? spec : { ...spec, rate_usd_per_hour: Math.max(...rate) };
  }

  /** `resume_from` may be `last`, as on the command line: the spec names the run, which stays the same when others follow. */
  #resumed(spec: RunSpec): RunSpec {
    const last = spec.resume_from === "last" ? this.reads.jobs({ limit: 1, archived: "all" }).jobs[0] : undefined;
    return last === undefined ? spec : { ...spec, resume_from: last.id };
  }

  async offers(query: OffersQuery): Promise<Offers> {
    const connected = this.#o.describeProviders().flatMap((each) => (each.connected ? [each.name] : []));
    const parts = { clock: this.#o.engine.clock, providers: this.#o.providers, connected };
    return this.#o.secrets().redactValue(await this.#offers.list(query, parts));
  }

  /** For all output. */
  secrets(): Redactor {
    return this.#o.secrets();
  }

  /** A key that contains a secret is stored as its fingerprint. */
  #keyOf(key: string, secrets: Redactor): string {
    return secrets.redactText(key) === key ? key : this.#o.fingerprint(`idempotency key ${key}`);
  }

  example(): Summary["example"] {
    return this.#o.example();
  }

  /** Waits for the commit of a new job, and makes the shutdown wait for it, too. */
  async #created(commit: Promise<void>): Promise<void> {
    this.#creating.add(commit);
    await commit.finally(() => this.#creating.delete(commit));
  }

  #byKey(key: string, hash: string): { record: JobRecord; created: boolean } | undefined {
    const row = this.#o.engine.store.jobByKey(key);
    if (!row) return undefined;
    if (row.idem_hash !== hash) throw new SvcError("idempotency_conflict", { job_id: row.id });
    return { record: this.#record(row.id), created: false };
  }

  #record(id: string): JobRecord {
    const record = this.reads.job(id);
    if (!record) throw new SvcError("job_not_found", { id });
    return record;
  }

  async kill(jobId: string): Promise<{ record: JobRecord; alreadyTerminal: boolean }> {
    const row = this.#o.engine.store.job(jobId);
    if (!row) throw new SvcError("job_not_found", { id: jobId });
    if (row.state === "terminal") return { record: this.#record(jobId), alreadyTerminal: true };
    await this.#tell(jobId, "job.kill");
    return { record: this.#record(jobId), alreadyTerminal: false };
  }

  async change(jobId: string, change: JobChange): Promise<JobRecord> {
    const secrets = this.#o.secrets();
    const label = change.label ? { label: secrets.redactText(change.label) } : {};
    const tags = change.tags ? { tags: change.tags.map((tag) => secrets.redactText(tag)) } : {};
    const { engine, providers, limits, respec } = this.#o;
    const exceeds: LimitKeeper["refuses"] = (...args) => limits.refuses(...args);
    const isNew = await changeRun({ engine, providers, exceeds, respec }, jobId, { ...change, ...label, ...tags });
    // The commit counts; a machine that cannot be reached now gets the deadlines with its next contact.
    if (isNew) await this.#o.renewGuards(jobId);
    return this.#record(jobId);
  }

  async setLimits(change: LimitsChange): Promise<HomeLimits> {
    await this.#o.limits.set(change);
    return this.reads.limits();
  }

  remove(jobId: string, rule?: RemovalRule): Promise<Removed> {
    return this.#removals.remove(jobId, rule);
  }

  removeCheckpoints(jobId: string, body: CheckpointRemovalBody): Promise<CheckpointsRemoved> {
    return this.#checkpointRemovals.remove(jobId, body);
  }

  async killAll(): Promise<string[]> {
    const ids = this.#o.engine.store.liveJobs().map((row) => row.id);
    await Promise.all(ids.map((id) => this.#tell(id, "job.kill")));
    return ids;
  }

  async #tell(jobId: string, type: "job.kill" | "control.end"): Promise<void> {
    const error = describeError(type === "job.kill" ? "cancelled_by_user" : "control_plane_ended", {});
    this.#o.reserve.spendIfFull();
    await this.#o.engine.commitWithRetry((tx) => this.#o.engine.apply(tx, jobId, { type, error }));
  }

  providers(): ProviderInfo[] {
    return this.#o.describeProviders();
  }

  // Reconcile and shutdown

  #reconcileParts() {
    const { engine, ledger, providers, describeProviders } = this.#o;
    const connected = new Set(describeProviders().flatMap((p) => (p.connected ? [p.name as string] : [])));
    return { engine, ledger, providers, connected: (name: string) => connected.has(name) };
  }

  retrySinks(jobId: string): Promise<void> {
    return this.#o.sinks.retry(jobId);
  }

  async reconcile(options: { dryRun: boolean; gone?: string }): Promise<ReconcileReport> {
    const parts = this.#reconcileParts();
    if (options.gone !== undefined) await confirmGone(parts, options.gone, options);
    return reconcile(parts, options);
  }

  async shutdown(deadlineMs: number, collectingMs = deadlineMs): Promise<{ unfinished: string[] }> {
    this.#closing = true;
    await Promise.allSettled(this.#creating);
    const ending = this.#o.engine.store.liveJobs().filter((row) => specOf(row).terminate_on_exit);
    // A parked job accepts only a kill: waiting for it would last for the whole deadline. It is reported as unfinished.
    const [parked, able] = [ending.filter((row) => row.parked !== null), ending.filter((row) => row.parked === null)];
    const begun = this.#o.engine.clock.monotonic();
    const graceMs = Math.max(0, ...able.map((row) => extraGraceMs(specOf(row))));
    // A failing write is retried without end; a job that did not get its event by the deadline is reported as
    // unfinished.
    for (const row of able) void this.#tell(row.id, "control.end").catch(() => undefined);
    const late = await untilOver(
      {
        ...this.#reconcileParts(),
        report: this.#o.report,
        onTransition: (heard) => this.subscribe((event) => event.type === "job.transition" && heard()),
      },
      able.map((row) => row.id),
      { deadlineMs: deadlineMs + graceMs, collectingMs: collectingMs + graceMs },
    );
    const leftMs = deadlineMs + graceMs - (this.#o.engine.clock.monotonic() - begun);
    await this.#o.sinks.settle(Math.max(0, Math.min(SINKS_MS_MAX, leftMs)));
    return { unfinished: [...late, ...parked.map((row) => row.id)] };
  }

  /** See `OpenControlPlane.settle`. */
  settle(deadlineMs: number): Promise<boolean> {
    return untilSettled(this.#o.engine, deadlineMs);
  }

  /** Ends the chores and all activity of this process; rows stay unchanged. */
  async stop(): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) timer.cancel();
    this.#sweepAt?.cancel();
    await this.#removals.settle();
    await this.#checkpointRemovals.settle();
    await this.#o.sinks.stop();
    await this.#o.engine.stop();
  }
}
