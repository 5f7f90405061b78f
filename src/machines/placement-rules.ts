// The rules for further placements that a spec asks for, in the form that the job machine keeps.

import {
  candidateCount,
  candidateImages,
  candidateSpec,
  PREEMPTIONS_BY_DEFAULT,
  RETRIES_BY_DEFAULT,
} from "../domain/candidates.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { NO_FURTHER_PLACEMENTS, type PlacementRules } from "./job-context.ts";

/** @param rents whether the provider rents machines. This computer and a notebook cannot be replaced by another machine. */
export function placementRules(spec: RunSpec, rents: boolean): PlacementRules {
  if (!rents) return NO_FURTHER_PLACEMENTS;
  const count = candidateCount(spec);
  const searches = count > 1 || (spec.wait_for_capacity_minutes ?? 0) > 0;
  const spots = Array.from({ length: count }, (_, index) => candidateSpec(spec, index).spot ?? "never");
  return {
    searches,
    // Before the script ran, another host may succeed. Later, another machine is worth its price only with a checkpoint.
    retry_max: spec.retry?.max ?? RETRIES_BY_DEFAULT,
    retry_on: spec.retry?.on ?? ["machine_unfit", "boot_failed"],
    recovers: spec.retry === undefined,
    max_preemptions: spec.max_preemptions ?? PREEMPTIONS_BY_DEFAULT,
    falls_back: spots.includes("prefer"),
    ...(searches ? { images: candidateImages(spec) } : {}),
  };
}
