// What steps need from the control plane. The engine's side implements these over the store; a simulation does too.

import type { TunnelOutages } from "./rental/tunnel-outage.ts";
import type { CheckpointFile, MachineState, Note } from "../schemas/job.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import type { RunnerSample } from "../schemas/runner.ts";
import type { LogRecord } from "../domain/log-stream.ts";

export interface JobFacts {
  id: string;
  spec: RunSpec;
  projectDir: string;
}

/** One order of a machine, from the intent to the proof that nothing of it is left. */
export interface LedgerEntry {
  name: string;
  jobId: string | null;
  node: number;
  ordinal: number;
  state: MachineState;
  handle: MachineHandle | null;
  createdAt: number;
  /** Until then a request that was sent for this order may still take effect. */
  horizonAt: number;
  emptyLooks: number;
  lastLookAt: number | null;
  /** Whose account it was ordered on; null where that was not known. */
  account: string | null;
}

/** What is written down of an order before it leaves. */
export type Intent = Pick<LedgerEntry, "name" | "node" | "ordinal" | "horizonAt"> & {
  jobId: string;
  provider: string;
  account?: string | null;
};

/** Every call is durable when it resolves. */
export interface Ledger {
  /** Orders of the node that are not proven released, oldest first. */
  open(jobId: string, node: number): LedgerEntry[];
  /** Ordinal for the next order of the node. */
  nextOrdinal(jobId: string, node: number): number;
  /** Machines of the node that existed and are proven released. */
  givenBack(jobId: string, node: number): number;
  /** Must resolve before the create request leaves. */
  intend(order: Intent): Promise<void>;
  /** The request has not left yet and the intent grew old: move its horizon. */
  renew(name: string, horizonAt: number): Promise<void>;
  /** The machine exists. Reopens an order that was thought released. */
  held(name: string, handle: MachineHandle): Promise<void>;
  /** What is known by now of a machine that is held: ways in, price. Changes nothing where nothing changed. */
  known(name: string, handle: MachineHandle): Promise<void>;
  /** Another key has shown that it opens the account that the machine is on. */
  account(name: string, account: string): Promise<void>;
  /** @param horizonAt where the request may land later than was thought when it was intended. */
  unknown(name: string, note: Note, horizonAt?: number): Promise<void>;
  /** A listing after the horizon did not show it; resolves with how many such in a row. */
  emptyLook(name: string): Promise<number>;
  releasing(name: string): Promise<void>;
  /** @param left what is to be known of the machine all the same */
  released(name: string, proof: string, left?: Note | null): Promise<void>;
  /** Whether the order is known, and proven released. */
  isClosed(name: string): boolean;
  note(name: string, note: Note | null): Promise<void>;
}

export interface LogCursor {
  sourceOffset: number;
  samplesOffset: number;
}

/** Where a run's story is written down: text, metrics, samples and the place in the source, together. */
export interface RunLogWriter {
  cursor(jobId: string, node: number, stream: "run" | "install"): LogCursor;
  append(part: {
    jobId: string;
    node: number;
    stream: "run" | "install";
    text: Buffer;
    records: LogRecord[];
    samples: RunnerSample[];
    /** Where this part began in the source: a part that was written before is refused. */
    from: LogCursor;
    to: LogCursor;
    times: { offset: number; atMs: number }[];
  }): Promise<void>;
  checkpoints(jobId: string, files: CheckpointFile[], removed?: readonly string[]): Promise<void>;
  /** Lines of svc's own before anything of the run: nothing is written where the log has begun. */
  preface(jobId: string, lines: readonly string[]): Promise<void>;
  notice(jobId: string, level: "info" | "warning", message: string): Promise<void>;
  /** Sends the idle watchdog's verdict to the machine. */
  idle(jobId: string, node: number, error: { code: string; message: string; hint: string }): Promise<void>;
}

/** What giving a machine back needs: no job, only the ledger. */
export type OrphanPorts = Omit<StepPorts, "facts" | "provider" | "ways" | "silent">;

export interface StepPorts {
  installationId: string;
  now: () => number;
  facts(jobId: string): JobFacts;
  provider(name: string): Provider;
  ledger: Ledger;
  /** Of machines that their provider cannot be asked about. */
  ways: TunnelOutages;
  /** The machine is proven gone: connections and pins of it may be forgotten. */
  gone?: (machine: string) => void;
  /** No machine of this node is left: nothing more comes from it. */
  silent?: (jobId: string, node: number) => Promise<void>;
}
