// The snapshot of a run's code, as the actions of `svc code` read it.

import { SvcError } from "../../../errors/index.ts";
import { homeLayout } from "../../../platform/home-layout.ts";
import type { CodeSnapshot } from "../../../schemas/job.ts";
import type { Io } from "../../io.ts";
import type { OpenReads } from "../../store.ts";

/** Code that reads and compares files is loaded when it is used. */
export const contents = () => import("../../../files/code/contents.ts");

export const codeDir = (io: Io): string => homeLayout.code(io.home());

export function snapshotOf(reads: OpenReads, id: string, options: { restored?: boolean } = {}): CodeSnapshot {
  const snapshot = reads.code(id, options);
  if (!snapshot) throw new SvcError("code_snapshot_missing", { job: id });
  return snapshot;
}

export const counted = (n: number): string => (n === 1 ? "1 file was" : `${n} files were`);
