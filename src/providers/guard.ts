// The machine's own watch, by the name under which providers know it.

export { GUARD_GRACE_SECONDS_MIN, guardDir, guardScript, type GuardedMachine } from "../domain/guard-script.ts";
