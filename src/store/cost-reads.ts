// Reads what machines have cost, from sums and from the rows that are not in them (ADR 0031). Loads neither a query builder nor zod, as
// `open-reads.ts`.

import { isBilled } from "../providers/descriptors.ts";
import { monthOf, type Calendar } from "../domain/calendar.ts";
import { cellsOf, idleOf, NO_COSTS, spansOf, type CostCell, type CostKind } from "../domain/costs.ts";
import { costMicro, mayHaveCostMicro, mayHaveRunUntil } from "../domain/billing.ts";
import { priceMicroOf, usdOf, usdOrNull } from "../domain/money.ts";
import type { CostGroup, CostReport, CostsQuery, CostTotal, Receipt, ReceiptMachine } from "../schemas/costs.ts";
import { iso, isoOrNull } from "./records.ts";
import { placementUses } from "./placement-reads.ts";
import type { All, MachineRow } from "./tables.ts";

const HOUR_MS = 3_600_000;

/** The keys of a machine's costs, one per dimension of `cost_sum`; the day is the cell's own. */
export interface CostKeys {
  provider: string;
  project: string;
  label: string;
  gpu: string;
}
export interface Costed {
  keys: CostKeys;
  cells: CostCell[];
}
export interface CostedRow extends Costed {
  name: string;
}

interface CostJob {
  id: string;
  status: string;
  label: string | null;
  gpus: string;
  project: string | null;
  rate: number | null;
}

/** False in a home that no newer version has opened yet. */
const haveSums = (all: All): boolean => all("SELECT 1 FROM sqlite_schema WHERE name = 'cost_open'").length > 0;

/** `A100:4` and `A100` are the same model. */
const modelOf = (gpus: string): string => gpus.replace(/:\d+$/, "");

function costJob(all: All, jobId: string | null): CostJob | undefined {
  return jobId === null
    ? undefined
    : all<CostJob>(
        "SELECT id, status, label, gpus, spec ->> 'project_dir' AS project, spec ->> 'rate_usd_per_hour' AS rate FROM job WHERE id = ?",
        jobId,
      )[0];
}

/** When svc began to end the machines of a job: by node and by the journal entry that asked for it. */
function endings(all: All, jobId: string): { node: number; at: number }[] {
  return all<{ node: number; at: number }>(
    "SELECT node, first_at AS at FROM effect WHERE job_id = ? AND step = 'terminate' ORDER BY first_at",
    jobId,
  );
}

function gpuUse(all: All, jobId: string): { node: number; at: number; use: number }[] {
  return all<{ node: number; at: number; use: number }>(
    "SELECT p.rank AS node, CAST(p.time * 1000 AS INTEGER) AS at, max(p.value) AS use FROM series s JOIN point p ON p.series_id = s.id " +
      "WHERE s.job_id = ? AND s.name >= 'system/gpu' AND s.name < 'system/gpv' AND s.name LIKE 'system/gpu%_util_percent' AND p.value IS NOT NULL GROUP BY p.rank, p.time ORDER BY p.rank, p.time",
    jobId,
  );
}

/** The costs of these machines, all of one job, until `now`. */
function costsOfJob(
  all: All,
  jobId: string | null,
  machines: readonly MachineRow[],
  now: number,
  calendar: Calendar,
): CostedRow[] {
  const job = costJob(all, jobId);
  const kept = job === undefined && jobId !== null ? keptCosts(all, machines) : new Map<string, CostedRow>();
  const uses = job === undefined ? [] : placementUses(all, job);
  const ends = job === undefined ? [] : endings(all, job.id);
  const samples = uses.some(({ startedAt }) => startedAt !== null) && job !== undefined ? gpuUse(all, job.id) : [];
  return machines.map((machine): CostedRow => {
    const bills = isBilled(machine.provider);
    const before = kept.get(machine.name);
    if (before !== undefined && sumOf(before.cells) === ledgerMicro([machine], now)) return before;
    const use = uses.find(({ n }) => n === (machine.placement ?? 1));
    const endingAt = ends.find(({ node, at }) => node === machine.node && at >= machine.created_at)?.at ?? null;
    const own = samples.filter(
      ({ node, at }) => node === machine.node && at >= machine.created_at && at <= (machine.released_at ?? now),
    );
    const spans =
      machine.held_at === null
        ? [{ kind: "proof" as const, from: machine.created_at }]
        : spansOf({
            createdAt: machine.created_at,
            startedAt: use?.startedAt ?? null,
            endedAt: use?.endedAt ?? null,
            // A machine without a run has no other activity than its termination.
            endingAt: job === undefined ? machine.created_at : endingAt,
            lostMs: use?.lostMs ?? 0,
            failed: use?.failed ?? false,
            idle: idleOf(own),
          });
    const gpus = use?.gpus ?? job?.gpus;
    return {
      name: machine.name,
      keys: before?.keys ?? {
        provider: machine.provider,
        project: job?.project ?? "",
        label: job?.label ?? "",
        gpu: gpus === undefined ? "" : modelOf(gpus),
      },
      cells: cellsOf({ ...machine, bills }, spans, priceMicroOf(job?.rate), now, calendar),
    };
  });
}

const sumOf = (cells: readonly CostCell[]): number => cells.reduce((sum, { micro }) => sum + micro, 0);

/** The costs of machines whose run was removed: only the sums still tell what they did. */
function keptCosts(all: All, machines: readonly MachineRow[]): Map<string, CostedRow> {
  if (!haveSums(all)) return new Map();
  const rows = all<{ name: string; cells: string }>(
    "SELECT name, cells FROM cost_machine WHERE name IN (SELECT value FROM json_each(?))",
    JSON.stringify(machines.map(({ name }) => name)),
  );
  return new Map(rows.map(({ name, cells }) => [name, { name, ...storedCost(cells) }]));
}

export function costsOfMachines(
  all: All,
  machines: readonly MachineRow[],
  now: number,
  calendar: Calendar,
): CostedRow[] {
  const byJob = Map.groupBy(machines, ({ job_id }) => job_id);
  return [...byJob].flatMap(([jobId, own]) => costsOfJob(all, jobId, own, now, calendar));
}

/** Sums of cells; a cell that is taken away has a negative sign. */
class Sums {
  readonly groups = new Map<string, CostCell[]>();

  add(key: string, cell: CostCell, sign: 1 | -1): void {
    const cells = this.groups.get(key) ?? [];
    this.groups.set(key, cells);
    const same = cells.find(({ kind }) => kind === cell.kind);
    const into = same ?? { ...cell, ...NO_COSTS };
    if (same === undefined) cells.push(into);
    into.machines += sign * cell.machines;
    into.unpriced += sign * cell.unpriced;
    into.ms += sign * cell.ms;
    into.unpricedMs += sign * cell.unpricedMs;
    into.unratedMs += sign * cell.unratedMs;
    into.micro += sign * cell.micro;
    into.estimateMicro += sign * cell.estimateMicro;
  }
}

/** The amounts of some cells, as the API shows them. */
function totalOf(cells: readonly CostCell[]): CostTotal {
  const sum = (of: (cell: CostCell) => number): number => cells.reduce((all, cell) => all + of(cell), 0);
  const usdOfKind = (kind: CostKind): number => usdOf(sum((cell) => (cell.kind === kind ? cell.micro : 0)));
  const ms = sum((cell) => cell.ms);
  const unpricedMs = sum((cell) => cell.unpricedMs);
  const micro = sum((cell) => cell.micro);
  const unpriced = sum((cell) => cell.unpriced);
  const hasUnpriced = unpricedMs > 0 || unpriced > 0;
  return {
    cost_usd: hasUnpriced && unpricedMs >= ms ? null : usdOf(micro),
    cost_estimate_usd:
      unpricedMs > 0 && sum((cell) => cell.unratedMs) === 0 ? usdOf(micro + sum((cell) => cell.estimateMicro)) : null,
    work_usd: usdOfKind("work"),
    waste: {
      starting: usdOfKind("starting"),
      idle_gpu: usdOfKind("idle_gpu"),
      held: usdOfKind("held"),
      lost: usdOfKind("lost"),
      failed: usdOfKind("failed"),
      proof: usdOfKind("proof"),
    },
    hours: ms / HOUR_MS,
    hours_without_price: unpricedMs / HOUR_MS,
    machines: sum((cell) => cell.machines),
    machines_without_price: unpriced,
  };
}

const byCost = (a: CostGroup, b: CostGroup): number =>
  (b.cost_usd ?? -1) - (a.cost_usd ?? -1) || b.hours - a.hours || ((a.key ?? "") < (b.key ?? "") ? -1 : 1);

interface SumRow {
  key: string;
  kind: CostKind;
  day: string;
  machines: number;
  unpriced: number;
  ms: number;
  unpricedMs: number;
  unratedMs: number;
  micro: number;
  estimateMicro: number;
}

const SUMMED =
  "sum(machines) AS machines, sum(unpriced) AS unpriced, sum(ms) AS ms, sum(unpriced_ms) AS unpricedMs, sum(unrated_ms) AS unratedMs, sum(micro) AS micro, sum(estimate_micro) AS estimateMicro";

/** After every text that begins with the one before it. */
const AFTER = "~";

/**
 * The ranges of `cost_sum` that together are the days from `from` to `to`: whole months, and the days at both ends.
 *
 * @param from first day, or empty for the beginning.
 * @param to last day, or `~` for no end.
 */
function rangesOf(by: string, from: string, to: string): [dim: string, first: string, end: string][] {
  if (by === "day") return [[by, from, `${to}${AFTER}`]];
  const startsWithin = from !== "" && !from.endsWith("-01");
  const firstMonth = startsWithin ? `${monthOf(from)}${AFTER}` : monthOf(from);
  const endMonth = to === AFTER ? AFTER : monthOf(to);
  const ranges: [string, string, string][] = [[`${by}.month`, firstMonth, endMonth]];
  const isOneMonth = from !== "" && to !== AFTER && monthOf(from) === monthOf(to);
  if (isOneMonth) return [[by, from, `${to}${AFTER}`]];
  if (startsWithin) ranges.push([by, from, `${monthOf(from)}${AFTER}`]);
  if (to !== AFTER) ranges.push([by, `${monthOf(to)}-01`, `${to}${AFTER}`]);
  return ranges;
}

export function readCosts(all: All, query: CostsQuery, now: number, calendar: Calendar): CostReport {
  const { by, from = "", to = "~" } = query;
  const { zone } = calendar;
  const sums = new Sums();
  const isIn = ({ day }: CostCell): boolean => from <= day && day <= to;
  const keyOf = (keys: CostKeys, { day }: CostCell): string =>
    by === "day" ? day : by === "month" ? monthOf(day) : keys[by];
  const addRow = ({ keys, cells }: Costed, sign: 1 | -1): void => {
    for (const cell of cells) if (isIn(cell)) sums.add(keyOf(keys, cell), cell, sign);
  };
  const isCurrent = haveSums(all) && all("SELECT 1 FROM cost_zone WHERE zone = ?", zone).length > 0;
  if (isCurrent) {
    const rows =
      by === "month"
        ? all<SumRow>(
            `SELECT substr(day, 1, 7) AS key, kind, min(day) AS day, ${SUMMED} FROM cost_sum WHERE dim = 'day' AND day >= ? AND day <= ? GROUP BY substr(day, 1, 7), kind`,
            from,
            to,
          )
        : rangesOf(by, from, to).flatMap(([dim, first, end]) =>
            all<SumRow>(
              `SELECT key, kind, min(day) AS day, ${SUMMED} FROM cost_sum WHERE dim = ? AND day >= ? AND day < ? GROUP BY key, kind`,
              dim,
              first,
              end,
            ),
          );
    for (const { key, ...cell } of rows) sums.add(key, cell, 1);
    const stored = all<{ cells: string }>(
      "SELECT m.cells AS cells FROM cost_open o CROSS JOIN cost_machine m ON m.name = o.name",
    );
    for (const { cells } of stored) addRow(storedCost(cells), -1);
  }
  const open = isCurrent
    ? all<MachineRow>("SELECT m.* FROM cost_open o CROSS JOIN machine m ON m.name = o.name")
    : all<MachineRow>("SELECT * FROM machine");
  for (const row of costsOfMachines(all, open, now, calendar)) addRow(row, 1);
  const groups = [...sums.groups]
    .map(([key, cells]): CostGroup => ({ key: key === "" ? null : key, ...totalOf(cells) }))
    .filter(({ hours, machines }) => hours > 0 || machines > 0);
  const isTime = by === "day" || by === "month";
  return {
    by,
    from: query.from ?? null,
    to: query.to ?? null,
    time_zone: zone,
    groups: groups.toSorted(isTime ? (a, b) => ((a.key ?? "") < (b.key ?? "") ? -1 : 1) : byCost),
    total: totalOf([...sums.groups.values()].flat()),
  };
}

/** What `CostStore` wrote. */
export const storedCost = (text: string): Costed => JSON.parse(text) as Costed;

export function readReceipt(all: All, jobId: string, now: number, calendar: Calendar): Receipt | null {
  const job = costJob(all, jobId);
  if (job === undefined) return null;
  const machines = all<MachineRow>("SELECT * FROM machine WHERE job_id = ? ORDER BY created_at, name", jobId);
  const costed = costsOfJob(all, jobId, machines, now, calendar);
  const uses = placementUses(all, job);
  return {
    job_id: jobId,
    label: job.label,
    status: job.status,
    project: job.project,
    is_final: machines.every(({ released_at }) => released_at !== null),
    machines: machines.map((row, index): ReceiptMachine => {
      const { hours, cost_usd, cost_estimate_usd, work_usd, waste } = totalOf(costed[index]?.cells ?? []);
      const placement = row.placement ?? 1;
      return {
        name: row.name,
        id: row.resource_id,
        provider: row.provider as ReceiptMachine["provider"],
        gpus: uses.find(({ n }) => n === placement)?.gpus ?? null,
        node: row.node,
        placement,
        from: iso(row.created_at),
        to: isoOrNull(row.released_at),
        hours,
        price_per_hour_usd: usdOrNull(row.price_micro),
        price_changed: (row.spent_micro ?? 0) > 0,
        cost_usd,
        cost_estimate_usd,
        work_usd,
        waste,
        proof: row.proof,
        unproven_usd: unprovenUsd(row, now, priceMicroOf(job.rate)),
      };
    }),
    total: totalOf(costed.flatMap(({ cells }) => cells)),
  };
}

/** The most that an order may have cost whose outcome was never proven (ADR 0035). */
function unprovenUsd(row: MachineRow, now: number, givenMicro: number | null): number | null {
  const until = isBilled(row.provider) ? mayHaveRunUntil(row, now) : null;
  return until === null ? null : usdOrNull(mayHaveCostMicro(row, until, givenMicro));
}

/** The ledger's own sum over these machines, in micro-dollars. */
export const ledgerMicro = (machines: readonly MachineRow[], now: number): number =>
  machines.reduce((sum, row) => sum + (isBilled(row.provider) ? costMicro(row, now) : 0), 0);
