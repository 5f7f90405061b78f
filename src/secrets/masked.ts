// The visible part of a credential: where each field comes from, and at most the last four characters of a secret.

import type { CredentialField } from "../providers/descriptor.ts";
import { CREDENTIAL_FIELDS, type CredentialName } from "../schemas/credential-blocks.ts";
import type { ShownCredential, ShownField } from "../schemas/credentials.ts";
import { isService } from "../schemas/credential-blocks.ts";
import { CONTROL, findField, type FoundCredential, type Places } from "./read-credential.ts";
import { configured } from "./registry.ts";
import { isRecord } from "./store-file.ts";

/** Four characters of a shorter secret would reveal too much. */
const SHOWN_FROM_LENGTH = 12;

/** `…abcd`; `…` alone for a short secret. */
export function masked(secret: string): string {
  const last = secret.length < SHOWN_FROM_LENGTH ? "" : secret.slice(-4);
  return `…${last.replace(new RegExp(CONTROL.source, "g"), " ")}`;
}

/** The source of one field: the registry, the environment or `block`. Null if it is not set, or is not text. */
export function foundIn(
  name: CredentialName,
  field: CredentialField,
  block: unknown,
  places: Places,
): FoundCredential | null {
  const path = isService(name) ? name : `providers.${name}`;
  const at = { owner: name, path, name: field.name, variables: field.variables, ...places };
  try {
    const named = configured(name, places);
    const byItself = field.kind === "address" && (isService(name) || field.variables.some((v) => places.env[v]));
    if (named && !byItself) return findField({ ...at, variables: [], block: named.block, configuredBy: named.where });
    return findField({ ...at, block: isRecord(block) ? block : {} });
  } catch {
    return null;
  }
}

export function shown(name: CredentialName, block: unknown, places: Places): ShownCredential {
  return Object.fromEntries(
    CREDENTIAL_FIELDS[name].flatMap((field): [string, ShownField][] => {
      const found = foundIn(name, field, block, places);
      if (found === null) return [];
      const value = field.secret ? masked(found.value) : found.value;
      return [[field.name, { value, source: found.source, read_only: found.source !== "store" }]];
    }),
  );
}
