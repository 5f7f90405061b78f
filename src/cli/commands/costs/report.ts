// Prints the report of `svc costs`: what machines have cost, in groups.

import { costsCsv } from "../../../domain/cost-csv.ts";
import { dollars } from "../../../errors/dollars.ts";
import { WASTE_KINDS } from "../../../schemas/cost-names.ts";
import type { CostReport, CostsQuery, CostTotal } from "../../../schemas/costs.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import type { OpenReads } from "../../store.ts";
import { printJson, table } from "../../text.ts";
import { hoursOf, knownCost, wasteWords } from "./words.ts";

/** @param reads null for a home that was never used. */
export async function printReport(reads: OpenReads | null, query: CostsQuery, input: Input, io: Io): Promise<void> {
  const report = reads ? reads.costs(query) : await nothing(query);
  if (input.json) return await printJson(io, report);
  if (reads === null) {
    if (io.tty) io.err("This home has not rented a machine yet.");
    return;
  }
  if (input.flags.has("csv")) return await io.out(costsCsv(report));
  await io.out(reportTable(io, report));
  if (io.tty) io.err(totalLine(report));
}

/** The costs of a home that was never used. */
async function nothing(query: CostsQuery): Promise<CostReport> {
  const { readCosts } = await import("../../../store/cost-reads.ts");
  const { localCalendar } = await import("../../../domain/calendar.ts");
  return readCosts(() => [], query, Date.now(), localCalendar);
}

function reportTable(io: Io, { by, groups }: CostReport): string {
  const hasEstimate = groups.some((group) => group.cost_estimate_usd !== null);
  return table(
    io,
    [
      { title: by.toUpperCase(), shrinks: true },
      { title: "COST", right: true },
      ...(hasEstimate ? [{ title: "ESTIMATE", right: true }] : []),
      { title: "WASTE", right: true },
      { title: "TIME", right: true },
      { title: "MACHINES", right: true, leaves: 2 },
      { title: "WASTE BY CAUSE", shrinks: true, leaves: 1 },
    ],
    groups.map((group) => [
      group.key ?? "-",
      knownCost(group),
      ...(hasEstimate ? [group.cost_estimate_usd === null ? "-" : dollars(group.cost_estimate_usd)] : []),
      dollars(wasted(group)),
      hoursOf(group),
      String(group.machines),
      wasteWords(group),
    ]),
  );
}

function totalLine({ total, time_zone }: CostReport): string {
  const unknown =
    total.machines_without_price === 0
      ? ""
      : ` ${total.machines_without_price} of ${total.machines} machines ${total.machines_without_price === 1 ? "has no known price; its" : "have no known price; their"} time is not in the sum.`;
  return `Total ${knownCost(total)}, of which ${dollars(wasted(total))} waste; days of ${time_zone}.${unknown}`;
}

const wasted = ({ waste }: Pick<CostTotal, "waste">): number => WASTE_KINDS.reduce((sum, kind) => sum + waste[kind], 0);
