// A run's spec as the store keeps it: JSON with a version. Rows are never rewritten, so a row of an older version lacks the fields that
// were added since; `specOf` fills them in. Loads no zod: listings read the store without the schema library.

import { THIS_COMPUTER } from "../providers/descriptors.ts";
import type { RunSpec } from "./spec.ts";

/** Raise it when a stored field changes its meaning, and convert older rows in `specOf`. A new field with a default needs no new version. */
const VERSION = 1;

/** Time between TERM and KILL, in seconds. */
export const STOP_GRACE_SECONDS = 10;

type Optional = { [K in keyof RunSpec]-?: undefined extends RunSpec[K] ? K : never }[keyof RunSpec];
export type SpecDefaults = Omit<RunSpec, "entrypoint" | Optional>;

/**
 * The schema's defaults; a test compares them with the schema. A new object for each caller, which may change its
 * arrays.
 */
export const specDefaults = (): SpecDefaults => ({
  args: [],
  provider: THIS_COMPUTER,
  gpus: "cpu",
  nodes: 1,
  terminate_on_exit: true,
  orphan_grace_minutes: 30,
  stop_grace_seconds: STOP_GRACE_SECONDS,
  env: {},
  install: "auto",
  launcher: "auto",
  data: [],
  sinks: [],
});

/** A spec of any version with the fields that it lacks. */
export const withDefaults = (spec: Omit<RunSpec, keyof SpecDefaults> & Partial<RunSpec>): RunSpec => ({
  ...specDefaults(),
  ...spec,
});

/** The fields of a spec that differ from their defaults: the same for every version that knows them. */
export function withoutDefaults(spec: RunSpec): Partial<RunSpec> {
  const defaults: Partial<Record<string, unknown>> = specDefaults();
  const own = Object.entries(spec).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(defaults[name]));
  return Object.fromEntries(own);
}

/** The stored text of a spec that was checked against the schema and whose secrets were sealed. */
export const storedSpec = (spec: RunSpec): string => JSON.stringify({ ...spec, spec_version: VERSION });

/** The one reader of a stored spec. Rows without a version were written by releases before versions were introduced. */
export function specOf(row: { spec: string }): RunSpec {
  // Checked against the schema when it was submitted, and written only by `storedSpec` since.
  const { spec_version: _, ...spec } = JSON.parse(row.spec) as RunSpec & { spec_version?: number };
  return withDefaults(spec);
}
