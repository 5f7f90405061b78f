/**
 * svc for TypeScript: start runs, watch them, and log from inside of them.
 *
 *     import { run, stream } from "svc";
 *     const job = await run({ task: { entrypoint: "train.py" }, gpus: "cpu" });
 *     for await (const line of stream(job.id)) console.log(line);
 */

export { SvcError } from "./errors.ts";
export { configure, type Credential, type NotifyTarget, type Registry } from "./configure.ts";
export { plan, run, type RunParameters, type Task } from "./run.ts";
export { stream, wait } from "./follow.ts";
export {
  job,
  jobs,
  kill,
  update,
  listGpus,
  placements,
  reconcile,
  remove,
  removeCheckpoints,
  vramFor,
} from "./runs.ts";
export { costs, limits, receipt, setLimits } from "./money.ts";
export { archive, retention, setRetention, unarchive } from "./retention.ts";
export { hub, type PullOptions } from "./hub.ts";
export { checkpointDir, log, type Metrics } from "./log.ts";
export type { CostGroup, CostReport, CostTotal, Receipt, ReceiptMachine } from "../src/schemas/costs.ts";
export type { HomeLimits, LimitsChange, LimitUse } from "../src/schemas/limits.ts";
export type { HubModel } from "../src/schemas/hub.ts";
export type { Placement, Placements } from "../src/schemas/placement.ts";
export type { Plan } from "../src/schemas/plan.ts";
export type { CheckpointsRemoved, Removed } from "../src/schemas/removal.ts";
export type { OldRuns, HomeRetention, RetentionRule } from "../src/schemas/retention.ts";
export type { Gpu, JobRecord, JobStatus, ReconcileReport } from "../src/schemas/job.ts";
