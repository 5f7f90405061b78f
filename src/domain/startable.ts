import { SvcError } from "../errors/index.ts";
import type { RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

/**
 * What the runner says of a run that was asked for. Throws `entrypoint_not_runnable` where the script itself could not be started: that is
 * the caller's to mend, however often it is asked for.
 */
export function startable(status: RunnerStatus, spec: RunnerSpec): RunnerStatus {
  if (status.phase !== "failed" || status.error === null) return status;
  const why = /^(?:exec|cwd): (.*)$/s.exec(status.error)?.[1];
  if (why === undefined) return status;
  throw new SvcError("entrypoint_not_runnable", { entrypoint: spec.argv[0] ?? "", why: `cannot be run: ${why}` });
}
