// The server's errors about the form's values, by field and in whole sentences.

import type { Problem } from "../../../src/schemas/job.ts";
import { FIELDS, LABEL, TAGS } from "./run-values.ts";
import { fieldOfError } from "./schema-fields.ts";
import type { PlanState } from "./use-plan.ts";

interface Complaint {
  field: string;
  message: string;
}

const titleOf = (path: string): string => {
  const name = fieldOfError(path);
  return [LABEL, TAGS, ...FIELDS].find((each) => each.name === name)?.title ?? path.replace(/^spec\./, "");
};

/** `must be a number` becomes `Price cap must be a number.`; a whole sentence stays unchanged. */
export function sentenceOf(message: string, path: string | null): string {
  const whole = path !== null && /^[a-z]/.test(message) ? `${titleOf(path)} ${message}` : message;
  const capital = whole.charAt(0).toUpperCase() + whole.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

export function byField(complaints: readonly Complaint[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { field, message } of complaints) {
    const name = fieldOfError(field);
    found[name] = found[name] ? `${found[name]}; ${message}` : message;
  }
  return found;
}

/** The problem in the form's words for the fields that the form itself has found wrong. */
export const inOwnWords = (problem: Problem | null, own: Record<string, string>): Problem | null =>
  problem && {
    ...problem,
    errors: problem.errors?.map(({ field, message }) => ({ field, message: own[fieldOfError(field)] ?? message })),
  };

/** Why single fields would be refused. */
export const refusalsOf = ({ plan }: PlanState): Record<string, string> =>
  byField((plan?.refusals ?? []).flatMap(({ field, message }) => (field === null ? [] : [{ field, message }])));

export const titlesOf = (names: Iterable<string>): string => [...names].map(titleOf).join(", ");
