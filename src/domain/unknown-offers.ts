// Plans in which a provider has not shown all offers yet, because it limits its searches. Loads no zod.

import type { Plan } from "../schemas/plan.ts";

/** Time after which another plan has the rest: two searches of market, which are six seconds apart. */
export const OFFERS_KNOWN_MS = 8_000;

export const hasUnknownOffers = ({ refusal }: Pick<Plan["candidates"][number], "refusal">): boolean =>
  refusal?.code === "offers_unknown";
