// Wires the parts for object stores. Their libraries are loaded when a sink is first opened.

import type { Clock } from "../domain/clock.ts";
import type { Engine } from "../engine/engine.ts";
import type { JobStatus } from "../schemas/job.ts";
import { unsealSpec } from "../secrets/sealed-spec.ts";
import { ByteBudget } from "../sinks/byte-budget.ts";
import type { SinkPorts } from "../sinks/ports.ts";
import { SinkSet } from "../sinks/sinks.ts";
import { SinkStore } from "../store/sink-store.ts";
import { specOf } from "../schemas/stored-spec.ts";

/** Memory for parts in flight, shared by all sinks. */
const MEMORY_BYTES = 32 * 1024 * 1024;

export function sinksOf(parts: {
  home: string;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  engine: Engine;
  key: Buffer;
  logBytes: (jobId: string) => number;
  report: (line: string) => void;
}): SinkSet {
  const { engine, clock, ...rest } = parts;
  const openStore: SinkPorts["openStore"] = async (access) =>
    access.kind === "objstore_a"
      ? (await import("../sinks/s3-store.ts")).openS3(access)
      : (await import("../sinks/gcs-store.ts")).openGcs(access, clock.now);
  return new SinkSet({
    ...rest,
    clock,
    openStore,
    rows: new SinkStore(engine.store.db),
    budget: new ByteBudget(MEMORY_BYTES),
    commit: (fn) => engine.commit(fn),
    job: (jobId) => {
      const row = engine.store.job(jobId);
      if (!row) return null;
      const spec = unsealSpec(specOf(row), parts.key);
      return { spec, status: row.status as JobStatus, over: row.state === "terminal", endedAt: row.ended_at };
    },
  });
}
