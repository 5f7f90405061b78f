// What machines of the ledger mean for the money.

import type { LedgerMachine } from "../../src/schemas/job.ts";

export const isFree = (machine: LedgerMachine): boolean =>
  machine.provider === "local" || machine.price_per_hour_usd === 0;

/** Machines whose end is not proven although nobody uses them, or whose very existence is not known. */
export const isDoubtful = (machine: LedgerMachine): boolean =>
  !isFree(machine) && (machine.state !== "held" || machine.job_id === null);

/** What a machine has cost since it was made, as far as its price is known. */
export const costSoFar = (machine: LedgerMachine): number | null =>
  machine.price_per_hour_usd === null ? null : (machine.price_per_hour_usd * machine.age_seconds) / 3_600;
