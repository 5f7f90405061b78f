// Checks the machines that a run may use when it is submitted, before anything is stored or rented.
//
// Every refusal names the field that has to change: the candidate's field if the candidate sets it, else the run's.

import { candidateCount, candidateSpec } from "../domain/candidates.ts";
import { SvcError } from "../errors/index.ts";
import type { Provider } from "../providers/provider.ts";
import type { Candidate, RunSpec } from "../schemas/spec.ts";
import { checkSpec, type SpecChecks } from "./check-spec.ts";

export interface CandidateChecks extends Omit<SpecChecks, "provider"> {
  providers: ReadonlyMap<string, Provider>;
}

/** Throws the first refusal, naming its field. Asks no provider. */
export function checkCandidates(checks: CandidateChecks, spec: RunSpec): void {
  checkFurtherMachines(checks.providers, spec);
  const refusals: unknown[] = [];
  for (let index = 0; index < candidateCount(spec); index++)
    try {
      checkCandidate(checks, spec, index);
    } catch (e) {
      refusals.push(e);
    }
  if (refusals.length === 0) return;
  throw ofAll(refusals, candidateCount(spec)) ?? refusals[0];
}

/** If every candidate contradicts the same field of the run, that field has to change; null otherwise. */
function ofAll(refusals: readonly unknown[], count: number): unknown {
  const [first] = refusals;
  if (refusals.length < count || !(first instanceof SvcError) || !(first.cause instanceof SvcError)) return null;
  const own = first.cause.errors?.[0]?.field;
  const isSame = (e: unknown): boolean =>
    e instanceof SvcError && e.cause instanceof SvcError && e.cause.errors?.[0]?.field === own;
  const isOfRun = own !== undefined && first.errors?.[0]?.field.endsWith(".provider") && own !== "spec.provider";
  return isOfRun && refusals.every(isSame) ? first.cause : null;
}

/** The same for one candidate, by itself. */
export function checkCandidate({ providers, ...checks }: CandidateChecks, spec: RunSpec, index: number): void {
  const placed = candidateSpec(spec, index);
  const candidate = spec.candidates?.[index];
  const provider = providers.get(placed.provider);
  try {
    checkSpec(placed, { ...checks, provider });
    if (candidate !== undefined) checkCap(provider, candidate);
  } catch (e) {
    throw candidate === undefined ? e : ofCandidate(e, index, candidate);
  }
}

const refusal = (field: string, what: string, why: string): SvcError => {
  const error = new SvcError("feature_unavailable", { what, why });
  return new SvcError(error.code, error.data, { errors: [{ field: `spec.${field}`, message: error.message }] });
};

/** Refuses rules for further machines if one of the providers rents no machines. */
export function checkFurtherMachines(providers: ReadonlyMap<string, Provider>, spec: RunSpec): void {
  const names = spec.candidates?.map(({ provider }) => provider) ?? [spec.provider];
  const fixed = names.findIndex((name) => providers.get(name)?.info.capabilities.bills === false);
  if (fixed < 0) return;
  const why = `${names[fixed]} rents no machines, so svc cannot use another one`;
  if (spec.candidates !== undefined) throw refusal(`candidates.${fixed}.provider`, "A candidate of this provider", why);
  if ((spec.retry?.max ?? 0) > 0) throw refusal("retry", "A retry on another machine", why);
  if ((spec.wait_for_capacity_minutes ?? 0) > 0)
    throw refusal("wait_for_capacity_minutes", "Waiting for capacity", why);
}

/** Refuses a cap for a provider that reports no prices: svc could not enforce it. */
function checkCap(provider: Provider | undefined, candidate: Candidate): void {
  if (candidate.price_cap === undefined || provider?.info.capabilities.reports_price !== false) return;
  throw refusal(
    "price_cap",
    "A price cap for this candidate",
    `${candidate.provider} reports no price to compare with it`,
  );
}

/** The fields that a candidate takes from the run if it does not set them. */
const TAKEN_FROM_RUN: ReadonlySet<string> = new Set(["gpus", "region", "price_cap", "min_vram_gb", "image", "spot"]);

/**
 * Renames the field of a refusal to the candidate's, if the candidate sets it. If the candidate takes it from the run, the run's field is
 * named. A field such as `nodes` belongs to the run alone: then the candidate's provider is named, because it contradicts the run.
 */
function ofCandidate(e: unknown, index: number, candidate: Candidate): unknown {
  if (!(e instanceof SvcError) || e.errors === undefined) return e;
  const errors = e.errors.map(({ field, message }) => {
    const own = field.replace(/^spec\./, "");
    const isSet = own in candidate || !TAKEN_FROM_RUN.has(own);
    const ofCandidates = `spec.candidates.${index}.${own in candidate ? own : "provider"}`;
    return isSet
      ? { field: ofCandidates, message }
      : { field: `spec.${own}`, message: `${message} (candidates.${index} takes it from the run)` };
  });
  return new SvcError(e.code, e.data, { cause: e, errors });
}
