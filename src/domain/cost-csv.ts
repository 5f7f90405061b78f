// Costs as comma-separated values (RFC 4180), for spreadsheets. The CLI and the dashboard use it.

import { WASTE_KINDS } from "../schemas/cost-names.ts";
import { csvText } from "./csv-text.ts";
import type { CostReport, CostTotal, Receipt } from "../schemas/costs.ts";

type Field = string | number | boolean | null;

function fieldOf(value: Field): string {
  if (value === null) return "";
  return typeof value === "string" ? csvText(value) : String(value);
}

const lineOf = (fields: readonly Field[]): string => `${fields.map(fieldOf).join(",")}\r\n`;

const AMOUNTS = ["cost_usd", "cost_estimate_usd", "work_usd", ...WASTE_KINDS.map((kind) => `${kind}_usd`)];

const amounts = (row: Pick<CostTotal, "cost_usd" | "cost_estimate_usd" | "work_usd" | "waste">): Field[] => [
  row.cost_usd,
  row.cost_estimate_usd,
  row.work_usd,
  ...WASTE_KINDS.map((kind) => row.waste[kind]),
];

export function costsCsv({ by, groups }: CostReport): string {
  const head = [by, ...AMOUNTS, "hours", "hours_without_price", "machines", "machines_without_price"];
  const rows = groups.map((group) => [
    group.key,
    ...amounts(group),
    group.hours,
    group.hours_without_price,
    group.machines,
    group.machines_without_price,
  ]);
  return [head, ...rows].map(lineOf).join("");
}

export function receiptCsv({ machines }: Receipt): string {
  const head = ["machine", "id", "provider", "gpus", "node", "placement", "from", "to", "hours", "price_per_hour_usd"];
  const rows = machines.map((machine) => [
    machine.name,
    machine.id,
    machine.provider,
    machine.gpus,
    machine.node,
    machine.placement,
    machine.from,
    machine.to,
    machine.hours,
    machine.price_per_hour_usd,
    ...amounts(machine),
    machine.proof,
  ]);
  return [[...head, ...AMOUNTS, "proof"], ...rows].map(lineOf).join("");
}
