// Who uses a control plane that was started for its callers, and when it may end.
//
// H1. A caller holds it by an answer that stays open. However the caller ends, the system closes the connection, and with it goes
//     the hold: there is no lease to renew and no file to clean up.
// H2. It ends when its starter is gone and nobody holds it. From that moment on no hold is given: who asks is told that it ends.
// H3. Whoever still listens when it has ended is told what could not be ended.
// H4. A control plane that was not started for its callers gives holds as well, and lives as long as it likes.

import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { SvcError } from "../errors/index.ts";

export interface Released {
  /** Whether the control plane ends now: this was the last one to hold it. */
  ending: boolean;
  /** How many others hold it. */
  holders: number;
}

/** The last line of a hold: the jobs that could not be ended in time, and those that were to go on. */
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

  /** @param last called once, when the starter is gone and nobody holds it; null where it does not live by its holders. */
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

  /** Lets go of a hold, and of the starter's claim where it is the starter that says so. Repeating it changes nothing. */
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

  /** It ends, for whatever reason: no hold is given any more. */
  end(): void {
    this.#ending = true;
  }

  /** Tells everybody who listens how it ended, also those who let go. */
  farewell(words: Farewell): void {
    for (const response of this.#listening) response.end(`${JSON.stringify(words)}\n`);
  }

  #look(): void {
    if (!this.endsWithHolders || this.#ending || this.#starter || this.#held.size > 0) return;
    this.#ending = true;
    this.#last();
  }
}
