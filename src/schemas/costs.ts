// Costs and receipts in the form of the API.

import { z } from "zod";
import { COST_DIMENSIONS } from "./cost-names.ts";
import { Instant } from "./job.ts";
import { ProviderName } from "./spec.ts";

const Day = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/, "must be a day, such as 2026-11-26");

export const CostsQuery = z
  .strictObject({
    by: z.enum(COST_DIMENSIONS).default("day"),
    from: Day.optional().meta({ description: "First day, in the time zone of the control plane." }),
    to: Day.optional().meta({ description: "Last day; it is included." }),
  })
  .refine(({ from, to }) => from === undefined || to === undefined || from <= to, {
    path: ["to"],
    message: "must not be before `from`",
  });
export type CostsQuery = z.infer<typeof CostsQuery>;

const Waste = z
  .object({
    starting: z.number().meta({ description: "From the order of a machine until the script began." }),
    idle_gpu: z.number().meta({ description: "Times of at least five minutes in which no GPU of the machine worked." }),
    held: z.number().meta({ description: "From the end of the script until svc began to end the machine." }),
    lost: z.number().meta({ description: "Work that another machine had to repeat." }),
    failed: z.number().meta({ description: "Scripts of runs that failed." }),
    proof: z
      .number()
      .meta({ description: "From the request to end the machine until the provider confirmed its end." }),
  })
  .meta({ id: "Waste", description: "Parts of `cost_usd` that brought nothing, in dollars." });

const Costs = {
  cost_usd: z.number().nullable().meta({ description: "Null if no price is known." }),
  cost_estimate_usd: z.number().nullable().meta({
    description:
      "`cost_usd`, the time without a price at the rate that you gave, and the most that orders without a proven outcome may have cost; null if a rate is missing or nothing needs an estimate.",
  }),
  work_usd: z.number().meta({ description: "The part of `cost_usd` that is not waste." }),
  waste: Waste,
  hours: z.number().meta({ description: "Time of machines." }),
  hours_without_price: z.number(),
  machines: z
    .int()
    .meta({ description: "Machines that were ordered in this time; this computer counts once for each run on it." }),
  machines_without_price: z.int(),
};

export const CostGroup = z
  .object({
    key: z.string().nullable().meta({ description: "Null for runs without a label, or machines without a run." }),
    ...Costs,
  })
  .meta({ id: "CostGroup" });
export type CostGroup = z.infer<typeof CostGroup>;

export const CostReport = z
  .object({
    by: z.enum(COST_DIMENSIONS),
    from: z.string().nullable(),
    to: z.string().nullable(),
    time_zone: z.string().meta({ description: "The time zone in which days begin." }),
    groups: z.array(CostGroup).meta({ description: "Days and months in order, other groups by cost." }),
    total: z.object(Costs).meta({ id: "CostTotal" }),
  })
  .meta({ id: "CostReport" });
export type CostReport = z.infer<typeof CostReport>;
export type CostTotal = CostReport["total"];

export const ReceiptMachine = z
  .object({
    name: z.string(),
    id: z.string().nullable(),
    provider: ProviderName,
    gpus: z.string().nullable(),
    node: z.int(),
    placement: z.int(),
    from: Instant.meta({ description: "When it was ordered." }),
    to: Instant.nullable().meta({ description: "When its end was proven; null if it may still cost money." }),
    hours: z.number(),
    price_per_hour_usd: z.number().nullable().meta({ description: "The last price." }),
    price_changed: z.boolean().meta({ description: "Whether an earlier time had another price." }),
    cost_usd: z.number().nullable(),
    cost_estimate_usd: z.number().nullable(),
    work_usd: z.number(),
    waste: Waste,
    proof: z.string().nullable().meta({ description: "How its end was proven, in the words of the ledger." }),
    unproven_usd: z.number().nullable().meta({
      description: "For an order whose outcome was never proven, the most that it may have cost; else null.",
    }),
  })
  .meta({ id: "ReceiptMachine" });
export type ReceiptMachine = z.infer<typeof ReceiptMachine>;

export const Receipt = z
  .object({
    job_id: z.string(),
    label: z.string().nullable(),
    status: z.string(),
    project: z.string().nullable(),
    is_final: z.boolean().meta({ description: "False while a machine may still cost money." }),
    machines: z.array(ReceiptMachine),
    total: z.object(Costs).meta({ id: "ReceiptTotal" }),
  })
  .meta({ id: "Receipt" });
export type Receipt = z.infer<typeof Receipt>;
