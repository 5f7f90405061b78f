import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { isDoubtful, isReturning, machineKey } from "../machines.ts";
import { useData } from "../store.ts";
import { useNow } from "./now.ts";

interface Returning {
  /** Whether its release was requested only just now, so that the provider cannot have confirmed it yet. */
  isLeaving: (machine: LedgerMachine) => boolean;
  /** Whether it may cost money without use, and deserves an alarm. */
  isAlarming: (machine: LedgerMachine) => boolean;
}

export function useReturning(): Returning {
  const since = useData((data) => data.returning);
  const now = useNow(Object.keys(since).length > 0);
  const isLeaving = (machine: LedgerMachine): boolean =>
    machine.state === "releasing" && isReturning(since[machineKey(machine)], now);
  return { isLeaving, isAlarming: (machine) => isDoubtful(machine) && !isLeaving(machine) };
}
