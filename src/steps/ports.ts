// The interface of the steps to the control plane. The engine's side implements it over the store; a simulation does
// too.

import type { MachineLooks } from "./rental/machine-looks.ts";
import type { TunnelOutages } from "./rental/tunnel-outage.ts";
import type { CheckpointFile, JobError, MachineState, Note } from "../schemas/job.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import type { RunnerSample } from "../schemas/runner.ts";
import type { MachineLimit, Unfetched } from "../domain/budget.ts";
import type { LogRecord } from "../domain/log-stream.ts";

export interface JobFacts {
  id: string;
  /** The spec of the open placement: the job's own, with its candidate's fields over it. */
  spec: RunSpec;
  projectDir: string;
  /** Number of the placement, from 1. */
  placement: number;
}

/** A candidate with the spec that a placement of it would have. */
export interface PlacedCandidate {
  index: number;
  spec: RunSpec;
}

/** The candidates of a job that waits for a machine, and the results so far. */
export interface Search {
  candidates: readonly PlacedCandidate[];
  /** Candidates that are not asked because their image cannot start. */
  ruledOut?: readonly (PlacedCandidate & { why: string })[];
  choose: "in_order" | "cheapest";
  /** When this search began, in milliseconds since the epoch. */
  since: number;
  /** How long the user wants to wait. */
  waitMs: number;
  /** Orders that were refused in this search, the last one of each candidate. */
  refusals: readonly { candidate: number; at: number; code: string; message: string }[];
  /** Candidates whose machines of this job were unfit or did not boot, once for each machine. */
  unfit: readonly number[];
}

/** One order of a machine, from the intent to the proof that it is gone. */
export interface LedgerEntry {
  name: string;
  jobId: string | null;
  node: number;
  ordinal: number;
  provider: string;
  /** Number of the placement that ordered it. */
  placement: number;
  state: MachineState;
  handle: MachineHandle | null;
  createdAt: number;
  /** Until this time the order's request may still take effect. */
  horizonAt: number;
  /** From then on the machine's own guard may have ended it; null or absent for never. */
  endsFrom?: number | null;
  emptyLooks: number;
  lastLookAt: number | null;
  /** The account of the order; null if it was unknown. */
  account: string | null;
  /** The node has a later order, so this one had been closed: a late answer reopened it. svc ends its machine and never uses it. */
  superseded?: boolean;
}

/** The record of an order before its request leaves. */
export type Intent = Pick<LedgerEntry, "name" | "node" | "ordinal" | "provider" | "horizonAt"> & {
  jobId: string;
  /** Whether the provider may take the machine back. */
  spot?: boolean;
  account?: string | null;
  /** The most that the machine may cost if its order gets no answer (ADR 0035). */
  atMost?: OrderAtMost;
};

/** Amounts are micro-dollars. */
export interface OrderAtMost {
  /** The highest price per hour that the order accepts; null if it is unknown. */
  rateMicro: number | null;
  /** The part of the budget that it is given; null without one. */
  micro: number | null;
  /** From this instant on the machine's own guard may end it; null if it has none. */
  endsFrom: number | null;
}

/** Facts about a closed order in addition to its proof. */
export interface ReleaseFacts {
  /**
   * The id of the machine that the proof is about, or null for an order without one. The row stays open if it has another machine by the time
   * of the commit: the answer to its order came meanwhile, and named a second machine of that name. Absent: not compared.
   */
  of?: string | null;
  /** A remaining note about the released machine. */
  left?: Note | null;
  /** A machine may have existed until this instant: no list that could show it was taken in time. */
  doubtAt?: number | null;
}

/** Every call is durable when it resolves. */
export interface Ledger {
  /** Orders of the node without a proven release: those of the newest placement first, then the oldest first. */
  open(jobId: string, node: number): LedgerEntry[];
  /** Ordinal for the next order of the node. */
  nextOrdinal(jobId: string, node: number): number;
  /** The number of orders for the node that this provider has ever received. */
  ordered(jobId: string, node: number, provider: string): number;
  /** Must resolve before the create request leaves. */
  intend(order: Intent): Promise<void>;
  /** The request has not left yet and the intent has grown old: move its horizon. */
  renew(name: string, horizonAt: number): Promise<void>;
  /** The machine exists. Reopens an order that was believed released. */
  held(name: string, handle: MachineHandle): Promise<void>;
  /** Updates the known facts of a held machine: endpoints, price. Changes nothing if nothing has changed. */
  known(name: string, handle: MachineHandle): Promise<void>;
  /** The provider has billed only the handle's `billedMicro` until this instant. After it, the whole price counts. */
  cheaper(name: string, until: number): Promise<void>;
  /** Another key turned out to open the machine's account, and so that of every open order of the earlier key. */
  account(name: string, account: string): Promise<void>;
  /** @param horizonAt set if the request may arrive later than expected at the intent. */
  unknown(name: string, note: Note, horizonAt?: number): Promise<void>;
  /** A listing after the horizon did not show it; resolves with the number of such listings in a row. */
  emptyLook(name: string): Promise<number>;
  releasing(name: string): Promise<void>;
  /** Whether the order is closed now: not if its row has another machine than the proof is about. */
  released(name: string, proof: string, more?: ReleaseFacts): Promise<boolean>;
  /** Whether the order is known, and proven released. */
  isClosed(name: string): boolean;
  note(name: string, note: Note | null): Promise<void>;
}

/** The ledger's facts about a machine. */
export interface RentedMachine {
  name: string;
  provider: string;
  /** The provider's own id of the hardware; null where it names none. */
  host: string | null;
  /** The model. */
  gpu: string;
  /** From the order until now. */
  seconds: number;
}

export interface HostMemory {
  /** It let us in and is what was ordered. */
  good(machine: RentedMachine): Promise<void>;
  /** Replaces a good verdict. */
  bad(machine: RentedMachine, reason: string): Promise<void>;
  /** Its GPUs. Resolves with words where a machine with one of them was bad within the last days, else null. */
  gpus(machine: string, uuids: readonly string[]): Promise<string | null>;
}

export interface LogCursor {
  sourceOffset: number;
  samplesOffset: number;
}

/** Stores a run's log: text, metrics, samples and the position in the source, in one transaction. */
export interface RunLogWriter {
  cursor(jobId: string, node: number, stream: "run" | "install"): LogCursor;
  append(part: {
    jobId: string;
    node: number;
    stream: "run" | "install" | "seam";
    text: Buffer;
    records: LogRecord[];
    samples: RunnerSample[];
    /** The start of this part in the source: a part that was stored before is refused. */
    from: LogCursor;
    to: LogCursor;
    times: { offset: number; atMs: number }[];
    /** A notice that says why bytes before this part are missing; the text then begins on a line of its own. */
    lost?: string | null;
  }): Promise<void>;
  checkpoints(jobId: string, files: CheckpointFile[], removed?: readonly string[]): Promise<void>;
  /** Writes svc's own lines before the run's first output; does nothing if the log has begun. */
  preface(jobId: string, lines: readonly string[]): Promise<void>;
  /** Writes a line of svc into the log between two placements, once for each placement. */
  seam(jobId: string, text: string): Promise<void>;
  notice(jobId: string, level: "info" | "warning", message: string, about?: "stuck"): Promise<void>;
  /** Sends the idle watchdog's verdict to the machine. */
  idle(jobId: string, node: number, error: { code: string; message: string; hint: string }): Promise<void>;
}

/** The ports for releasing a machine: no job, only the ledger. */
export type OrphanPorts = Omit<
  StepPorts,
  "facts" | "provider" | "ways" | "looks" | "silent" | "search" | "searches" | "checkpoint" | "pause" | "budget"
>;

/** Every call answers with null for a job without a budget. */
export interface BudgetPorts {
  /** Why there is not enough left for another machine. */
  lack(jobId: string): JobError | null;
  /** The deadlines of a machine about to be ordered, at its offer's price, and the micro-dollars that they leave to it. */
  limitOfOrder(jobId: string, priceMicro: number | null): (MachineLimit & { mostMicro: number }) | null;
  /** The deadlines that the job's machines get with a contact. */
  limit(jobId: string): MachineLimit | null;
  /** The files that are not downloaded yet. */
  unfetched(jobId: string, seen: Unfetched): void;
  /** Ends the run if its budget is reached: its guard may have stopped it while no control plane looked. */
  look(jobId: string): Promise<void>;
}

export interface StepPorts {
  installationId: string;
  now: () => number;
  /** Without an open placement, the spec is that of the last placement, else of the first candidate. */
  facts(jobId: string): JobFacts;
  search(jobId: string): Search;
  /** Whether an order that finds no machine leaves other candidates, or time to wait. */
  searches(jobId: string): boolean;
  /** The checkpoint from which another placement would start, by a unique name; null if none would follow or no checkpoint exists. */
  checkpoint?: (jobId: string) => Promise<string | null>;
  /** Waits by the clock of the control plane; rejects with the signal's reason if the signal comes first. */
  pause(ms: number, signal?: AbortSignal): Promise<void>;
  provider(name: string): Provider;
  /** The job's budget; absent where budgets do not apply. */
  budget?: BudgetPorts;
  ledger: Ledger;
  /** Tracks outages of machines whose provider cannot be asked. */
  ways: TunnelOutages;
  /** When the provider was last asked about each machine. */
  looks: MachineLooks;
  /** Closes the connections to a machine that no step needs any more, and stops renewing its lease. */
  gone?: (machine: string) => void;
  /** Every machine of this node is gone: no more data arrives from it. */
  silent?: (jobId: string, node: number) => Promise<void>;
}
