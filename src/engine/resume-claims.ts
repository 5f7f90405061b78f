// Runs that are being submitted and will resume from another run. Removals ask here: between the check of a submission and its commit, the
// source must stay. One control plane per home makes a list in memory enough.

import { specOf } from "../schemas/stored-spec.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { EngineStore } from "../store/engine-store.ts";

/** Maximum length of a chain of resumed runs. */
const CHAIN_MAX = 1_000;

/** The run that this one resumes from, the run that that one resumes from, and so on. */
export function sourcesOf(store: EngineStore, { resume_from }: Pick<RunSpec, "resume_from">): Set<string> {
  const found = new Set<string>();
  let next = resume_from;
  for (let n = 0; next !== undefined && n < CHAIN_MAX && !found.has(next); n++) {
    found.add(next);
    const row = store.job(next);
    next = row ? specOf(row).resume_from : undefined;
  }
  return found;
}

/** The live runs that resume from this one, perhaps through others. */
export const liveHeirs = (store: EngineStore, jobId: string): string[] =>
  store.liveJobs().flatMap((live) => (sourcesOf(store, specOf(live)).has(jobId) ? [live.id] : []));

export class ResumeClaims {
  readonly #store: EngineStore;
  readonly #claims = new Set<ReadonlySet<string>>();

  constructor(store: EngineStore) {
    this.#store = store;
  }

  /** Call it before the submission is checked, and the returned function once it is committed or refused. */
  claim(spec: Pick<RunSpec, "resume_from">): () => void {
    const claim = sourcesOf(this.#store, spec);
    this.#claims.add(claim);
    return () => void this.#claims.delete(claim);
  }

  isClaimed(jobId: string): boolean {
    return [...this.#claims].some((claim) => claim.has(jobId));
  }
}
