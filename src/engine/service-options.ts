// The parts of the program that the control plane's service needs: src/app/app.ts puts them together.

import type { Redactor } from "../domain/redaction.ts";
import type { ProviderInfo, StoredLeftOut } from "../schemas/job.ts";
import type { Plan, Summary } from "../schemas/plan.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { Provider } from "../providers/provider.ts";
import type { Resumes } from "../steps/checkpoints/resume-choices.ts";
import type { Reads } from "../store/reads.ts";
import type { DiskReserve } from "../store/disk-reserve.ts";
import type { CredentialsOf, ModelsOfHub, NotificationsOf, RetentionOf } from "./control-plane.ts";
import type { ProjectMeasure } from "./cost-preview.ts";
import type { Engine } from "./engine.ts";
import type { LimitKeeper } from "./home-limits.ts";
import type { DurableLedger } from "./ledger.ts";

/** Code that was kept for a job without a row yet. */
export interface KeptCode {
  id: string;
  leftOut: StoredLeftOut | null;
  release(): void;
}

/** Copies checkpoints and logs to object stores. It decides nothing about a run, and a run never waits for it. */
export interface SinkKeeper {
  /** Throws the problem of a sink, naming its field. */
  check(spec: RunSpec, jobId: string): Promise<void>;
  /** Called within the transaction that creates the job. */
  enter(jobId: string, spec: RunSpec): void;
  begin(): void;
  changed(jobId: string): void;
  retry(jobId: string): Promise<void>;
  /** The checkpoint files that sinks of the job have still to copy, and where to. */
  uncopied(jobId: string): { path: string; url: string }[];
  /** Ends unfinished uploads at the stores: all of the job's, or those of checkpoints that it has no more. Never rejects. */
  endUploads(jobId: string, which: "all" | "dropped"): Promise<void>;
  settle(deadlineMs: number): Promise<void>;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  home: string;
  startedAt: string;
  engine: Engine;
  reads: Reads;
  ledger: DurableLedger;
  reserve: DiskReserve;
  newJobId: () => string;
  /** The providers that can be used here. */
  providers: Map<string, Provider>;
  describeProviders: () => ProviderInfo[];
  credentials: CredentialsOf;
  /** Checks the project and its entrypoint; throws the error that names the field. */
  checkProject: (projectDir: string, spec: RunSpec) => Promise<void>;
  /** Measures the project files that would be sent. Throws `project_dir_refused`. */
  measureProject: (projectDir: string, inPlace: boolean) => Promise<ProjectMeasure>;
  /** Previews the installation, and how the script would be started. Throws a submission's refusals. */
  preview: (
    projectDir: string,
    spec: RunSpec,
    files: readonly { path: string }[],
  ) => Promise<Pick<Plan, "install" | "start">>;
  example: () => Summary["example"];
  /** Keeps the project's code. It stays, used by a run or not, until `release` is called. */
  snapshot: (projectDir: string, spec: RunSpec) => Promise<KeptCode>;
  /** Dollars per hour of one machine, from the credential of a provider that reports no price; null without it. */
  rateOf: (provider: RunSpec["provider"]) => number | null;
  /** Throws `credential_missing` if the provider has no credential. */
  checkCredential: (provider: RunSpec["provider"]) => void;
  /** Throws if a secret that the spec names cannot be found. */
  checkSecrets: (spec: RunSpec) => void;
  /** Adds the secrets of a spec to the known ones. */
  remember: (spec: RunSpec) => void;
  /** A redactor for every known secret, and for those of a spec that is only being checked. */
  secrets: (also?: RunSpec) => Redactor;
  /** The spec in its stored form: without a secret in clear. */
  seal: (spec: RunSpec) => RunSpec;
  /** Equal for equal texts, and useless for guessing the text. */
  fingerprint: (text: string) => string;
  /** Throws `resume_unavailable` if the job in `resume_from` has no complete checkpoint to resume from. */
  checkResume: (spec: RunSpec) => Promise<void>;
  resumes: Pick<Resumes, "complete" | "points" | "sources">;
  /** Throws `data_unavailable`, naming the field, if data is unknown or has changed. */
  checkData: (names: readonly string[]) => Promise<void>;
  /** Pins the data's current version for the job; returns a function that undoes it. */
  pinData: (jobId: string, names: readonly string[]) => () => void;
  onTerminal: (jobId: string) => void;
  /** Reports problems that concern no run. */
  report: (message: string) => void;
  hub: ModelsOfHub;
  notifications: NotificationsOf;
  retention: RetentionOf;
  limits: LimitKeeper;
  sinks: SinkKeeper;
  /** The home's defaults for runs whose spec does not set them. */
  defaults: () => Pick<RunSpec, "keep_checkpoints">;
  /** The spec of the job was changed. */
  respec: (jobId: string) => void;
  /** Sends the present deadlines to the guards of the job's machines. Never rejects. */
  renewGuards: (jobId: string) => Promise<void>;
  /** Closes open files of a removed run. */
  forget: (jobId: string) => void;
  /** Deletes code that no run uses. */
  collectCode: () => Promise<void>;
}
