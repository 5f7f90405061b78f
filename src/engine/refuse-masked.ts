import { REDACTED } from "../domain/redaction.ts";
import { SvcError } from "../errors/index.ts";
import type { SubmitBody } from "../schemas/spec.ts";

/**
 * Refuses a body that was copied from a record and contains the mask of a secret: such a run would fail after the
 * machine was paid for.
 */
export function refuseMasked({ spec }: SubmitBody): void {
  const errors = Object.entries(spec).flatMap(([name, value]) =>
    JSON.stringify(value)?.includes(REDACTED)
      ? [{ field: `spec.${name}`, message: `holds ${REDACTED} where a secret stood; write the secret there again` }]
      : [],
  );
  if (errors.length === 0) return;
  const summary = `The spec of the run cannot be used: ${errors.map((e) => `${e.field} ${e.message}`).join("; ")}.`;
  throw new SvcError("invalid_request", { summary }, { errors });
}
