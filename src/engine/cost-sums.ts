// Adds the machines that can change no more to the sums of costs, a few at a time. The service starts it.

import { localCalendar } from "../domain/calendar.ts";
import { asSvcError } from "../errors/index.ts";
import { CostStore } from "../store/cost-store.ts";
import type { Engine } from "./engine.ts";

const EVERY_MS = 2_000;
/** A home that was used before sums existed has many: a part of them must not delay a run. */
const AT_ONCE = 100;

export function addCosts(
  { engine, report }: { engine: Engine; report: (message: string) => void },
  every: (ms: number, work: () => void) => void,
): void {
  const store = new CostStore(engine.store.db);
  let busy = false;
  const add = async (): Promise<void> => {
    // Skips the transaction, and so the fsync, when all sums are current.
    if (busy || !store.isBehind(localCalendar.zone)) return;
    busy = true;
    try {
      await engine.commit(() => store.useZone(localCalendar.zone));
      while ((await engine.commitTogether((tx) => store.addSome(AT_ONCE, tx.at, localCalendar))) === AT_ONCE);
    } catch (e) {
      report(`Costs could not be added up; reports compute them meanwhile: ${asSvcError(e).message}`);
    } finally {
      busy = false;
    }
  };
  every(EVERY_MS, () => void add());
}
