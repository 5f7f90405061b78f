// A run's spec as it lies in the store: without a secret in clear. Literal secrets of its environment are sealed one by one with the
// installation's key. Where a known secret stands in anything else (an argument, a path, a name), what can be read is masked, and the
// whole spec is kept sealed beside it for the run itself.

import type { Redactor } from "../domain/redaction.ts";
import { holdsSecret } from "../domain/secret-names.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { sealText, unsealText } from "./sealed.ts";
import { sealRecord, unsealRecord } from "./sealed-record.ts";
import { withDefaults } from "../schemas/stored-spec.ts";

const SEALED = "sealed://";

/** The spec as it may be written down. */
export function sealSpec(spec: RunSpec, key: Buffer, secrets: Redactor): RunSpec {
  const written = withEnv(spec, (name, value) =>
    holdsSecret(name, value) ? SEALED + sealText(value, key).toString("base64") : value,
  );
  return sealRecord(written, key, secrets);
}

/** The spec as it was given; what is sealed may be of an older version. What was not sealed with this key stays as it is: there is nothing better. */
export function unsealSpec(spec: RunSpec, key: Buffer): RunSpec {
  return withEnv(withDefaults(unsealRecord(spec, key)), (_name, value) =>
    value.startsWith(SEALED) ? (unsealText(Buffer.from(value.slice(SEALED.length), "base64"), key) ?? value) : value,
  );
}

const withEnv = (spec: RunSpec, map: (name: string, value: string) => string): RunSpec => ({
  ...spec,
  env: Object.fromEntries(Object.entries(spec.env).map(([name, value]) => [name, map(name, value)])),
});
