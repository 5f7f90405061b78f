// The stored form of a run's spec: without a secret in clear. Literal secrets of its environment are sealed one by one
// with the installation's key. If a known secret occurs anywhere else (an argument, a path, a name), the readable part
// is masked, and the whole spec is kept sealed next to it for the run itself.

import type { Redactor } from "../domain/redaction.ts";
import { holdsSecret } from "../domain/secret-names.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { sealText, unsealText } from "./sealed.ts";
import { sealRecord, unsealRecord } from "./sealed-record.ts";
import { withDefaults } from "../schemas/stored-spec.ts";

const SEALED = "sealed://";

/** The spec in the form that may be stored. */
export function sealSpec(spec: RunSpec, key: Buffer, secrets: Redactor): RunSpec {
  const written = withEnv(spec, (name, value) =>
    holdsSecret(name, value) ? SEALED + sealText(value, key).toString("base64") : value,
  );
  return sealRecord(written, key, secrets);
}

/**
 * The original spec; the sealed part may be of an older version. Values that another key sealed stay unchanged: there
 * is nothing better.
 */
export function unsealSpec(spec: RunSpec, key: Buffer): RunSpec {
  return withEnv(withDefaults(unsealRecord(spec, key)), (_name, value) =>
    value.startsWith(SEALED) ? (unsealText(Buffer.from(value.slice(SEALED.length), "base64"), key) ?? value) : value,
  );
}

const withEnv = (spec: RunSpec, map: (name: string, value: string) => string): RunSpec => ({
  ...spec,
  env: Object.fromEntries(Object.entries(spec.env).map(([name, value]) => [name, map(name, value)])),
});
