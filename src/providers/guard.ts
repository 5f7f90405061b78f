// The machine's guard, under the name by which providers import it.

export {
  GUARD_GRACE_SECONDS_MIN,
  guardDir,
  guardScript,
  guardTimes,
  type GuardedMachine,
} from "../domain/guard-script.ts";
