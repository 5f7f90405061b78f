import { SvcError } from "../errors/index.ts";
import type { CredentialName } from "../schemas/credential-blocks.ts";
import { refusing, unusable, type Places } from "./read-credential.ts";
import { configured, type Configured } from "./registry.ts";

/** The registry's block for a provider or a service; null if it does not name it. Throws `credential_missing`. */
export function configuredFor(name: CredentialName, places: Places): Configured | null {
  try {
    return refusing(name, () => configured(name, places));
  } catch (e) {
    // A broken reference.
    if (e instanceof SvcError && e.code === "secret_not_found") throw unusable(name, e.message);
    throw e;
  }
}
