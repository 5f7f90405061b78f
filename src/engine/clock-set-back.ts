// A clock that was set back while no control plane ran. Open searches, time limits and bills count from instants that are in the future now,
// so each would last longer by the difference. The recovery moves those instants by the same difference.
//
// Ended jobs and machines keep their instants, which were right when they were written.

import type { JobContext } from "../machines/job-context.ts";
import { ClockStore } from "../store/clock-store.ts";
import type { Transaction } from "./transaction.ts";

/** Smaller differences come from rounding. */
const SET_BACK_MS_MIN = 2_000;

/** Moves the open rows, and says so in the feed. Returns the difference in milliseconds; 0 if the clock was not set back. */
export function moveAfterSetBack(tx: Transaction): number {
  const store = new ClockStore(tx.store.db);
  const byMs = (store.lastUsedAt() ?? 0) - tx.at;
  if (byMs < SET_BACK_MS_MIN) return 0;
  store.moveBack(byMs);
  // Its own row is the last one from now on: the next start compares with it, and moves nothing twice.
  const message = `The computer's clock was set back by at least ${Math.round(byMs / 1_000)} s while svc did not run. The limits of time of open runs have moved with it.`;
  tx.feed(null, "notice", { level: "warning", message });
  return byMs;
}

export function movedContext(context: JobContext, byMs: number): JobContext {
  const moved = (at: number | null): number | null => (at === null ? null : at - byMs);
  return {
    ...context,
    searching_since: moved(context.searching_since),
    refusals: context.refusals.map((refusal) => ({ ...refusal, at: refusal.at - byMs })),
    running_since: moved(context.running_since),
    started_at: moved(context.started_at),
  };
}
