// Literal secrets of a run's environment, as they lie in the store: sealed with the installation's key.

import { holdsSecret } from "../domain/secret-names.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { sealText, unsealText } from "./sealed.ts";

const SEALED = "sealed://";

/** The spec as it may be written down. */
export function sealSpec(spec: RunSpec, key: Buffer): RunSpec {
  return withEnv(spec, (name, value) =>
    holdsSecret(name, value) ? SEALED + sealText(value, key).toString("base64") : value,
  );
}

/** The spec as it was given. A value that was not sealed with this key stays as it is: there is nothing better. */
export function unsealSpec(spec: RunSpec, key: Buffer): RunSpec {
  return withEnv(spec, (_name, value) =>
    value.startsWith(SEALED) ? (unsealText(Buffer.from(value.slice(SEALED.length), "base64"), key) ?? value) : value,
  );
}

const withEnv = (spec: RunSpec, map: (name: string, value: string) => string): RunSpec => ({
  ...spec,
  env: Object.fromEntries(Object.entries(spec.env).map(([name, value]) => [name, map(name, value)])),
});
