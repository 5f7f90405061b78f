import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { Problem } from "../../../../src/schemas/job.ts";
import { isSystem } from "./shown-chart.ts";
import { MetricsSet } from "./reader.ts";

export interface KnownMetrics {
  set: MetricsSet;
  names: readonly string[];
  loading: boolean;
  problem: Problem | null;
}

/** The metrics of some runs; each displayed series is read once, and then what is new. */
export function useMetrics(ids: readonly string[], ended: boolean): KnownMetrics {
  const key = ids.join();
  const set = useMemo(() => new MetricsSet(key.split(",")), [key]);
  useSyncExternalStore(set.subscribe, set.version);
  useEffect(() => {
    if (ended) set.refresh();
  }, [ended, set]);
  const known = set.names;
  const names = useMemo(() => [...known].sort(byName), [known]);
  return { set, names, loading: set.readers[0]?.names === null, problem: set.readers[0]?.problem ?? null };
}

/** The most-watched metrics come first, measurements of the machine last. */
function byName(a: string, b: string): number {
  const rank = (name: string) =>
    isSystem(name) ? 3 : /loss/i.test(name) ? 0 : /acc|score|reward|perplexity/i.test(name) ? 1 : 2;
  return rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true });
}
