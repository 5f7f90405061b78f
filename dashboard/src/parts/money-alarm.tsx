// The red line above every page while a machine may cost money and no run needs it.

import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { plural } from "../format.ts";
import { isFree } from "../machines.ts";
import { Link } from "../router.tsx";
import { useData } from "../store.ts";
import { useReturning } from "./returning.ts";

const NAMED_MAX = 3;

/** Machines that may cost money although no run needs them. */
export function useUnneeded(): LedgerMachine[] {
  const machines = useData((data) => data.machines);
  const { isAlarming } = useReturning();
  // A request that was sent a moment ago belongs to a run that waits for its answer.
  return (machines ?? []).filter((machine) => !isFree(machine) && machine.state !== "intended" && isAlarming(machine));
}

export function MoneyAlarm() {
  const unneeded = useUnneeded();
  if (unneeded.length === 0) return null;
  const names = unneeded.slice(0, NAMED_MAX).map(({ name, provider }) => `${name} at ${provider}`);
  const more = unneeded.length > NAMED_MAX ? ` and ${unneeded.length - NAMED_MAX} more` : "";
  return (
    <p className="money-alarm" role="alert">
      {plural(unneeded.length, "machine")} may cost money and no run needs {unneeded.length === 1 ? "it" : "them"}:{" "}
      {names.join(", ")}
      {more}. svc keeps ending {unneeded.length === 1 ? "it" : "them"}. <Link href="/machines">See machines</Link>
    </p>
  );
}
