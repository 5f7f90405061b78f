// Why a placement ended, as one word, from facts that travel with events: the error's code, the script's exit code and the step. Pure, so
// that the job machine can decide by it whether another machine follows.

import type { FAILURES } from "../schemas/names.ts";
import type { StepName } from "../schemas/job.ts";

export type Failure = (typeof FAILURES)[number] | `exit:${number}`;

/** The order failed and left no machine behind: another candidate may have a machine. */
const NO_MACHINE: ReadonlySet<string> = new Set([
  "no_offer",
  "offer_taken",
  "gang_incomplete",
  "no_funds",
  "no_quota",
  "price_cap_exceeded",
  "price_unknown",
  "provider_refused",
  "provider_unavailable",
  "provider_unreachable",
  "provider_error",
  "credential_missing",
  "credential_refused",
  "account_unproven",
  "outcome_unknown",
]);

/** The steps in which a machine has not been reached yet: it may still be booting. */
const BOOTING: ReadonlySet<StepName> = new Set(["provision", "await_ssh"]);

/**
 * @param step the step that failed, or the one whose state ran out of time.
 * @param error its code, and its data: `elsewhere` is true if the fault is the host's, `image` if it is the image's.
 */
export function failureOfStep(step: StepName, { code, data }: { code: string; data?: unknown }): Failure {
  if (code === "machine_preempted") return "preempted";
  const facts = (data ?? {}) as { elsewhere?: boolean; image?: boolean; never_started?: boolean };
  if (code === "machine_unfit") return facts.image === true ? "image_failed" : "machine_unfit";
  if (code === "install_failed") return "install_failed";
  // There is no exit code: the runner or its folder was lost with a machine that rebooted or disappeared. A script that
  // cannot be started proves nothing about its machine.
  if (code === "run_lost") return facts.never_started === true ? "other" : "machine_lost";
  if (step === "provision" && (NO_MACHINE.has(code) || code === "step_timed_out")) return "no_machine";
  if (code === "machine_lost") return BOOTING.has(step) ? "boot_failed" : "machine_lost";
  if (code === "machine_broken") {
    if (!BOOTING.has(step)) return "machine_lost";
    if (facts.elsewhere === true) return "boot_failed";
    // An image that cannot be pulled cannot be pulled on the next host either.
    return facts.image === true ? "image_failed" : "other";
  }
  if (step === "await_ssh" && (code === "step_timed_out" || code === "ssh_unreachable" || code === "ssh_refused"))
    return "boot_failed";
  return "other";
}
