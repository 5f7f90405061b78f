// The limits of a home in the form of the API.

import { z } from "zod";
import { LIMIT_NAMES } from "./limit-names.ts";

const LIMIT_USD_MAX = 1_000_000;

const usd = (what: string) =>
  z
    .number({ error: "must be a finite number of dollars" })
    .min(0, "must be 0 or more")
    .max(LIMIT_USD_MAX, `must be at most ${LIMIT_USD_MAX}`)
    .nullable()
    .optional()
    .meta({ description: what });
const count = (what: string) =>
  z
    .int({ error: "must be a whole number" })
    .min(0, "must be 0 or more")
    .max(1_000_000, "must be at most 1000000")
    .nullable()
    .optional()
    .meta({ description: what });

export const LimitsChange = z
  .strictObject({
    usd_per_day: usd("Dollars of a day, from midnight to midnight in the time zone of the control plane."),
    usd_per_month: usd("Dollars of a calendar month."),
    usd_per_hour: usd("Dollars per hour of all machines together."),
    max_machines: count("Machines at the same time."),
    max_gpus: count("GPUs at the same time."),
  })
  .meta({ id: "LimitsChange", description: "Fields that are left out stay; null removes a limit." });
export type LimitsChange = z.infer<typeof LimitsChange>;

export const LimitUse = z
  .object({
    limit: z.number().nullable().meta({ description: "Null if it is not set." }),
    used: z.number().meta({ description: "Dollars that the ledger counts for the period, or what runs hold now." }),
    reserved: z.number().nullable().meta({
      description: "Open runs may still need this in addition; null if svc cannot tell.",
    }),
    left: z.number().nullable().meta({ description: "Null without a limit, or if `reserved` is unknown." }),
  })
  .meta({ id: "LimitUse" });
export type LimitUse = z.infer<typeof LimitUse>;

export const LimitWait = z
  .object({
    position: z.int().meta({ description: "From 1, the oldest." }),
    of: z.int().meta({ description: "How many runs wait." }),
    passes: z.int().meta({ description: "Younger runs that were let in before it." }),
    limit: z.enum(LIMIT_NAMES).nullable().meta({ description: "Null if it waits only for its turn." }),
    never: z.boolean().meta({ description: "Whether it would not fit either if nothing else ran." }),
    why: z.string(),
  })
  .meta({ id: "LimitWait", description: "Why a run was not let in yet. Nothing is rented for it." });
export type LimitWait = z.infer<typeof LimitWait>;

export const HomeLimits = z
  .object({
    usd_per_day: LimitUse,
    usd_per_month: LimitUse,
    usd_per_hour: LimitUse,
    max_machines: LimitUse,
    max_gpus: LimitUse,
    machines_without_price: z.int().meta({
      description:
        "Machines that exist now and whose price is unknown. They are not in `used` of `usd_per_hour`; `reserved` has at most their cap.",
    }),
    waiting: z
      .array(LimitWait.extend({ job_id: z.string() }).meta({ id: "LimitWaiting" }))
      .meta({ description: "Runs that wait for a limit, oldest first." }),
  })
  .meta({ id: "HomeLimits" });
export type HomeLimits = z.infer<typeof HomeLimits>;
