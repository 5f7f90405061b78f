import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { isReturning, nodeOf } from "../machines.ts";
import { useData } from "../store.ts";
import { useNow } from "./now.ts";

/** Tells of a machine of the ledger whether its end has only just been asked for, so that no word of its provider is due yet. */
export function useReturning(): (machine: LedgerMachine) => boolean {
  const since = useData((data) => data.returning);
  const now = useNow(Object.keys(since).length > 0);
  return (machine) => machine.state === "releasing" && isReturning(since[nodeOf(machine)], now);
}
