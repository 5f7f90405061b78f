// The machines that a job may use. The spec of a placement is the job's spec, overridden by the fields of its candidate.

import type { RunSpec } from "../schemas/spec.ts";

/** Further placements after failures and after preemptions, where the spec does not say. */
export const RETRIES_BY_DEFAULT = 2;
export const PREEMPTIONS_BY_DEFAULT = 10;

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

/** The image of a candidate's machines; null stands for the default of its provider. */
export interface CandidateImage {
  provider: string;
  image: string | null;
}

export const candidateImages = (spec: RunSpec): CandidateImage[] =>
  candidateSpecs(spec, false).map(({ spec: { provider, image = null } }) => ({ provider, image }));

/** The defaults of two providers are two images. */
export const isSameImage = (one: CandidateImage | undefined, other: CandidateImage | undefined): boolean =>
  one !== undefined && one.image === other?.image && (one.image !== null || one.provider === other.provider);

/**
 * The candidates that remain after the images of the `failed` ones could not start: those with another image, and with `twice` those that
 * try the same image at a second provider, which may have a login to its registry or another processor.
 */
export function candidatesLeft(images: readonly CandidateImage[], failed: readonly number[], twice: boolean): number[] {
  return images.flatMap((one, index) => {
    const same = failed.map((other) => images[other]).filter((other) => isSameImage(one, other));
    const isSecond = twice && same.length === 1 && same[0]?.provider !== one.provider;
    return same.length === 0 || isSecond ? [index] : [];
  });
}

/** Separates the candidates to ask from those whose image cannot start. */
export function withoutBadImages<T extends { index: number }>(
  candidates: readonly T[],
  ruledOut: readonly { candidate: number; message: string }[],
): { candidates: T[]; ruledOut: (T & { why: string })[] } {
  const whys = new Map(ruledOut.map(({ candidate, message }) => [candidate, message]));
  return {
    candidates: candidates.filter(({ index }) => !whys.has(index)),
    ruledOut: candidates.flatMap((one) => {
      const why = whys.get(one.index);
      return why === undefined ? [] : [{ ...one, why }];
    }),
  };
}

/** The spec in its stored form: `provider` and `gpus` are those of the first candidate, if there are candidates. */
export function withFirstCandidate<T extends RunSpec>(spec: T): T {
  const [first] = spec.candidates ?? [];
  return first === undefined ? spec : { ...spec, provider: first.provider, gpus: first.gpus ?? spec.gpus };
}
