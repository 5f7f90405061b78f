// Redacts a machine's messages outside of the log: why its runner failed, its refusals, its last output, its facts. The
// machine received the secrets of the run, and may repeat them: the record, the timeline and the feed contain the
// marker instead. While the secrets of the run cannot be read, each text could contain one: then only numbers and the error's code remain,
// because a step must not fail, or lose its own error, for want of a redactor.

import { asSvcError, SvcError } from "../errors/index.ts";
import { REDACTED, type Redactor } from "../domain/redaction.ts";
import { UnreadableSecrets } from "./launch/run-secrets.ts";
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
      let whyNone: unknown = null;
      const hidden = <T>(value: T): T => {
        try {
          redactor ??= redactorOf(context.jobId);
        } catch (cause) {
          whyNone = cause;
          return withheld(value) as T;
        }
        return redactor.redactValue(value);
      };
      let result: Awaited<ReturnType<StepDefinition["run"]>>;
      try {
        result = await step.run({ ...context, progress: (detail) => context.progress(hidden(detail)) });
      } catch (thrown) {
        redactor = null;
        throw withoutSecrets(asSvcError(thrown), hidden);
      }
      // Its run may have received secrets meanwhile.
      redactor = null;
      whyNone = null;
      const told = hidden(result);
      if (!("done" in result) || !("done" in told)) return told;
      if (!output) return { ...told, done: result.done };
      // The state machine needs the words that are missing now.
      if (whyNone !== null && !isSame(told.done, result.done)) throw asSvcError(whyNone);
      return told;
    },
  };
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** A value of the same shape, with the marker in place of each text, and of each key that is more than a word. */
function withheld(value: unknown): unknown {
  if (typeof value === "string") return value === "" ? value : REDACTED;
  if (Array.isArray(value)) return value.map(withheld);
  if (value === null || typeof value !== "object") return value;
  const shown = (key: string): string => (/^[A-Za-z_]{1,32}$/.test(key) ? key : REDACTED);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [shown(key), withheld(member)]));
}

function withoutSecrets(error: SvcError, hidden: <T>(value: T) => T): SvcError {
  if (error instanceof UnreadableSecrets) return error;
  const { code, cause, errors, retry } = error;
  const data = hidden(error.data);
  if (isSame(data, error.data)) return error;
  return new SvcError(code, data, { cause, retry, ...(errors ? { errors: hidden(errors) } : {}) });
}
