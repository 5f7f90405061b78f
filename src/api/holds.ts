// Tracks the callers of a control plane that was started for them, and decides when it may end.
//
// H1. A caller holds it by an answer that stays open. When the caller ends, for any reason, the system closes the
//     connection and so releases the hold: there is no lease to renew and no file to clean up.
// H2. The control plane ends when its starter is gone and no caller holds it. From then on it grants no hold: callers
//     receive `shutting_down`.
// H3. Callers that still listen at its end receive the list of jobs that could not be ended.
// H4. A control plane that was not started for its callers grants holds as well, but does not end with them.

import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { SvcError } from "../errors/index.ts";

export interface Released {
  /** Whether the control plane ends now, because this was the last hold. */
  ending: boolean;
  /** The number of other holders. */
  holders: number;
}

/** The last line of a hold: the jobs that could not be ended in time, and those that were meant to continue. */
export interface Farewell {
  unfinished: string[];
  kept: string[];
}

export class Holds {
  /** Whether the end of the last hold is the end of the control plane. */
  readonly endsWithHolders: boolean;
  readonly #held = new Set<string>();
  readonly #listening = new Set<ServerResponse>();
  readonly #last: () => void;
  #starter = true;
  #ending = false;

  /**
   * @param last called once, when the starter is gone and no hold is left; null if the control plane does not end with
   * its holders.
   */
  constructor(last: (() => void) | null) {
    this.endsWithHolders = last !== null;
    this.#last = last ?? (() => undefined);
  }

  /** Holds until the answer's connection is closed. Throws `shutting_down` once the end has begun. */
  take(response: ServerResponse): string {
    if (this.#ending) throw new SvcError("shutting_down", {});
    const id = randomUUID();
    this.#held.add(id);
    this.#listening.add(response);
    response.once("close", () => {
      this.#listening.delete(response);
      this.#held.delete(id);
      this.#look();
    });
    return id;
  }

  /** Releases a hold, and also the starter's claim if the starter asks. Idempotent. */
  release(id: string, starter: boolean): Released {
    if (starter) this.#starter = false;
    this.#held.delete(id);
    this.#look();
    return { ending: this.#ending, holders: this.#held.size };
  }

  starterGone(): void {
    this.#starter = false;
    this.#look();
  }

  /** The control plane ends, for whatever reason: no more holds are granted. */
  end(): void {
    this.#ending = true;
  }

  /** Sends every listener the result of the shutdown, including callers that have released their hold. */
  farewell(words: Farewell): void {
    for (const response of this.#listening) response.end(`${JSON.stringify(words)}\n`);
  }

  #look(): void {
    if (!this.endsWithHolders || this.#ending || this.#starter || this.#held.size > 0) return;
    this.#ending = true;
    this.#last();
  }
}
