import type { Ledger, LedgerEntry } from "../ports.ts";

/** The ledger's entry of the machine that a node holds and uses: never that of an order which the node has replaced. */
export const heldEntry = (ledger: Pick<Ledger, "open">, jobId: string, node: number): LedgerEntry | undefined =>
  ledger.open(jobId, node).find((entry) => entry.handle !== null && entry.superseded !== true);
