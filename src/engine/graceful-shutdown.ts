// Waits for jobs to end when the control plane shuts down.
//
// O1. A machine does not stay rented because it is silent: if nothing can be collected from it, and its provider can be
//     asked, the machine is released without collecting, while there is time for that.
// O2. If the provider does not answer either, this would gain nothing: the next start collects.
// O3. A running collection may last longer than everything else: its files exist nowhere else.

import { pause } from "../domain/clock.ts";
import { asSvcError } from "../errors/index.ts";
import type { EffectRow } from "../store/tables.ts";
import { timerEvent, withLastSeen } from "./journal.ts";
import { entryOf } from "./ledger.ts";
import type { Engine } from "./engine.ts";
import type { EventBody } from "./engine-options.ts";
import type { ReconcileParts } from "./reconcile.ts";

/** Release a machine without collecting if it has not answered for this long. */
const UNANSWERED_MS = 45_000;
const LOOK_MS = 1_000;
const ASK_MS = 10_000;
const UNREAD =
  "svc cannot read its database while it ends runs. Their machines may still cost money; svc tries again every second. ";

export interface EndingParts extends Pick<ReconcileParts, "engine" | "ledger" | "providers"> {
  /** Calls the listener after each transition of a job. @returns a function that removes it. */
  onTransition: (heard: () => void) => () => void;
  report: (message: string) => void;
}

export interface EndingLimits {
  deadlineMs: number;
  /** The limit for jobs that are still collecting. */
  collectingMs: number;
}

/** Resolves when the jobs are terminal, or after the limits with the ids of the others. */
export async function untilOver(parts: EndingParts, ids: string[], limits: EndingLimits): Promise<string[]> {
  const { clock, store } = parts.engine;
  const open = (): string[] => ids.filter((id) => store.job(id)?.state !== "terminal");
  const begun = clock.monotonic();
  const failuresNow = (): Map<number, number> | null =>
    new Map(ids.flatMap((id) => collecting(parts, id)).map(({ id }) => [id, store.failures(id)]));
  let unread = "";
  /** A failing disk must not end the process through a timer: the machines would stay rented. */
  const read = <T>(what: () => T, otherwise: () => T): T => {
    try {
      return what();
    } catch (e) {
      const { message } = asSvcError(e);
      if (message !== unread) parts.report(UNREAD + message);
      unread = message;
      return otherwise();
    }
  };
  if (read(open, () => ids).length === 0) return [];
  let failuresThen = read(failuresNow, () => null);
  const asked = new Set<string>();
  const failing = (effect: EffectRow): boolean =>
    effect.state === "retrying" && store.failures(effect.id) > (failuresThen?.get(effect.id) ?? 0);
  const goesOn = (id: string): boolean => {
    const effects = collecting(parts, id);
    return effects.length > 0 && !effects.some(failing);
  };
  /** @returns the delay until the next look; null if there is nothing more to wait for. */
  const look = (): number | null => {
    const spent = clock.monotonic() - begun;
    failuresThen ??= failuresNow();
    const left = open();
    const limit = left.some(goesOn) ? Math.max(limits.deadlineMs, limits.collectingMs) : limits.deadlineMs;
    if (left.length === 0 || spent >= limit) return null;
    for (const id of spent < UNANSWERED_MS ? [] : left) {
      if (asked.has(id) || !collecting(parts, id).some(failing)) continue;
      asked.add(id);
      void giveUpCollecting(parts, id, spent)
        .catch((e: unknown) => parts.report(asSvcError(e).message))
        .finally(() => asked.delete(id));
    }
    return Math.min(LOOK_MS, limit - spent);
  };
  /** Without the store, a job may still be collecting. */
  const blindly = (): number | null => {
    const leftMs = Math.max(limits.deadlineMs, limits.collectingMs) - (clock.monotonic() - begun);
    return leftMs > 0 ? Math.min(LOOK_MS, leftMs) : null;
  };
  await new Promise<void>((done) => {
    const end = (): void => {
      timer.cancel();
      stop();
      done();
    };
    const next = (): void => {
      const afterMs = read(look, blindly);
      if (afterMs === null) end();
      else timer = clock.setTimer(afterMs, next);
    };
    let timer = clock.setTimer(Math.min(LOOK_MS, limits.deadlineMs), next);
    const stop = parts.onTransition(() => {
      if (read(open, () => ids).length === 0) end();
    });
  });
  return read(open, () => ids);
}

const collecting = ({ engine }: EndingParts, jobId: string): EffectRow[] =>
  engine.store.openEffectsOf(jobId).filter((effect) => effect.step === "collect");

/** O1, O2 */
async function giveUpCollecting(parts: EndingParts, jobId: string, afterMs: number): Promise<void> {
  const { engine, ledger, providers } = parts;
  for (const row of ledger.owed().filter((one) => one.job_id === jobId)) {
    const { handle } = entryOf(row);
    if (handle === null) continue;
    try {
      await providers.get(row.provider)?.inspect(handle, AbortSignal.timeout(ASK_MS));
    } catch {
      return;
    }
  }
  await engine.commitWithRetry((tx) => {
    if (tx.store.job(jobId)?.state !== "terminating") return;
    const event = timerEvent("collect", afterMs, "terminating") as EventBody;
    engine.apply(tx, jobId, withLastSeen(tx.store, jobId, event));
  });
}

const SETTLE_LOOK_MS = 250;
const SETTLED_LOOKS = 6;
/** In these states nothing more follows by itself soon: the script works, or no candidate has a machine. */
const AT_REST: ReadonlySet<string> = new Set(["running", "waiting"]);

/** See `OpenControlPlane.settle`. */
export async function untilSettled(engine: Engine, deadlineMs: number): Promise<boolean> {
  const endAt = engine.clock.monotonic() + deadlineMs;
  // Only polling distinguishes a working script from one that has just ended: at rest in two polls counts as at rest.
  for (let quiet = 0; quiet < SETTLED_LOOKS;) {
    const moving = engine.store.liveJobs().some((row) => row.parked === null && !AT_REST.has(row.state));
    quiet = moving ? 0 : quiet + 1;
    if (engine.clock.monotonic() > endAt) return false;
    await pause(engine.clock, SETTLE_LOOK_MS);
  }
  return true;
}
