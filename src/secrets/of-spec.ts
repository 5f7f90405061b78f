// The secrets that a spec itself contains: literals in its variables, arguments and install command, and the current values of its
// references.

import {
  addressPasswords,
  holdsSecret,
  isReference,
  secretArguments,
  secretParts,
  tokensIn,
} from "../domain/secret-names.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { Places } from "./read-credential.ts";
import { resolveSecret } from "./resolve.ts";

/** A broken reference gives nothing: the code that needs its value reports it. */
export function secretsOfSpec(
  spec: Pick<RunSpec, "env" | "args" | "install">,
  { home, env }: Pick<Places, "home" | "env">,
): string[] {
  const values = [...secretArguments(spec.args), ...addressPasswords(spec.install), ...tokensIn(spec.install)];
  for (const [name, value] of Object.entries(spec.env)) {
    if (isReference(value)) {
      try {
        values.push(resolveSecret(value, home, env));
      } catch {
        continue;
      }
    } else if (holdsSecret(name, value)) values.push(value);
  }
  return values.flatMap(secretParts);
}
