// How long a script has between TERM and KILL, by its spec. The launchers, the budgets and the records use it.

import type { RunSpec } from "../schemas/spec.ts";
import { STOP_GRACE_SECONDS } from "../schemas/stored-spec.ts";
import { processCount } from "./gpus.ts";

/** By default torchrun gives its ranks 30 seconds; stopping it must wait a little longer. */
const RANKS_GRACE_SECONDS = 40;

type Processes = Pick<RunSpec, "launcher" | "gpus" | "nodes">;
type StopGrace = Partial<Pick<RunSpec, "stop_grace_seconds">>;

/** Seconds between TERM and KILL: long enough to write a last checkpoint. With the default, ranks get longer. */
export function stopGraceSeconds(spec: Processes & StopGrace): number {
  // A run that an earlier version stored has no value.
  const given = spec.stop_grace_seconds ?? STOP_GRACE_SECONDS;
  return given === STOP_GRACE_SECONDS && hasRanks(spec) ? RANKS_GRACE_SECONDS : given;
}

/** The time by which limits at the end of a run grow with its grace: they are sized for the defaults. */
export const extraGraceMs = ({ stop_grace_seconds }: StopGrace): number =>
  Math.max(0, (stop_grace_seconds ?? 0) - RANKS_GRACE_SECONDS) * 1_000;

/** The launcher that `auto` means for this many processes, for any entrypoint. */
export function launcherOf(spec: Processes): "single" | "torchrun" | "ray" {
  if (spec.launcher !== "auto") return spec.launcher;
  return processCount(spec.gpus) > 1 || spec.nodes > 1 ? "torchrun" : "single";
}

/** Whether a launcher starts the processes of the run, as far as the spec alone tells. */
export function hasRanks(spec: Processes): boolean {
  return launcherOf(spec) !== "single";
}
