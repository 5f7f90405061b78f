// The real engine with steps that do nothing: only the engine's own work remains, with a real history.

import { systemClock } from "../../src/domain/clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { StepName } from "../../src/schemas/job.ts";
import type { StepDefinition, StepRegistry } from "../../src/steps/step.ts";
import type { EngineStore } from "../../src/store/engine-store.ts";

export interface InstantSteps {
  begun?: (jobId: string, step: StepName) => void;
  /** The exit code of a run's script; 0 by default. */
  exitOf?: (jobId: string) => number;
}

/** Steps that end as soon as they start. */
export function instantSteps({ begun = () => {}, exitOf = () => 0 }: InstantSteps = {}): StepRegistry {
  const step = (name: StepName): StepDefinition => ({
    name,
    retry: { attemptsMax: 1, delayMsMin: 1, delayMsMax: 1 },
    run({ jobId }) {
      begun(jobId, name);
      const exit_code = exitOf(jobId);
      const done =
        name === "place"
          ? { candidate: 0 }
          : name === "stream"
            ? { exit_code, error: null }
            : name === "collect"
              ? { exit_code }
              : {};
      return Promise.resolve({ done });
    },
  });
  return {
    place: step("place"),
    provision: step("provision"),
    await_ssh: step("await_ssh"),
    sync: step("sync"),
    install: step("install"),
    launch: step("launch"),
    stream: step("stream"),
    collect: step("collect"),
    terminate: step("terminate"),
  };
}

/** An engine whose jobs call `over` when they are terminal. */
export function engineOf(store: EngineStore, steps: StepRegistry, over: (jobId: string) => void): Engine {
  return new Engine({
    store,
    steps,
    clock: systemClock,
    defer: (fn) => void setImmediate(fn),
    publish: (events) => {
      for (const event of events)
        if (event.type === "job.transition" && event.data["to"] === "terminal" && event.job_id !== null)
          over(event.job_id);
    },
    report: (message) => {
      throw new Error(`the engine reports: ${message}`);
    },
  });
}
