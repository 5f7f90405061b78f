// What a running control plane offers to the API. Everything it does is an event into a machine of states; everything it
// tells is read from the store.

import type { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../schemas/credentials.ts";
import type { RegistryBody, RegistryInUse } from "../schemas/registry.ts";
import type { HubAdopted, HubModel, HubPull, HubPullBody, HubPulled, HubPullHint } from "../schemas/hub.ts";
import type { FeedEvent, FeedHint, JobRecord, ProviderInfo, ReconcileReport } from "../schemas/job.ts";
import type { Plan, Summary } from "../schemas/plan.ts";
import type { Removed } from "../schemas/removal.ts";
import type { SubmitBody } from "../schemas/spec.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { Reads } from "../store/reads.ts";

export interface SubmitOptions {
  /** Same key, same body: the job that the first call made. Same key, other body: `idempotency_conflict`. */
  idempotencyKey?: string;
  /** Directory that stands in for a missing project_dir. */
  defaultProjectDir: string;
}

/** Where credentials are seen, set and taken away. No answer holds a secret. */
export interface CredentialsOf {
  list(): Credentials;
  /** With `check` the other side is asked first, and what it refuses is not saved. */
  save(name: string, body: CredentialBody, options: { check: boolean }): Promise<SavedCredential>;
  remove(name: string): SavedCredential;
  /** Takes the place of what an earlier `configure()` of an SDK named. */
  configure(body: RegistryBody): RegistryInUse;
  /** Asks the other side about what is set now. */
  check(name: string): Promise<CredentialCheck>;
}

/** Models of the hub. Errors are those of the catalogue. */
export interface ModelsOfHub {
  /** Starts a pull, or joins the one that is the same. */
  pull(body: HubPullBody): HubPull;
  /** Resolves when the pull has ended well; throws its error otherwise. */
  wait(id: string): Promise<HubPulled>;
  /** Newest first. */
  list(): HubPull[];
  get(id: string): HubPull;
  /** Resolves when it has ended. One that had ended before stays as it is. */
  cancel(id: string): Promise<HubPull>;
  models(): Promise<HubModel[]>;
  /** Removes what svc keeps of a model; resolves with the folders that are gone. */
  remove(modelId: string): Promise<string[]>;
  /** Checks a model on the disk and lists it from then on. */
  adopt(path: string): Promise<HubAdopted>;
}

export interface ControlPlane {
  readonly home: string;
  readonly installationId: string;
  readonly startedAt: string;
  readonly reads: Reads;
  /** Durable before it resolves. Throws a catalogue error that names the field; then nothing was changed. */
  submit(body: SubmitBody, options: SubmitOptions): Promise<{ record: JobRecord; created: boolean }>;
  /** What the run would rent, send and cost. Rents, starts and keeps nothing; what would be refused is in the answer. */
  plan(body: SubmitBody, options: Pick<SubmitOptions, "defaultProjectDir">): Promise<Plan>;
  /** Finds every secret that svc knows, for whatever it shows. */
  secrets(): Redactor;
  /** A ready body for a first run on this computer; null where the example is not installed. */
  example(): Summary["example"];
  /** The kill is durable before it resolves; the job then goes through `terminating`. A second kill changes nothing. */
  kill(jobId: string): Promise<{ record: JobRecord; alreadyTerminal: boolean }>;
  /** The run and all that is kept of it are gone when it resolves. Throws `job_not_found`, `job_not_removable`. */
  remove(jobId: string): Promise<Removed>;
  /** Ids of the jobs that were told to end. */
  killAll(): Promise<string[]>;
  /** Tries at once what a sink of the job failed to copy, also what was given up. Throws `sinks_none`. */
  retrySinks(jobId: string): Promise<void>;
  reconcile(options: { dryRun: boolean }): Promise<ReconcileReport>;
  providers(): ProviderInfo[];
  readonly credentials: CredentialsOf;
  readonly hub: ModelsOfHub;
  /** What a user runs in a notebook so that svc can reach it: the cell alone, and a whole notebook. Throws `ssh_key_unusable`. */
  notebookBootstrap?(): Promise<{ cell: string; notebook: object }>;
  /** Called with each durable event after its commit, in order of seq, and with hints; returns the way to stop. */
  subscribe(listener: (event: FeedEvent | FeedHint | HubPullHint) => void): () => void;
  /**
   * Graceful end: jobs with terminate_on_exit go through `terminating`; resolves when they are terminal or the deadline is
   * over, with the ids of jobs that still are not.
   * @param collectingMs how long those may take whose logs and checkpoints are coming home; the deadline where absent
   */
  shutdown(deadlineMs: number, collectingMs?: number): Promise<{ unfinished: string[] }>;
}
