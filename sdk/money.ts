// Reads the costs of runs, and reads and sets the limits of the home. Reading and setting start no control plane: without a running one, the command does it
// (command.ts).

import type { CostReport, CostsQuery, Receipt } from "../src/schemas/costs.ts";
import { LIMIT_NAMES } from "../src/schemas/limit-names.ts";
import type { HomeLimits, LimitsChange } from "../src/schemas/limits.ts";
import { asked } from "./command.ts";
import { isThere } from "./control-planes.ts";
import { ownHome } from "./own-home.ts";
import { call, checkId, refused } from "./calls.ts";
import { job } from "./runs.ts";

/**
 * Returns the costs of this home's machines in US dollars, with the waste in a field of its own: by `day` (default), `month`, `provider`,
 * `project`, `label` or `gpu`. `from` and `to` are days such as `2026-11-01`, both included, in the time zone of the control plane. A cost
 * is null where no price is known. Rejects with `invalid_request` or `usage` for a day or a group that cannot be.
 */
export async function costs(query: Partial<CostsQuery> = {}): Promise<CostReport> {
  if (await isThere(ownHome())) return call((client) => client.costs(query));
  const words = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]));
  return asked(ownHome(), ["costs", ...words]);
}

/**
 * Returns the costs of a run so far, in US dollars: each machine, from when to when, its price, and how its end was proven. A run on this computer
 * has no machine that costs money. Rejects with `job_not_found`.
 */
export async function receipt(jobId: string): Promise<Receipt> {
  checkId(jobId);
  if (await isThere(ownHome())) return call((client) => client.receipt(jobId));
  const { id } = await job(jobId);
  return asked(ownHome(), ["costs", "--", id]);
}

/** Returns the limits of all runs of this home together, what they use and reserve, and which runs wait for room. */
export async function limits(): Promise<HomeLimits> {
  return (await isThere(ownHome())) ? call((client) => client.limits()) : asked(ownHome(), ["limits"]);
}

/**
 * Sets or removes limits for all runs of this home together, and resolves with all of them. Amounts are US dollars; fields that are left
 * out stay, null removes a limit. A limit below what is used and reserved ends no run, and no other starts until there is room. Rejects with
 * `invalid_request`, which names the field; then nothing is changed.
 */
export async function setLimits(change: LimitsChange): Promise<HomeLimits> {
  if (typeof change !== "object" || change === null) throw refused("change", "must be an object of limits");
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!(LIMIT_NAMES as readonly string[]).includes(name))
      throw refused(name, `is not a limit; the limits are ${LIMIT_NAMES.join(", ")}`);
    if (value !== null && (typeof value !== "number" || !Number.isFinite(value)))
      throw refused(name, "must be a finite number, or null to remove the limit");
  }
  if (given.length === 0) return limits();
  if (await isThere(ownHome())) return call((client) => client.setLimits(change));
  return asked(ownHome(), ["limits", "set", "--", ...given.map(([name, value]) => `${name}=${value ?? "none"}`)]);
}
