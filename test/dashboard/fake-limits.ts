import type { HomeLimits } from "../../src/schemas/limits.ts";

/** A day's limit that is used up for now, with one run that waits for it. */
export const fakeLimits = (): HomeLimits => ({
  usd_per_day: { limit: 10, used: 3.6, reserved: 5, left: 1.4 },
  usd_per_month: { limit: null, used: 41.2, reserved: 5, left: null },
  usd_per_hour: { limit: null, used: 1.8, reserved: 0.2, left: null },
  max_machines: { limit: 4, used: 1, reserved: 0, left: 3 },
  max_gpus: { limit: null, used: 1, reserved: 0, left: null },
  machines_without_price: 1,
  waiting: [
    {
      job_id: "r5-waits",
      position: 1,
      of: 1,
      passes: 2,
      limit: "usd_per_day",
      never: false,
      why: "Waits: today's limit leaves $1.40 of $10.00, and the run may need $5.00",
    },
  ],
});
