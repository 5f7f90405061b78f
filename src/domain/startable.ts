import { SvcError } from "../errors/index.ts";
import type { RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

/**
 * Checks the runner's answer to a start request. Throws `entrypoint_not_runnable` if the script itself could not be
 * started: the caller must fix that, and a retry cannot help.
 */
export function startable(status: RunnerStatus, spec: RunnerSpec): RunnerStatus {
  if (status.phase !== "failed" || status.error === null) return status;
  const why = /^(?:exec|cwd): (.*)$/s.exec(status.error)?.[1];
  if (why === undefined) return status;
  throw new SvcError("entrypoint_not_runnable", { entrypoint: spec.argv[0] ?? "", why: `cannot be run: ${why}` });
}
