// Which machines a job may use: the spec of each placement is the job's own with its candidate's fields over it.

import type { RunSpec } from "../schemas/spec.ts";

/** How many candidates the spec has; a spec without `candidates` is its own and only one. */
export const candidateCount = (spec: RunSpec): number => spec.candidates?.length ?? 1;

/** The providers that its machines may come from, each once. */
export const providersOf = (spec: RunSpec): RunSpec["provider"][] => [
  ...new Set(spec.candidates?.map(({ provider }) => provider) ?? [spec.provider]),
];

/** @param onDemand whether spot machines are no longer used, whatever the spec asks for. */
export function candidateSpec(spec: RunSpec, index: number, onDemand = false): RunSpec {
  // `index` comes from a job that was made of this very spec.
  const candidate = spec.candidates?.[index];
  const placed = candidate === undefined ? spec : { ...spec, ...candidate, gpus: candidate.gpus ?? spec.gpus };
  return onDemand ? { ...placed, spot: "never" } : placed;
}

/** The spec as it is kept: where it names candidates, its own fields are the first one's. */
export function withFirstCandidate<T extends RunSpec>(spec: T): T {
  const [first] = spec.candidates ?? [];
  return first === undefined ? spec : { ...spec, provider: first.provider, gpus: first.gpus ?? spec.gpus };
}
