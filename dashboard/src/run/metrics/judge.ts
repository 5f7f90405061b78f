// Which metric tells a good result from a bad one, judged by its name, and its value at a step.

import type { Columns } from "./columns.ts";
import { isSystem } from "./shown-chart.ts";

export type Better = "min" | "max";

const LOWER = /loss|(?:^|[^a-z])(?:err|error|perplexity|ppl|nll|[rm]*mse|mae|wer|cer|fid)(?![a-z])/i;
const HIGHER = /acc|(?:^|[^a-z])(?:score|reward|f1|auc|auroc|bleu|rouge|iou|m?ap|precision|recall|return)(?![a-z])/i;
const HELD_OUT = /(?:^|[^a-z])(?:val|valid|validation|eval|test|dev)(?![a-z])/i;

/** Whether lower or higher values are better; null if the name does not tell. */
export function betterOf(name: string): Better | null {
  if (isSystem(name)) return null;
  return LOWER.test(name) ? "min" : HIGHER.test(name) ? "max" : null;
}

/** The metrics that judge a run: those on data that was not trained on first, losses before scores. */
export function judges(names: readonly string[]): string[] {
  const rank = (name: string) => (HELD_OUT.test(name) ? 0 : 2) + (betterOf(name) === "min" ? 0 : 1);
  return names.filter((name) => betterOf(name) !== null).toSorted((a, b) => rank(a) - rank(b));
}

/** The last value that was logged up to the step, as `keep_checkpoints` judges; null if it is missing or not finite. */
export function valueUpTo({ step, value }: Columns, limit: number): number | null {
  let found = -1;
  for (const [i, each] of step.entries()) if (each <= limit && (found < 0 || each >= (step[found] ?? 0))) found = i;
  const last = value[found];
  return last !== undefined && Number.isFinite(last) ? last : null;
}

/** The index of the best value; -1 if there is none. Among equals the first wins. */
export function bestAt(values: readonly (number | null)[], better: Better): number {
  let best = -1;
  let most = -Infinity;
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    const worth = better === "min" ? -value : value;
    if (worth > most) [best, most] = [i, worth];
  }
  return best;
}
