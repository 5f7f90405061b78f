import type { Redactor } from "../domain/redaction.ts";
import type { Announcement } from "./checkpoints/announcements.ts";
import type { CheckpointCollector } from "./checkpoints/collector.ts";
import type { HostMemory, StepPorts, RunLogWriter } from "./ports.ts";
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

/** The services that the steps of a run need in addition to the ledger; created in the composition root. */
export interface RunServices extends StepPorts {
  sink: RunLogWriter;
  /** The metrics mark of the job and the matcher of all its secrets. */
  secrecy(jobId: string): { readonly mark: string; readonly redactor: Redactor };
  /** Checks the entrypoint in place. Throws `entrypoint_not_found` and related errors. */
  entry(projectDir: string, entrypoint: string): Promise<Entrypoint>;
  /** @param passwords further secrets that the run's output must not show. */
  plan(jobId: string, node: number, purpose: "run" | "install", passwords?: readonly string[]): Promise<RunPlan>;
  /** The command to run before the script, or why there is none. */
  installCommand(jobId: string, inPlace: boolean): Promise<Install>;
  /** The code snapshot of the job, and a folder of this home in which it may be prepared for sending. */
  code(jobId: string, node: number): { codeDir: string; id: string; stageDir: string; manifests?: ManifestSeal };
  /** The project files that the snapshot excludes; null if there are none. */
  leftOut(jobId: string): StoredLeftOut | null;
  /** Absolute path of the folder that contains the package `svc`. */
  packagesDir: string;
  /** The guard that ends this machine by itself; null if none is possible. */
  guard(jobId: string, handle: MachineHandle): Guard | null;
  checkpointDir(jobId: string, node: number): string;
  /** The manifests of the run's data at submission. */
  data(jobId: string): DataManifest[];
  /** The folder with the data of a run in place. */
  dataDir(jobId: string, node: number): string;
  /** The checkpoint from which the run resumes, chosen at the first call; null if it starts from the beginning. */
  resume(jobId: string): Promise<Resume | null>;
  /** Records files that the script announced as complete: names in the checkpoint directory. */
  announced(jobId: string, node: number, names: readonly Announcement[]): void;
  /** One per job and node, so that two scans of one run can be compared. */
  collector(jobId: string, node: number): CheckpointCollector;
  undecided: Undecided;
  hosts: HostMemory;
  /** The package index that machines test their download with: an address, `off`, or the machine's own where absent. */
  gateIndex?: string;
}
