// Redacts a machine's messages outside of the log: why its runner failed, its refusals, its last output, its facts. The
// machine received the secrets of the run, and may repeat them: the record, the timeline and the feed contain the
// marker instead.

import { asSvcError, SvcError } from "../errors/index.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { StepDefinition } from "./step.ts";

/**
 * The step with the secrets of its run removed from its errors, its progress and its details. `output: false` leaves
 * the results for the state machine unchanged: they contain names and ids of machines that are needed to release them.
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
        // Its run may have received secrets meanwhile.
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
  const { code, cause, errors, retry } = error;
  const data = hidden(error.data);
  if (JSON.stringify(data) === JSON.stringify(error.data)) return error;
  return new SvcError(code, data, { cause, retry, ...(errors ? { errors: hidden(errors) } : {}) });
}
