// Distinguishes a run that svc refused before it rented anything from one that failed. Its status is `failed` in both cases; the
// dashboard names the difference. Loads no zod.

import type { JobRecord } from "../schemas/job.ts";

/** Nothing was ordered, or the provider said that it made nothing. */
const REFUSED: Readonly<Record<string, string>> = {
  price_cap_exceeded: "refused",
  price_unknown: "refused",
  no_funds: "refused",
  no_quota: "refused",
  provider_refused: "refused",
  credential_missing: "refused",
  credential_refused: "refused",
  no_offer: "no machine",
  offer_taken: "no machine",
};

/** `refused` or `no machine` for a run that ended before any machine existed; null for every other run. */
export function refusalOf(
  job: Pick<JobRecord, "status" | "error" | "machines" | "started_at" | "cost_usd" | "placements">,
): string | null {
  const isMade =
    job.placements > 1 || job.cost_usd > 0 || job.started_at !== null || job.machines.some(({ id }) => id !== null);
  return job.status !== "failed" || isMade || job.error === null ? null : (REFUSED[job.error.code] ?? null);
}

/** An attempt of `provision` records these offers when the cap refuses every one. */
export type OffersSeen = {
  offers_total: number;
  offers_seen: { id: string; facts: Readonly<Record<string, string>>; price_per_hour_usd: number | null }[];
};

export const isOffersSeen = (detail: unknown): detail is OffersSeen =>
  typeof detail === "object" && detail !== null && "offers_seen" in detail && Array.isArray(detail.offers_seen);
