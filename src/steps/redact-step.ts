// What a machine says beside the log: why its runner failed, what it refuses, its last words, what it is made of. It was given the
// secrets of the run, and may repeat them: in the record, the timeline and the feed they bear the marker in their place.

import { asSvcError, SvcError } from "../errors/index.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { StepDefinition } from "./step.ts";

/**
 * The step with the secrets of its run taken out of its errors, its progress and what it tells. `output: false` leaves what the
 * machine of states acts on as it is: names and ids of machines, by which they are given back.
 */
export function withHiddenWords(
  step: StepDefinition,
  redactorOf: (jobId: string) => Redactor,
  { output = true }: { output?: boolean } = {},
): StepDefinition {
  return {
    ...step,
    async run(context) {
      let redactor: Redactor | null = null;
      const hidden = <T>(value: T): T => (redactor ??= redactorOf(context.jobId)).redactValue(value);
      try {
        const result = await step.run({ ...context, progress: (detail) => context.progress(hidden(detail)) });
        // Its run may have been given secrets meanwhile.
        redactor = null;
        return "done" in result && !output ? { ...hidden(result), done: result.done } : hidden(result);
      } catch (thrown) {
        redactor = null;
        throw withoutSecrets(asSvcError(thrown), hidden);
      }
    },
  };
}

function withoutSecrets(error: SvcError, hidden: <T>(value: T) => T): SvcError {
  const { code, cause, errors } = error;
  const data = hidden(error.data);
  if (JSON.stringify(data) === JSON.stringify(error.data)) return error;
  return new SvcError(code, data, { cause, ...(errors ? { errors: hidden(errors) } : {}) });
}
