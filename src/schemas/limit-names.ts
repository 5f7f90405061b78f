// The limits of a home by name, for the dashboard and the command line, which load no zod.

export const LIMIT_NAMES = ["usd_per_day", "usd_per_month", "usd_per_hour", "max_machines", "max_gpus"] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

/** Whether the limit is an amount of dollars; the others count. */
export const isMoney = (name: LimitName): boolean => name !== "max_machines" && name !== "max_gpus";
