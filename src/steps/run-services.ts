import type { Redactor } from "../domain/redaction.ts";
import type { CheckpointCollector } from "./checkpoints/collector.ts";
import type { StepPorts, RunLogWriter } from "./ports.ts";
import type { Guard } from "../providers/host.ts";
import type { MachineHandle } from "../providers/provider.ts";
import type { ManifestSeal } from "../files/code/code-snapshot.ts";
import type { Entrypoint } from "../files/entrypoint.ts";
import type { DataManifest } from "../schemas/data.ts";
import type { Undecided } from "./follow/log-follower.ts";
import type { Install } from "./launch/install-command.ts";
import type { Resume } from "./checkpoints/resume.ts";
import type { StoredLeftOut } from "../schemas/job.ts";
import type { RunPlan } from "./launch/runner-spec.ts";

/** What the steps of a run need beyond the ledger; made in the composition root. */
export interface RunServices extends StepPorts {
  sink: RunLogWriter;
  /** The metrics mark of the job and the matcher of all its secrets. */
  secrecy(jobId: string): { mark: string; redactor: Redactor };
  /** Checks the entrypoint where it lies. Throws `entrypoint_not_found` and its kin. */
  entry(projectDir: string, entrypoint: string): Promise<Entrypoint>;
  plan(jobId: string, node: number, purpose: "run" | "install"): Promise<RunPlan>;
  /** What has to be run before the script, or why nothing has. */
  installCommand(jobId: string, inPlace: boolean): Promise<Install>;
  /** The code snapshot of the job, and a folder of this home where it may be laid out to be sent. */
  code(jobId: string, node: number): { codeDir: string; id: string; stageDir: string; manifests?: ManifestSeal };
  /** What of the project is no part of that snapshot; null where that is nothing. */
  leftOut(jobId: string): StoredLeftOut | null;
  /** Absolute folder that holds the package `svc`. */
  packagesDir: string;
  /** What ends the machine of this handle by itself; null where nothing can. */
  guard(jobId: string, handle: MachineHandle): Guard | null;
  checkpointDir(jobId: string, node: number): string;
  /** The manifests of the run's data as they were at submission. */
  data(jobId: string): DataManifest[];
  /** Where the data of a run in place lies. */
  dataDir(jobId: string, node: number): string;
  /** The checkpoint that the run goes on from, chosen when it is first asked for; null where it begins anew. */
  resume(jobId: string): Promise<Resume | null>;
  /** Writes down what the script called complete: names in the checkpoint directory. */
  announced(jobId: string, node: number, names: readonly { path: string; step: number | null }[]): void;
  /** One per job and node, so that two scans of one run can be compared. */
  collector(jobId: string, node: number): CheckpointCollector;
  undecided: Undecided;
  /** The package index that machines test their download with: an address, `off`, or the machine's own where absent. */
  gateIndex?: string;
  pause(ms: number): Promise<void>;
}
