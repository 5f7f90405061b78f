// The machines that a job may use. The spec of a placement is the job's spec, overridden by the fields of its candidate.

import type { RunSpec } from "../schemas/spec.ts";

/** The number of candidates; a spec without `candidates` is itself the only candidate. */
export const candidateCount = (spec: RunSpec): number => spec.candidates?.length ?? 1;

/** The providers of all candidates, each once. */
export const providersOf = (spec: RunSpec): RunSpec["provider"][] => [
  ...new Set(spec.candidates?.map(({ provider }) => provider) ?? [spec.provider]),
];

/** @param onDemand true excludes spot machines, whatever the spec asks for. */
export function candidateSpec(spec: RunSpec, index: number, onDemand = false): RunSpec {
  // `index` is valid: it comes from the job of this spec.
  const candidate = spec.candidates?.[index];
  const placed = candidate === undefined ? spec : { ...spec, ...candidate, gpus: candidate.gpus ?? spec.gpus };
  return onDemand ? { ...placed, spot: "never" } : placed;
}

/** The candidates that may be rented, each with its spec. With `onDemand`, one that wants only spot machines is left out. */
export const candidateSpecs = (spec: RunSpec, onDemand: boolean): { index: number; spec: RunSpec }[] =>
  Array.from({ length: candidateCount(spec) }, (_, index) => index)
    .filter((index) => !onDemand || candidateSpec(spec, index).spot !== "only")
    .map((index) => ({ index, spec: candidateSpec(spec, index, onDemand) }));

/** The spec as it is stored: `provider` and `gpus` are those of the first candidate, if there are candidates. */
export function withFirstCandidate<T extends RunSpec>(spec: T): T {
  const [first] = spec.candidates ?? [];
  return first === undefined ? spec : { ...spec, provider: first.provider, gpus: first.gpus ?? spec.gpus };
}
