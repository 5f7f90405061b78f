// The parts and parameters of an engine.

import type { Clock } from "../domain/clock.ts";
import type { JobContext, JobEvent, JobInput } from "../machines/job-context.ts";
import type { StoredSnapshot } from "../machines/versions.ts";
import type { FeedEvent } from "../schemas/job.ts";
import type { StepRegistry } from "../steps/step.ts";
import type { EngineStore } from "../store/engine-store.ts";
import type { JobRow } from "../store/tables.ts";
import type { Noticed, Transaction } from "./transaction.ts";

export interface EngineOptions {
  store: EngineStore;
  steps: StepRegistry;
  clock: Clock;
  /** Runs `fn` at the end of this turn of the event loop. */
  defer: (fn: () => void) => void;
  /** Called at every boundary where a crash may be simulated. */
  probe?: (point: string) => void;
  publish?: (events: FeedEvent[]) => void;
  /** Called within the transaction of each event. */
  noticed?: Noticed;
  /**
   * Whether the limits of the home hold a new job back. Called within the transaction that stores it; throws the refusal of a job that
   * can never start.
   */
  holds?: (tx: Transaction, job: NewJob) => boolean;
  /** The disk is full: an owner of a reserve should release it now. */
  onDiskFull?: () => void;
  /** Reports an internal problem, as text for the control plane's own log. */
  report?: (message: string) => void;
}

export interface NewJob {
  id: string;
  input: Omit<JobInput, "at" | "job_id">;
  row: Pick<
    JobRow,
    "label" | "provider" | "gpus" | "nodes" | "spec" | "code_snapshot" | "left_out" | "idem_key" | "idem_hash"
  > &
    Partial<Pick<JobRow, "tags">>;
  /** Further rows that are committed or rolled back together with the job's own. */
  also?: () => void;
}

/** An event without its instant: the engine stamps it. */
export type EventBody = JobEvent extends infer E ? (E extends JobEvent ? Omit<E, "at"> : never) : never;
export type SendResult = { accepted: boolean; state: string };

/** A job's position in its list of placements. */
export type PlacementNow = Pick<JobContext, "candidate" | "on_demand" | "searching_since" | "refusals"> & {
  /** Number of the open placement, else of the last one; 0 before the first. */
  n: number;
  /** Candidates whose image cannot start, with the provider's words. */
  ruledOut: { candidate: number; message: string }[];
  /** Whether candidates are searched for a machine in `waiting`. */
  searches: boolean;
  /** Whether another placement may follow the one that is ending. */
  mayGoOn: boolean;
};

/** The journal entry of a snapshot that did not come from an event. */
export interface Rebased {
  type: "machine.rebased";
  snapshot: StoredSnapshot;
  version: number;
}
