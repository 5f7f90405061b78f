import { SvcError } from "../errors/index.ts";
import type { RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

/**
 * Checks the runner's answer to a start request. Throws `entrypoint_not_runnable` if the script itself could not be
 * started: the caller must fix that, and a retry cannot help.
 */
export function startable(status: RunnerStatus, spec: RunnerSpec): RunnerStatus {
  if (!status.not_runnable) return status;
  const why = `cannot be run: ${status.error ?? "the runner gave no reason"}`;
  throw new SvcError("entrypoint_not_runnable", { entrypoint: spec.argv[0] ?? "", why });
}
