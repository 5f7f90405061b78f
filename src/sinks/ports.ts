// The ports that copying needs: rows, the job's facts, time. The composition root provides them.

import type { Clock } from "../domain/clock.ts";
import type { JobStatus } from "../schemas/job.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { SinkStore } from "../store/sink-store.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { ObjectStore } from "./object-store.ts";
import type { SinkAccess } from "./sink-access.ts";

/** A part of a transaction of the store. */
export interface SinkTransaction {
  readonly at: number;
  feed(jobId: string, type: string, data: Record<string, unknown>): void;
}

export interface SinkPorts {
  home: string;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  rows: SinkStore;
  /** Durable when it resolves. */
  commit<T>(fn: (tx: SinkTransaction) => T): Promise<T>;
  /** Null if the job does not exist. */
  job(jobId: string): { spec: RunSpec; status: JobStatus; over: boolean; endedAt: number | null } | null;
  /** Length of the stored log. */
  logBytes(jobId: string): number;
  /** The installation's key: only it opens sealed data. */
  key: Buffer;
  budget: ByteBudget;
  /** Opens an object store; loads its library only now. */
  openStore(access: SinkAccess): Promise<ObjectStore>;
  report(line: string): void;
}
