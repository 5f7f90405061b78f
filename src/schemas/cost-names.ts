// Words of costs that the dashboard and the CLI need without zod.

export const COST_DIMENSIONS = ["day", "month", "provider", "project", "label", "gpu"] as const;
export type CostDimension = (typeof COST_DIMENSIONS)[number];

export const WASTE_KINDS = ["starting", "idle_gpu", "held", "lost", "failed", "proof"] as const;
export type WasteKind = (typeof WASTE_KINDS)[number];

export const WASTE_WORDS: Readonly<Record<WasteKind, string>> = {
  starting: "starting",
  idle_gpu: "idle GPU",
  held: "held after the script",
  lost: "repeated work",
  failed: "failed runs",
  proof: "waiting for proof",
};
