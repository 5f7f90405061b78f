// `svc costs`: what machines have cost, in groups, or the receipt of one run. Reads the store, with or without a control plane.

import { costsCsv, receiptCsv } from "../../domain/cost-csv.ts";
import { dollars } from "../../errors/dollars.ts";
import { COST_DIMENSIONS, WASTE_KINDS, WASTE_WORDS } from "../../schemas/cost-names.ts";
import type { CostReport, CostsQuery, CostTotal, Receipt, ReceiptMachine } from "../../schemas/costs.ts";
import { oneOf, usage, value } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import type { Io } from "../io.ts";
import { storeOfHome, withJob } from "../store.ts";
import { duration, instant, printJson, table } from "../text.ts";

export const costs: Command = {
  name: "costs",
  args: "[job]",
  summary: "Show what machines have cost and how much of it was waste, or the receipt of a run",
  options: [
    { flags: "--by <what>", what: `One of ${COST_DIMENSIONS.join(", ")}; the default is day` },
    { flags: "--from <day>", what: "First day, such as 2026-11-01" },
    { flags: "--to <day>", what: "Last day; it is included" },
    { flags: "--csv", what: "Comma-separated values, for a spreadsheet" },
  ],
  exits: [["3", "no such job"]],
  examples: ["svc costs", "svc costs --by project --from 2026-11-01", "svc costs 4k2m"],
  async run(input, io) {
    const [prefix] = input.args;
    if (prefix !== undefined)
      return await withJob(io, prefix, (reads, id) => showReceipt(input, io, reads.receipt(id)));
    const by = oneOf(input, "by", COST_DIMENSIONS) ?? "day";
    const from = day(input, "from");
    const to = day(input, "to");
    if (from !== undefined && to !== undefined && from > to)
      throw usage("--to must not be before --from.", "Swap the two days.");
    const reads = await storeOfHome(io);
    try {
      const query = { by, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
      await showReport(input, io, reads ? reads.costs(query) : await nothing(query), reads === null);
    } finally {
      reads?.close();
    }
    return 0;
  },
};

function day(input: Input, name: string): string | undefined {
  const text = value(input, name);
  if (text === undefined || /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/.test(text)) return text;
  throw usage(`--${name} must be a day.`, `For example \`--${name} 2026-11-26\`.`);
}

/** The known cost; `unknown` where no price is known, and a mark where some are. */
function amount({ cost_usd, machines_without_price, hours_without_price }: CostTotal): string {
  if (cost_usd === null) return "unknown";
  return machines_without_price > 0 || hours_without_price > 0 ? `> ${dollars(cost_usd)}` : dollars(cost_usd);
}

const wasted = ({ waste }: Pick<CostTotal, "waste">): number => WASTE_KINDS.reduce((sum, kind) => sum + waste[kind], 0);

const wasteWords = ({ waste }: Pick<CostTotal, "waste">): string =>
  WASTE_KINDS.filter((kind) => waste[kind] >= 0.005)
    .map((kind) => `${WASTE_WORDS[kind]} ${dollars(waste[kind])}`)
    .join(", ");

const hoursOf = ({ hours }: Pick<CostTotal, "hours">): string => duration(hours * 3_600_000);

/** The costs of a home that was never used. */
async function nothing(query: CostsQuery): Promise<CostReport> {
  const { readCosts } = await import("../../store/cost-reads.ts");
  const { localCalendar } = await import("../../domain/calendar.ts");
  return readCosts(() => [], query, Date.now(), localCalendar);
}

async function showReport(input: Input, io: Io, report: CostReport, isUnused: boolean): Promise<void> {
  if (input.json) return await printJson(io, report);
  if (isUnused) {
    if (io.tty) io.err("This home has not rented a machine yet.");
    return;
  }
  if (input.flags.has("csv")) return await io.out(costsCsv(report));
  const { by } = report;
  const hasEstimate = report.groups.some((group) => group.cost_estimate_usd !== null);
  await io.out(
    table(
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
      report.groups.map((group) => [
        group.key ?? "-",
        amount(group),
        ...(hasEstimate ? [group.cost_estimate_usd === null ? "-" : dollars(group.cost_estimate_usd)] : []),
        dollars(wasted(group)),
        hoursOf(group),
        String(group.machines),
        wasteWords(group),
      ]),
    ),
  );
  if (!io.tty) return;
  const { total } = report;
  const unknown =
    total.machines_without_price === 0
      ? ""
      : ` ${total.machines_without_price} of ${total.machines} machines have no known price; their time is not in the sum.`;
  io.err(`Total ${amount(total)}, of which ${dollars(wasted(total))} waste; days of ${report.time_zone}.${unknown}`);
}

async function showReceipt(input: Input, io: Io, receipt: Receipt | null): Promise<number> {
  if (receipt === null) return 3;
  if (input.json) await printJson(io, receipt);
  else if (input.flags.has("csv")) await io.out(receiptCsv(receipt));
  else {
    await io.out(
      table(
        io,
        [
          { title: "PLACEMENT", right: true },
          { title: "MACHINE", shrinks: true, leaves: 3 },
          { title: "PROVIDER" },
          { title: "GPUS" },
          { title: "FROM", leaves: 1 },
          { title: "TO", leaves: 2 },
          { title: "TIME", right: true },
          { title: "$/H", right: true },
          { title: "COST", right: true },
        ],
        receipt.machines.map((machine) => [
          String(machine.placement),
          machine.name,
          machine.provider,
          machine.gpus ?? "-",
          instant(io, machine.from),
          instant(io, machine.to),
          hoursOf(machine),
          machine.price_per_hour_usd === null ? "unknown" : dollars(machine.price_per_hour_usd),
          machine.cost_usd === null ? "unknown" : dollars(machine.cost_usd),
        ]),
        receipt.machines.map(proofWords),
      ),
    );
    if (io.tty) {
      const open = receipt.is_final ? "" : " A machine may still cost money.";
      const waste = wasteWords(receipt.total);
      io.err(`Total ${amount(receipt.total)}${waste === "" ? "" : `; waste: ${waste}`}.${open}`);
    }
  }
  return 0;
}

const proofWords = ({ proof, to, unproven_usd: most }: ReceiptMachine): string =>
  most !== null && to !== null
    ? `may have cost up to ${dollars(most)}, not proven: ${proof ?? "no list shows it"}`
    : proof === null
      ? "its end is not proven: it may cost money"
      : `ended: ${proof}`;
