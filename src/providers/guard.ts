// The machine's guard, under the name by which providers import it, and what the ends of their machines share.

export {
  GUARD_GRACE_SECONDS_MIN,
  guardDir,
  guardScript,
  guardTimes,
  type GuardedMachine,
} from "../domain/guard-script.ts";

/** A machine that still runs after so many attempts was not ended, although its provider accepted that: the other ways are tried. */
export const ACCEPTED_TRIES = 4;
