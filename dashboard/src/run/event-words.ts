// An event of the feed as a sentence. Unknown events are shown raw.

import { bytes } from "../../../src/domain/bytes.ts";
import type { FeedEvent } from "../../../src/schemas/job.ts";
import { dollarParts, exactDollars } from "../../../src/errors/dollars.ts";
import { machineState, minuteOf, stepName, words } from "../format.ts";

const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

export function eventWords({ type, data }: FeedEvent): string {
  const node = typeof data["node"] === "number" && data["node"] > 0 ? ` on node ${data["node"]}` : "";
  if (type === "job.created") return "created";
  if (type === "job.transition")
    return `${words(text(data["from"]) || "created")} → ${words(text(data["to"]))} (${text(data["event"])})`;
  if (type.startsWith("step.")) {
    const attempt = Number(data["attempt"]) > 1 ? `, attempt ${text(data["attempt"])}` : "";
    return `${stepName(text(data["step"]))}${node} ${words(type.slice(5))}${attempt}${reason(data["error"])}`;
  }
  if (type === "machine.changed")
    return `machine ${text(data["name"])} ${machineState(text(data["state"]))}${reason(data["note"])}`;
  if (type === "checkpoint.saved")
    return `checkpoint ${text(data["path"])}${typeof data["size"] === "number" ? `, ${bytes(data["size"])}` : ""}`;
  if (type === "checkpoint.removed")
    return `checkpoint ${text(data["name"])} deleted${typeof data["bytes"] === "number" ? `, ${bytes(data["bytes"])}` : ""}`;
  if (type === "placement.opened")
    return `placement ${text(data["n"])} opened on ${text(data["provider"])} ${text(data["gpus"])}`;
  if (type === "placement.closed") return `placement ${text(data["n"])} closed${reason(data["error"])}`;
  if (type === "job.archived") return data["archived"] === true ? "archived" : "listed again";
  if (type === "job.changed") return changeWords(data);
  if (type === "budget.warned")
    return `${text(data["percent"])} % of the budget is spent: ${sumsOf(data)}${stopOf(data)}`;
  if (type === "budget.reached")
    return data["ends"] === "downloads"
      ? `svc ends the downloads, because the release needs the rest of the budget: ${sumsOf(data)}`
      : `budget reached: ${sumsOf(data)}; svc asks the script to save and stop`;
  if (type === "alert") return `alert: ${text(data["message"])}`;
  if (type === "notice" || type === "price.raised") return text(data["message"]);
  return `${type} ${JSON.stringify(data)}`;
}

/** The message of an error or a note. A note that an older version stored is only its message. */
function reason(said: unknown): string {
  const message = typeof said === "object" && said !== null && "message" in said ? said.message : said;
  return message ? `: ${text(message)}` : "";
}

const usdOf = (value: unknown): string => (typeof value === "number" ? exactDollars(value) : "unknown");

function sumsOf({ spent_usd: spent, budget_usd: budget, kept_usd: kept }: FeedEvent["data"]): string {
  const number = (value: unknown): number => (typeof value === "number" ? value : 0);
  const [first, last] = dollarParts(number(budget), [number(spent), number(kept)]);
  const known = (value: unknown, words = "unknown"): string => (typeof value === "number" ? words : "unknown");
  return `${known(spent, first)} of ${usdOf(budget)}, ${known(kept, last)} kept for the end`;
}

function stopOf({ stops_at: at }: FeedEvent["data"]): string {
  return typeof at === "string" ? `; it stops about ${minuteOf(at)}` : "";
}

const CHANGED: Readonly<Record<string, [name: string, value: (value: unknown) => string]>> = {
  budget_usd: ["budget", (value) => usdOf(value)],
  max_runtime_minutes: ["time limit", (value) => `${text(value)} minutes`],
  price_cap: ["price cap", (value) => `${usdOf(value)}/h`],
  label: ["label", (value) => `“${text(value)}”`],
  tags: ["tags", (value) => (Array.isArray(value) ? value.map(text).join(", ") : text(value))],
};

/** `budget from $2.00 to $5.00; price cap removed` */
function changeWords(data: FeedEvent["data"]): string {
  const parts = Object.entries(data).map(([field, change]) => {
    const [name, show] = CHANGED[field] ?? [words(field), text];
    const { from, to } = (change ?? {}) as { from?: unknown; to?: unknown };
    const isNone = (value: unknown): boolean =>
      value === null || value === undefined || value === 0 || (Array.isArray(value) && value.length === 0);
    if (isNone(to)) return `${name} removed`;
    return isNone(from) ? `${name} set to ${show(to)}` : `${name} from ${show(from)} to ${show(to)}`;
  });
  return `changed: ${parts.join("; ")}`;
}
