// How the rented machines of this home have worked.

import { z } from "zod";
import { ProviderName } from "./spec.ts";

export const HostHistory = z
  .object({
    /** Machines that let svc in and were what was ordered, of all that were rented in the last 90 days. */
    good: z.int(),
    of: z.int(),
    /** From the order until the first login, median of the good ones; null where there is none. */
    seconds_to_ssh_p50: z.number().nullable(),
  })
  .meta({ id: "HostHistory", description: "How machines of one GPU at one provider have worked in this home." });
export type HostHistory = z.infer<typeof HostHistory>;

export const HostStats = z
  .object({
    stats: z.array(HostHistory.extend({ provider: ProviderName, gpu: z.string() })),
    avoided: z.array(
      z.object({
        provider: ProviderName,
        /** The provider's own id of the hardware. */
        host: z.string(),
        gpu: z.string(),
        reason: z.string(),
        at: z.string(),
        /** Until then its offers are tried last. */
        until: z.string(),
      }),
    ),
  })
  .meta({ id: "HostStats" });
export type HostStats = z.infer<typeof HostStats>;
