// The interface of a running control plane for the API. Every action is an event into a state machine; every answer is
// read from the store.

import type { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../schemas/credentials.ts";
import type { RegistryBody, RegistryInUse } from "../schemas/registry.ts";
import type { HubAdopted, HubModel, HubPull, HubPullBody, HubPulled, HubPullHint } from "../schemas/hub.ts";
import type { FeedEvent, FeedHint, JobRecord, ProviderInfo, ReconcileReport, ResumePoint } from "../schemas/job.ts";
import type { Offers, OffersQuery } from "../schemas/offers.ts";
import type { Plan, Summary } from "../schemas/plan.ts";
import type { JobChange } from "../schemas/change.ts";
import type { HomeLimits, LimitsChange } from "../schemas/limits.ts";
import type { CheckpointRemovalBody, CheckpointsRemoved, Removed } from "../schemas/removal.ts";
import type { Deliveries, Notices, Notifications, NotifyTargetBody, ShownTarget, Tested } from "../schemas/notify.ts";
import type { OldRuns, HomeRetention, RetentionRule } from "../schemas/retention.ts";
import type { SubmitBody } from "../schemas/spec.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { Reads } from "../store/reads.ts";

export interface SubmitOptions {
  /** Same key, same body: the job that the first call made. Same key, other body: `idempotency_conflict`. */
  idempotencyKey?: string;
  /** The default for a missing project_dir. */
  defaultProjectDir: string;
}

/** Shows, sets and removes credentials. No answer contains a secret. */
export interface CredentialsOf {
  list(): Credentials;
  /** With `check` the provider or service verifies the credential first, and a refused one is not saved. */
  save(name: string, body: CredentialBody, options: { check: boolean }): Promise<SavedCredential>;
  remove(name: string): SavedCredential;
  /** Replaces the registry of an earlier `configure()`. */
  configure(body: RegistryBody): RegistryInUse;
  /** Verifies the stored credential with the provider or service. */
  check(name: string): Promise<CredentialCheck>;
}

/** Models of the hub. Errors are those of the catalogue. */
export interface ModelsOfHub {
  /** Starts a pull, or joins an identical one. */
  pull(body: HubPullBody): HubPull;
  /** Resolves when the pull has succeeded; throws its error otherwise. */
  wait(id: string): Promise<HubPulled>;
  /** Newest first. */
  list(): HubPull[];
  get(id: string): HubPull;
  /** Resolves when it has ended. A pull that had ended before stays unchanged. */
  cancel(id: string): Promise<HubPull>;
  models(): Promise<HubModel[]>;
  /** Removes svc's copies of a model; resolves with the removed folders. */
  remove(modelId: string): Promise<string[]>;
  /** Checks a model on the disk and lists it from now on. */
  adopt(path: string): Promise<HubAdopted>;
}

/** Targets, rules, notices and deliveries. Errors are those of the catalogue. */
export interface NotificationsOf {
  overview(): Notifications;
  save(name: string, body: NotifyTargetBody): Promise<ShownTarget>;
  remove(name: string): Promise<void>;
  /** Sends a test message now. */
  test(name: string): Promise<Tested>;
  /** Replaces the rules of the home. */
  setRules(lines: readonly string[]): Promise<string[]>;
  notices(query: { limit: number; cursor?: string | undefined }): Notices;
  /** Resolves with the number of unread notices. */
  markRead(upTo: number): Promise<number>;
  deliveries(query: { limit: number; cursor?: string | undefined }): Deliveries;
  /** Attempts of this process, by kind of target. */
  counts(): { kind: string; result: string; n: number }[];
}

/** Removes ended runs by age, and archives runs, which keeps them from that. */
export interface RetentionOf {
  /** The rule, what it has removed and what it would remove now. */
  state(): HomeRetention;
  /** The runs that another rule would remove now. */
  preview(rule: RetentionRule): OldRuns;
  /** Sets or removes the rule; durable before it resolves. It is applied an hour later, and by the next start. */
  set(rule: RetentionRule | null): Promise<HomeRetention>;
  /** Resolves with the record. Idempotent. Throws `job_not_found`, `job_not_archivable`. */
  archive(jobId: string, isArchived: boolean): Promise<JobRecord>;
}

export interface ControlPlane {
  readonly home: string;
  readonly installationId: string;
  readonly startedAt: string;
  readonly reads: Reads;
  /** Durable before it resolves. Throws a catalogue error that names the field; then nothing was changed. */
  submit(body: SubmitBody, options: SubmitOptions): Promise<{ record: JobRecord; created: boolean }>;
  /** Previews what the run would rent, send and cost. Rents, starts and keeps nothing; refusals are in the answer. */
  plan(body: SubmitBody, options: Pick<SubmitOptions, "defaultProjectDir">): Promise<Plan>;
  /** Lists the present offers of the connected providers, with prices; the answer includes their errors. Rents nothing. */
  offers(query: OffersQuery): Promise<Offers>;
  /** Masks every secret that svc knows, for all output. */
  secrets(): Redactor;
  /** A ready body for a first run on this computer; null if the example is not installed. */
  example(): Summary["example"];
  /** The kill is durable before it resolves; the job then goes through `terminating`. A second kill changes nothing. */
  kill(jobId: string): Promise<{ record: JobRecord; alreadyTerminal: boolean }>;
  /** Durable before it resolves. Throws `job_not_found`, `change_refused`, `budget_rate_unknown`; then nothing was changed. */
  change(jobId: string, change: JobChange): Promise<JobRecord>;
  /** Sets and removes limits of the home; durable before it resolves. Runs that are under way continue. */
  setLimits(change: LimitsChange): Promise<HomeLimits>;
  /** Resolves when the run and all its files are gone. Throws `job_not_found`, `job_not_removable`. */
  remove(jobId: string): Promise<Removed>;
  /**
   * Removes checkpoints of an ended run, all of them or none; durable before the first file is deleted. Throws `job_not_found`,
   * `checkpoint_not_found`, `checkpoint_not_removable`.
   */
  removeCheckpoints(jobId: string, body: CheckpointRemovalBody): Promise<CheckpointsRemoved>;
  /** The complete checkpoints of a job on this computer, the newest first, 200 at most. */
  resumePoints(jobId: string): Promise<ResumePoint[]>;
  /** Resolves with the ids of the jobs that received a kill. */
  killAll(): Promise<string[]>;
  /** Retries at once what a sink of the job failed to copy, including files that were given up. Throws `sinks_none`. */
  retrySinks(jobId: string): Promise<void>;
  /**
   * @param options.gone a machine whose end the user confirms: its order is closed before, or the call throws `machine_not_found` or
   * `machine_not_closable`
   */
  reconcile(options: { dryRun: boolean; gone?: string }): Promise<ReconcileReport>;
  providers(): ProviderInfo[];
  readonly credentials: CredentialsOf;
  readonly hub: ModelsOfHub;
  readonly notifications: NotificationsOf;
  readonly retention: RetentionOf;
  /**
   * The code that a user runs in a notebook so that svc can reach it: the cell alone, and a whole notebook. Throws
   * `ssh_key_unusable`.
   */
  notebookBootstrap?(): Promise<{ cell: string; notebook: object }>;
  /**
   * Calls the listener with each durable event after its commit, in order of seq, and with hints; returns a function
   * that unsubscribes.
   */
  subscribe(listener: (event: FeedEvent | FeedHint | HubPullHint) => void): () => void;
  /**
   * Graceful shutdown: jobs with terminate_on_exit go through `terminating`; resolves when they are terminal, or after
   * the deadline with the ids of the others.
   * @param collectingMs the limit for jobs that are downloading logs and checkpoints; by default the deadline
   */
  shutdown(deadlineMs: number, collectingMs?: number): Promise<{ unfinished: string[] }>;
}
