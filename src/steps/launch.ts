// The launch step: starts the script under its runner. It does not wait for the script; `stream` does.
//
// Safe to run twice: the runner answers a second start of the same run with the state of the first.

import { SvcError } from "../errors/index.ts";
import { endGate } from "./rental/gate.ts";
import { heldMachine, reaching } from "./rental/held-machine.ts";
import { watching } from "./rental/machine-watch.ts";
import type { RunServices } from "./run-services.ts";
import type { StepContext, StepDefinition, StepDone } from "./step.ts";

const ATTEMPT_MS = 5 * 60_000;

export function launchStep(services: RunServices): StepDefinition {
  return {
    name: "launch",
    // Enough retries to outlast a network outage of several minutes.
    retry: { attemptsMax: 30, delayMsMin: 500, delayMsMax: 30_000 },
    attemptMs: ATTEMPT_MS,
    async run(context) {
      const { jobId, node, signal } = context;
      const held = heldMachine(services, context);
      const plan = await services.plan(jobId, node, "run");
      signal.throwIfAborted();
      const start = async (watched: StepContext): Promise<StepDone> => {
        const tested = await endGate(services, watched, held);
        const status = await held.access.host("run").start(plan.runner, plan.secretEnv, watched.signal);
        if (status.phase === "failed")
          throw new SvcError("runner_failed", { why: status.error ?? "it gave no reason" });
        return { done: {}, detail: { pid: status.pid, argv: plan.runner.argv, ...tested } };
      };
      return reaching(services, context, held, () => watching(services, context, held, "act", start));
    },
  };
}
