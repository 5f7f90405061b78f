// Prints the receipt of a run for `svc costs JOB`: each machine, its price and the proof of its end.

import { receiptCsv } from "../../../domain/cost-csv.ts";
import { dollars } from "../../../errors/dollars.ts";
import type { Receipt, ReceiptMachine } from "../../../schemas/costs.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { instant, printJson, table } from "../../text.ts";
import { hoursOf, knownCost, wasteWords } from "./words.ts";

/** Exit code 3 for a run that was removed meanwhile. */
export async function printReceipt(receipt: Receipt | null, input: Input, io: Io): Promise<number> {
  if (receipt === null) return 3;
  if (input.json) await printJson(io, receipt);
  else if (input.flags.has("csv")) await io.out(receiptCsv(receipt));
  else {
    await io.out(receiptTable(io, receipt));
    if (io.tty) io.err(totalLine(receipt));
  }
  return 0;
}

const receiptTable = (io: Io, { machines }: Receipt): string =>
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
    machines.map((machine) => [
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
    machines.map(proofWords),
  );

function totalLine({ total, is_final }: Receipt): string {
  const open = is_final ? "" : " A machine may still cost money.";
  const waste = wasteWords(total);
  return `Total ${knownCost(total)}${waste === "" ? "" : `; waste: ${waste}`}.${open}`;
}

const proofWords = ({ proof, to, unproven_usd: most }: ReceiptMachine): string =>
  most !== null && to !== null
    ? `may have cost up to ${dollars(most)}, not proven: ${proof ?? "no list shows it"}`
    : proof === null
      ? "its end is not proven: it may cost money"
      : `ended: ${proof}`;
