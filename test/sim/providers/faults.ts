// The active faults, and the meaning of their numbers. Their names are `FAULTS` in parts.ts; each simulator strikes those that can happen at its provider.

import { FAULTS, type FaultName, type Faults, type SimClock } from "./parts.ts";

/** The unit of each fault's number, and its default. */
export const MEASURES: Readonly<
  Record<FaultName, { unit: "times" | "ms" | "percent" | "kbit" | "hosts"; usual: number }>
> = {
  lost_after_create: { unit: "times", usual: 1 },
  error_after_create: { unit: "times", usual: 1 },
  error_before_create: { unit: "times", usual: 1 },
  slow_create: { unit: "ms", usual: 3_000 },
  listing_lag: { unit: "ms", usual: 3_000 },
  no_capacity: { unit: "times", usual: Infinity },
  sold_out: { unit: "ms", usual: 30_000 },
  offer_taken: { unit: "times", usual: 1 },
  delete_ignored: { unit: "times", usual: 2 },
  delete_errors: { unit: "ms", usual: 5_000 },
  delete_lost: { unit: "times", usual: 1 },
  hang: { unit: "ms", usual: 5_000 },
  api_retired: { unit: "times", usual: Infinity },
  api_retiring: { unit: "times", usual: Infinity },
  api_limited: { unit: "times", usual: Infinity },
  rate_limited: { unit: "times", usual: 3 },
  html_200: { unit: "times", usual: 1 },
  cut_json: { unit: "times", usual: 1 },
  json_bomb: { unit: "times", usual: 1 },
  price_nan: { unit: "times", usual: Infinity },
  price_null: { unit: "times", usual: Infinity },
  price_text: { unit: "times", usual: Infinity },
  price_moves: { unit: "percent", usual: 150 },
  price_higher: { unit: "percent", usual: 300 },
  price_rises: { unit: "percent", usual: 300 },
  price_rises_early: { unit: "percent", usual: 300 },
  hostile_strings: { unit: "times", usual: Infinity },
  port_swap: { unit: "ms", usual: 1_500 },
  boot_never: { unit: "times", usual: 1 },
  boot_fails: { unit: "times", usual: 1 },
  container_refused: { unit: "times", usual: 1 },
  image_missing: { unit: "times", usual: 1 },
  bad_hosts: { unit: "hosts", usual: 1 },
  busy_hosts: { unit: "hosts", usual: 1 },
  dead_hosts: { unit: "hosts", usual: 1 },
  gpu_lost: { unit: "times", usual: Infinity },
  gpu_other: { unit: "times", usual: Infinity },
  key_refused_first: { unit: "ms", usual: 3_000 },
  key_refused: { unit: "times", usual: Infinity },
  host_key_changes: { unit: "ms", usual: 1_500 },
  vanishes: { unit: "ms", usual: 1_500 },
  preempted: { unit: "ms", usual: 1_500 },
  spot_taken: { unit: "ms", usual: 10_000 },
  freezes: { unit: "ms", usual: 5_000 },
  black_hole: { unit: "ms", usual: 5_000 },
  slow_link: { unit: "kbit", usual: 256 },
  disk_full: { unit: "ms", usual: 1_500 },
};

export function makeFaults(): Faults {
  const on = new Map<FaultName, number>();
  const listeners: ((name: FaultName, measure: number | null) => void)[] = [];
  const change = (name: FaultName, measure: number | null): void => {
    if (measure === null) on.delete(name);
    else on.set(name, measure);
    for (const listener of listeners) listener(name, measure);
  };
  return {
    set: (name, measure) => change(name, measure ?? MEASURES[name].usual),
    clear(name) {
      for (const each of name === undefined ? [...on.keys()] : [name]) if (on.has(each)) change(each, null);
    },
    get: (name) => on.get(name) ?? null,
    take(name) {
      const left = on.get(name);
      if (left === undefined) return false;
      // Decrements silently; listeners are only told when the fault is over.
      if (left > 1) on.set(name, left - 1);
      else change(name, null);
      return left > 0;
    },
    on: (listener) => void listeners.push(listener),
  };
}

export const isFault = (name: string): name is FaultName => (FAULTS as readonly string[]).includes(name);

/** The number of a fault that strikes once; turns the fault off. */
export function strike(faults: Faults, name: FaultName): number | null {
  const measure = faults.get(name);
  if (measure !== null) faults.clear(name);
  return measure;
}

/** For faults that last for some time: true for the fault's number of milliseconds, counted from the first call. */
export function during({ faults, clock }: { faults: Faults; clock: SimClock }, name: FaultName): boolean {
  const measure = faults.get(name);
  if (measure === null) {
    began.get(faults)?.delete(name);
    return false;
  }
  const begun = began.get(faults) ?? new Map<FaultName, number>();
  began.set(faults, begun);
  const start = begun.get(name) ?? clock.now();
  begun.set(name, start);
  if (clock.now() - start < measure) return true;
  begun.delete(name);
  faults.clear(name);
  return false;
}
const began = new WeakMap<Faults, Map<FaultName, number>>();
