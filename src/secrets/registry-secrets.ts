// The secrets that `registry.json` leads to, for masking alone (known.ts). The file is read without its schema, whose library takes longer to
// load than a list of runs takes in all. A file that the schema would refuse is masked as far as it can be read.

import { CREDENTIAL_FIELDS } from "../schemas/credential-blocks.ts";
import { credentialBlockOf, REMOTE_NAMES, type RemoteName } from "../providers/descriptors.ts";
import type { Places } from "./read-credential.ts";
import { registryJson, valuesOf, type Values } from "./registry-file.ts";
import { resolveOwnersSecret } from "./resolve.ts";
import { isRecord, storedEntry } from "./store-file.ts";

type Here = Pick<Places, "home" | "env">;

export interface RegistrySecrets {
  /** Sealed values, and the values that references lead to. */
  values: string[];
  /** The block of each credential, as the store has blocks. */
  blocks: [RemoteName, Record<string, unknown>][];
}

/** Throws `UnusableFile`. */
export function registrySecrets(places: Here): RegistrySecrets {
  const file = registryJson(places.home);
  const registry = storedEntry(file, "registry");
  const sealed = sealedIn(file, places.home);
  const resolved = referencesIn(registry).flatMap((reference) => resolvedOrNone(reference, places));
  return {
    values: [...Object.values(sealed).filter((value) => value !== null), ...resolved],
    blocks: listOf(storedEntry(registry, "credentials")).flatMap((credential) => blockOf(credential, sealed, places)),
  };
}

function sealedIn(file: unknown, home: string): Values {
  const sealed = storedEntry(file, "sealed");
  try {
    return typeof sealed === "string" ? valuesOf(home, { sealed }) : {};
  } catch {
    return {};
  }
}

/** The references to secrets in every part of the registry. `ssh_key_ref` names a file that no output shows. */
function referencesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(referencesIn);
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    typeof member === "string" ? (/^(secret|token)_ref$/.test(name) ? [member] : []) : referencesIn(member),
  );
}

function resolvedOrNone(reference: string, { home, env }: Here): string[] {
  try {
    return [resolveOwnersSecret(reference, home, env)];
  } catch {
    return [];
  }
}

function blockOf(credential: unknown, sealed: Values, places: Here): RegistrySecrets["blocks"] {
  const name = REMOTE_NAMES.find((each) => each === storedEntry(credential, "provider"));
  if (name === undefined) return [];
  const extra = storedEntry(credential, "extra");
  const reference = storedEntry(credential, "secret_ref");
  const { secretField } = credentialBlockOf(name);
  const given = sealed[`credentials.${String(storedEntry(credential, "cred_id"))}`];
  const [secret] = given ? [given] : typeof reference === "string" ? resolvedOrNone(reference, places) : [];
  const block = { ...(isRecord(extra) ? extra : {}), ...(secretField === null ? {} : { [secretField]: secret }) };
  return CREDENTIAL_FIELDS[name].some((field) => field.secret) ? [[name, block]] : [];
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
