// `svc costs`: what machines have cost, in groups, or the receipt of one run. Reads the store, with or without a control plane.
// costs/report.ts and costs/receipt.ts print.

import { COST_DIMENSIONS } from "../../schemas/cost-names.ts";
import { oneOf, usage, value } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { withJob, withStore } from "../store.ts";
import { printReceipt } from "./costs/receipt.ts";
import { printReport } from "./costs/report.ts";

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
    if (prefix !== undefined) return withJob(io, prefix, (reads, id) => printReceipt(reads.receipt(id), input, io));
    const by = oneOf(input, "by", COST_DIMENSIONS) ?? "day";
    const from = day(input, "from");
    const to = day(input, "to");
    if (from !== undefined && to !== undefined && from > to)
      throw usage("--to must not be before --from.", "Swap the two days.");
    const query = { by, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
    await withStore(io, (reads) => printReport(reads, query, input, io));
    return 0;
  },
};

function day(input: Input, name: string): string | undefined {
  const text = value(input, name);
  if (text === undefined || /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/.test(text)) return text;
  throw usage(`--${name} must be a day.`, `For example \`--${name} 2026-11-26\`.`);
}
