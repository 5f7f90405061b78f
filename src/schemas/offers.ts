// The machines that the connected providers rent out now, with their prices: `GET /v1/offers`.

import { z } from "zod";
import { SPOT_CHOICES } from "./names.ts";
import { PlanOffer } from "./plan.ts";
import { GpuRequest, ProviderName } from "./spec.ts";

export const OffersQuery = z.strictObject({
  /** Absent: every model that a provider commonly has. */
  gpus: GpuRequest.optional(),
  provider: ProviderName.optional(),
  region: z.string().min(1).max(64).optional(),
  spot: z.enum(SPOT_CHOICES).optional(),
  /** Dollars per hour, for `within_cap`. */
  price_cap: z.coerce.number().nonnegative().optional(),
  /** How long to wait for providers, 15 by default. Later answers serve the next call. */
  within_seconds: z.coerce.number().min(0).max(60).optional(),
});
export type OffersQuery = z.infer<typeof OffersQuery>;

export const LiveOffer = PlanOffer.omit({ candidate: true, budget_lasts_seconds: true })
  .extend({ gpus: z.string().meta({ description: "The GPUs that were asked for, such as `A100:2`." }) })
  .meta({ id: "LiveOffer" });
export type LiveOffer = z.infer<typeof LiveOffer>;

export const Offers = z
  .object({
    /** The cheapest first; those without a price last. */
    offers: z.array(LiveOffer),
    /** One for each provider and GPU request: what it answered. */
    asked: z.array(
      z.object({
        provider: ProviderName,
        gpus: z.string(),
        offers_total: z.int(),
        /** Why there is no answer; null if there is one. */
        error: z.object({ code: z.string(), message: z.string(), hint: z.string() }).nullable(),
      }),
    ),
    /** How many requests had no answer in time. */
    open: z.int(),
  })
  .meta({ id: "Offers", description: "What the connected providers rent out now. Nothing was rented." });
export type Offers = z.infer<typeof Offers>;
