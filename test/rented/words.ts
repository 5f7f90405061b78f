// What a world and its control plane say to each other.

import { OUTCOMES } from "../../src/schemas/names.ts";
import type { JobRecord, ReconcileReport } from "../../src/schemas/job.ts";

export const ENDED: ReadonlySet<string> = new Set(OUTCOMES);

export interface WorldOrder {
  home: string;
  project: string;
  startMs: number;
  factor: number;
  jobs: Record<string, unknown>[];
  /** The boundary at which this life ends; null where none is wanted. */
  kill: string | null;
}

export type Told =
  | { is: "event"; name: string; data: Record<string, unknown> }
  | { is: "over"; records: JobRecord[]; logs: string[]; checkpoints: string[][] }
  | { is: "refused"; why: string }
  | { is: "reconciled"; report: ReconcileReport };

/** Where a control plane can be killed: what it has just made durable, or what the provider has just done. */
export const KILL_POINTS = [
  "job.created",
  "provision.started",
  "machine.intended",
  "sim.made", // the machine exists; the answer has not been written down
  "machine.held",
  "provision.succeeded",
  "await_ssh.started",
  "await_ssh.succeeded",
  "sync.started",
  "sync.succeeded",
  "install.started",
  "install.succeeded",
  "launch.started",
  "launch.succeeded",
  "stream.started",
  "log", // the first lines are home
  "checkpoint.saved",
  "stream.succeeded",
  "collect.started",
  "collect.succeeded",
  "terminate.started",
  "machine.releasing",
  "sim.ended", // the machine is gone; nobody has been told
  "machine.released",
] as const;
export type KillPoint = (typeof KILL_POINTS)[number];
