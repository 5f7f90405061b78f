// The cells of tables that several commands show. A terminal gets words for a person; a pipe gets the stored value, and nothing where there
// is none.

import { spentText } from "../domain/money.ts";
import type { JobRecord } from "../schemas/job.ts";
import type { Io } from "./io.ts";
import { duration } from "./text.ts";

/** An unset value. */
export const none = (io: Io): string => (io.tty ? "-" : "");

/**
 * Dollars per hour.
 *
 * @param shown the words on a terminal.
 * @param unknown the word on a terminal where no price is known.
 */
export function rateCell(io: Io, usd: number | null, shown: (usd: number) => string, unknown = "-"): string {
  if (usd === null) return io.tty ? unknown : "";
  return io.tty ? shown(usd) : String(usd);
}

/** What a run has cost. */
export const costCell = (io: Io, job: JobRecord): string => (io.tty ? spentText(job) : String(job.cost_usd));

/** The GPUs of a run, on all its machines. */
export const gpusCell = ({ nodes, gpus }: JobRecord): string => (nodes > 1 ? `${nodes}x ${gpus}` : gpus);

/** A duration; seconds in a pipe. */
export const tookCell = (io: Io, ms: number): string => (io.tty ? duration(ms) : (Math.max(0, ms) / 1_000).toFixed(1));
