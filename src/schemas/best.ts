// "The n best by a metric", the rule by which runs and checkpoints are kept: `loss:3` are the three lowest, `acc:3:max`
// the three highest.

export interface Best {
  metric: string;
  count: number;
  order: "min" | "max";
}

/** The metric's own name may hold colons. */
export const BEST = /^(.{1,512}):([1-9][0-9]{0,4})(?::(min|max))?$/;

/** Null if the text is not such a rule. */
export function parseBest(text: string): Best | null {
  const [, metric, count, order] = BEST.exec(text) ?? [];
  if (metric === undefined || count === undefined) return null;
  return { metric, count: Number(count), order: order === "max" ? "max" : "min" };
}

/**
 * The best of the items that have a value, at most `count`; among equals the first wins. NaN does not count as a value.
 */
export function bestOf<T>(all: readonly T[], { count, order }: Best, valueOf: (one: T) => number | null): T[] {
  const valued = all.flatMap((one) => {
    const value = valueOf(one);
    return value === null || Number.isNaN(value) ? [] : [{ one, value }];
  });
  const sign = order === "min" ? 1 : -1;
  return valued
    .toSorted((a, b) => sign * (a.value - b.value))
    .slice(0, count)
    .map(({ one }) => one);
}
