// Changes the limits, the label and the tags of a run. The change is an event of its machine (but for tags) and a new stored spec, in one transaction; the guards of
// its rented machines get the new deadlines after that, or with their next contact.
//
// C1. A change that is already in force changes nothing, so a repeated request is harmless.
// C2. A limit that cannot be held is refused, and then nothing of the request is applied.

import { isDeepStrictEqual } from "node:util";
import { ratesOf } from "../domain/budget.ts";
import { spendingOf } from "../domain/billing.ts";
import { microOf, usdOf } from "../domain/money.ts";
import { dollars } from "../errors/dollars.ts";
import { SvcError } from "../errors/index.ts";
import type { JobContext } from "../machines/job-context.ts";
import { mayGoOn } from "../machines/next-placement.ts";
import type { Provider } from "../providers/provider.ts";
import type { JobChange } from "../schemas/change.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { specOf, storedSpec } from "../schemas/stored-spec.ts";
import { storedTags, tagsOf } from "../store/stored-tags.ts";
import { LedgerStore } from "../store/ledger-store.ts";
import type { MachineRow } from "../store/tables.ts";
import { checkRates } from "./check-budget.ts";
import type { Engine } from "./engine.ts";
import type { EventBody } from "./engine-options.ts";
import type { Transaction } from "./transaction.ts";

export interface ChangeParts {
  engine: Engine;
  providers: ReadonlyMap<string, Provider>;
  /** Why limits of the home forbid the new spec; null if they do not. */
  exceeds: (tx: Transaction, jobId: string, before: RunSpec, next: RunSpec) => string | null;
  /** Called after the commit: what was read from the old spec is out of date. */
  respec: (jobId: string) => void;
}

const FIELDS = ["budget_usd", "max_runtime_minutes", "price_cap", "label", "tags"] as const;
type Field = (typeof FIELDS)[number];

/** Resolves when the change is durable; true if anything was changed. Throws `job_not_found`, `change_refused`, `budget_rate_unknown`. */
export function changeRun(parts: ChangeParts, id: string, change: JobChange): Promise<boolean> {
  return parts.engine.commit((tx) => apply(parts, tx, id, change));
}

function apply(
  { engine, providers, exceeds, respec }: ChangeParts,
  tx: Transaction,
  id: string,
  change: JobChange,
): boolean {
  const row = tx.store.job(id);
  if (row === undefined) throw new SvcError("job_not_found", { id });
  const spec = specOf(row);
  const before: Record<Field, unknown> = {
    budget_usd: spec.budget_usd ?? null,
    max_runtime_minutes: spec.max_runtime_minutes ?? null,
    price_cap: spec.price_cap ?? null,
    label: row.label,
    tags: tagsOf(row.tags),
  };
  const changed = FIELDS.filter(
    (field) => change[field] !== undefined && !isDeepStrictEqual(change[field], before[field]),
  );
  if (changed.length === 0) return false;
  const limits = changed.filter((field) => field !== "label" && field !== "tags");
  const context = engine.now(id)?.context;
  const [first] = limits;
  if (first !== undefined) {
    const why = whyFixed(row, context);
    if (why !== null) throw refused(id, first, why);
  }
  const next = withChange(spec, change);
  const machines = new LedgerStore(tx.store.db).ofJob(id);
  if (context !== undefined)
    for (const field of limits) {
      const why = whyNotHeld(field, next, { context, machines, at: tx.at });
      if (why !== null) throw refused(id, field, why);
    }
  if (limits.includes("budget_usd")) checkRates(providers, next);
  const over = first === undefined || context === undefined ? null : exceeds(tx, id, spec, next);
  if (over !== null) throw refused(id, first ?? "", over);
  const label = change.label === undefined ? row.label : change.label;
  const tags = change.tags === undefined ? row.tags : storedTags(change.tags);
  // No decision of a run depends on its tags.
  if (context !== undefined && changed.some((field) => field !== "tags"))
    engine.apply(tx, id, eventOf(change, changed));
  tx.store.changeJob({ id, spec: storedSpec(next), label, tags });
  const told = Object.fromEntries(changed.map((field) => [field, { from: before[field], to: change[field] ?? null }]));
  tx.feed(id, "job.changed", told);
  tx.after(() => respec(id));
  return true;
}

const refused = (id: string, field: string, why: string): SvcError =>
  new SvcError("change_refused", { id, field, why }, { errors: [{ field, message: why }] });

function whyFixed(row: { state: string; parked: string | null }, context: JobContext | undefined): string | null {
  if (row.state === "terminal") return "it has ended";
  if (row.parked !== null || context === undefined) return "it is parked, and only a kill continues it";
  if (row.state === "terminating" && !mayGoOn(context)) return "its end is under way";
  return null;
}

interface Now {
  context: JobContext;
  machines: readonly MachineRow[];
  at: number;
}

/** C2 */
function whyNotHeld(field: Field, spec: RunSpec, { context, machines, at }: Now): string | null {
  if (field === "budget_usd" && spec.budget_usd !== undefined) {
    const { spentMicro } = spendingOf(machines, at, ratesOf(spec, machines));
    if (spentMicro >= microOf(spec.budget_usd))
      return `${dollars(usdOf(spentMicro), spec.budget_usd)} is already spent`;
  }
  if (field === "max_runtime_minutes" && spec.max_runtime_minutes) {
    const { ran_ms, running_since } = context;
    const ranMs = ran_ms + (running_since === null ? 0 : Math.max(0, at - running_since));
    if (ranMs >= spec.max_runtime_minutes * 60_000) return `it has run for ${(ranMs / 60_000).toFixed(1)} minutes`;
  }
  if (field === "price_cap" && spec.price_cap !== undefined) {
    const cap = microOf(spec.price_cap);
    const dear = machines.find((m) => m.released_at === null && m.price_micro !== null && m.price_micro > cap);
    if (dear?.price_micro)
      return `its machine ${dear.name} costs ${dollars(usdOf(dear.price_micro), spec.price_cap)}/h`;
  }
  return null;
}

/** A cap holds for every candidate, also for those with a cap of their own. */
function withChange(spec: RunSpec, change: JobChange): RunSpec {
  const next: RunSpec = { ...spec };
  if (change.budget_usd === null) delete next.budget_usd;
  else if (change.budget_usd !== undefined) next.budget_usd = change.budget_usd;
  if (change.max_runtime_minutes === null) delete next.max_runtime_minutes;
  else if (change.max_runtime_minutes !== undefined) next.max_runtime_minutes = change.max_runtime_minutes;
  if (change.price_cap === undefined) return next;
  const cap = change.price_cap === null ? {} : { price_cap: change.price_cap };
  const { price_cap: _, candidates, ...rest } = next;
  const own = candidates?.map(({ price_cap, ...candidate }) => ({
    ...candidate,
    ...(price_cap === undefined ? {} : cap),
  }));
  return { ...rest, ...(own === undefined ? {} : { candidates: own }), ...cap };
}

function eventOf(change: JobChange, changed: readonly Field[]): EventBody {
  const has = (field: Field): boolean => changed.includes(field);
  const { budget_usd: budget = null, max_runtime_minutes: minutes = null, price_cap = null, label = null } = change;
  return {
    type: "job.changed",
    ...(has("budget_usd") ? { budget_micro: budget === null ? null : microOf(budget) } : {}),
    ...(has("max_runtime_minutes") ? { max_runtime_ms: minutes ? Math.ceil(minutes * 60_000) : null } : {}),
    ...(has("price_cap") ? { price_cap } : {}),
    ...(has("label") ? { label } : {}),
  };
}
