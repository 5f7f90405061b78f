// Waits until each run has met its condition. It looks into the store once a second at most, which costs less than a request, so that it
// works before, during and after a restart of the control plane.

import { findControlPlane } from "../../../../sdk/discover.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { hasEnded } from "../../../schemas/names.ts";
import { sleep, type Io } from "../../io.ts";
import type { OpenReads } from "../../store.ts";
import { tellWarnings } from "../../tell-warnings.ts";
import type { Awaited } from "./conditions.ts";

const LOOK_MS_FIRST = 100;
const LOOK_MS_MAX = 1_000;
const LOOK_MS_GROWTH = 1.3;
/** How often the control plane is looked for while nothing happens. */
const ALIVE_MS = 10_000;

/** `ended`: the run has ended, and did not meet the condition. */
type Result = "met" | "ended" | "timeout";

/**
 * @param until the last moment, on the clock of `performance.now()`.
 * @param tell called with each run whose wait is over.
 * @returns the result of each run; some are missing if the command was interrupted.
 */
export async function waitForAll(
  reads: OpenReads,
  waiting: Map<string, Awaited>,
  until: number,
  io: Io,
  tell: (id: string, result: Result) => Promise<void>,
): Promise<Map<string, Result>> {
  const results = new Map<string, Result>();
  const settle = async (id: string, result: Result): Promise<void> => {
    waiting.delete(id);
    results.set(id, result);
    await tell(id, result);
    const record = reads.job(id);
    if (record !== null && hasEnded(record.status)) tellWarnings(reads, id, io);
  };
  const alive = new AliveWords(io);
  for (let pause = LOOK_MS_FIRST; !io.interrupted.aborted; pause = Math.min(LOOK_MS_MAX, pause * LOOK_MS_GROWTH)) {
    for (const [id, awaited] of waiting) {
      const verdict = awaited.look(reads);
      if (verdict === "met") await settle(id, "met");
      if (verdict !== "never") continue;
      io.err(safeField(awaited.whyNever(reads)));
      await settle(id, "ended");
    }
    if (waiting.size === 0) break;
    const left = until - performance.now();
    if (left <= 0) {
      io.err(
        `The condition was not met in time: ${[...waiting.keys()].join(", ")}. The runs continue, and cost as before.`,
      );
      for (const id of waiting.keys()) await settle(id, "timeout");
      break;
    }
    await alive.look();
    await sleep(Math.min(pause, left), io.interrupted);
  }
  return results;
}

/** Says when no control plane drives the runs, and when one does again. */
class AliveWords {
  readonly #io: Io;
  #lookedAt = -Infinity;
  #isAway = false;

  constructor(io: Io) {
    this.#io = io;
  }

  async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < ALIVE_MS) return;
    this.#lookedAt = performance.now();
    const isAway = (await findControlPlane(this.#io.home())).state === "none";
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    this.#io.err(
      isAway
        ? "No control plane is running. Scripts that have started continue, and rented machines cost money, but svc does not see them. This command keeps waiting; `svc serve` resumes the runs."
        : "A control plane is running these runs again.",
    );
  }
}
