// The messages between a world and its control plane.

import { OUTCOMES } from "../../src/schemas/names.ts";
import type { JobRecord, ReconcileReport } from "../../src/schemas/job.ts";
import type { Placement } from "../../src/schemas/placement.ts";

export const ENDED: ReadonlySet<string> = new Set(OUTCOMES);

export interface WorldOrder {
  home: string;
  project: string;
  startMs: number;
  factor: number;
  jobs: Record<string, unknown>[];
  /** The boundary at which this control plane dies; null for none. */
  kill: string | null;
}

export type Told =
  | { is: "event"; name: string; data: Record<string, unknown> }
  | { is: "over"; records: JobRecord[]; logs: string[]; checkpoints: string[][]; placements: Placement[][] }
  | { is: "refused"; why: string }
  | { is: "reconciled"; report: ReconcileReport };

/** Moments at which a control plane can be killed: after a commit of its own, or after an action of the provider. */
export const KILL_POINTS = [
  "job.created",
  "provision.started",
  "machine.intended",
  "sim.made", // the machine exists; the answer is not recorded yet
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
  "log", // the first lines were downloaded
  "checkpoint.saved",
  "stream.succeeded",
  "collect.started",
  "collect.succeeded",
  "terminate.started",
  "machine.releasing",
  "sim.ended", // the machine is gone; nothing has been reported yet
  "machine.released",
] as const;
/** Boundaries between two placements of a job. */
export const MOVE_POINTS = ["placement.closed", "placement.opened", "place.started", "place.succeeded"] as const;
export type KillPoint = (typeof KILL_POINTS | typeof MOVE_POINTS)[number];
