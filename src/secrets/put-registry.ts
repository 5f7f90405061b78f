// Stores the registry that `configure()` sends. The rules are in registry.ts.

import { replaceFile } from "../platform/replace-file.ts";
import { SvcError, type FieldError } from "../errors/index.ts";
import { isRemote, REMOTE_NAMES, type RemoteName } from "../providers/descriptors.ts";
import type { Registry, RegistryBody, RegistryCredential, RegistryInUse } from "../schemas/registry.ts";
import type { ProviderName } from "../schemas/spec.ts";
import type { Places } from "./read-credential.ts";
import { installationKey } from "./installation-key.ts";
import { readStored, type StoredRegistry } from "./registry.ts";
import { valuesOf, type Values } from "./registry-file.ts";
import { resolveOwnersSecret } from "./resolve.ts";
import { sealText } from "./sealed.ts";
import type { Exclusively } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";

/** Replaces a literal in the file. */
const LITERAL = "literal://(sealed)";

export interface PutOptions {
  exclusively: Exclusively;
  /** Machines of a provider that may cost money. */
  machinesOf: (provider: RemoteName) => number;
  /** The secret that opens the provider's account; null if no usable one is set. */
  secretOf: (provider: RemoteName, places: Places) => string | null;
}

/**
 * Replaces the registry of an earlier `configure()`. @throws `invalid_request`, `secret_not_found`, `credential_in_use`
 */
export function putRegistry(body: RegistryBody, places: Places, options: PutOptions): RegistryInUse {
  const used = usedBy(body);
  const taken = takeOver(body, used, places);
  return options.exclusively(homeLayout.credentialsLock(places.home), () => {
    const before = readStored(places.home);
    const kept = heldBack(before, used, options);
    const next = sealedWith(taken, kept, before, places);
    for (const name of REMOTE_NAMES) {
      const machines = options.machinesOf(name);
      const secret = machines === 0 ? null : options.secretOf(name, places);
      if (secret !== null && options.secretOf(name, { ...places, registry: next }) !== secret)
        throw new SvcError("credential_in_use", { name, machines });
    }
    replaceFile(homeLayout.registry(places.home), `${JSON.stringify(next, null, 2)}\n`);
    return { use: used.map((c) => c.cred_id), kept: next.kept, warnings: taken.warnings };
  });
}

/** The credentials in use: one for each provider. */
function usedBy({ registry, use }: RegistryBody): RegistryCredential[] {
  const errors: FieldError[] = [];
  const known = new Map<string, RegistryCredential>();
  for (const [i, credential] of (registry.credentials ?? []).entries()) {
    if (known.has(credential.cred_id))
      errors.push({ field: `registry.credentials[${i}].cred_id`, message: "is listed twice" });
    known.set(credential.cred_id, credential);
  }
  const of = new Map<ProviderName, RegistryCredential>();
  for (const [i, id] of use.entries()) {
    const credential = known.get(id);
    const other = credential && of.get(credential.provider);
    if (!credential) errors.push({ field: `use[${i}]`, message: "is not a cred_id of the registry" });
    else if (other && other !== credential)
      errors.push({
        field: `use[${i}]`,
        message: `is a second credential of ${credential.provider}; one can be in use`,
      });
    else of.set(credential.provider, credential);
  }
  if (errors.length === 0) return [...of.values()].filter((c) => isRemote(c.provider));
  const summary = `The registry is not valid: ${errors.map((e) => `${e.field} ${e.message}`).join("; ")}.`;
  throw new SvcError("invalid_request", { summary }, { errors });
}

interface Taken {
  registry: Registry;
  values: Values;
  warnings: string[];
}

/** The registry without its literals, and the values to seal. */
function takeOver(body: RegistryBody, used: RegistryCredential[], places: Places): Taken {
  const values: Values = {};
  const warnings: string[] = [];
  const keep = <R extends string | null | undefined>(reference: R, at: string): R | string => {
    if (!reference) return reference;
    if (reference.startsWith("literal://")) {
      values[at] = resolveOwnersSecret(reference, places.home, places.env);
      warnings.push(
        `the secret of ${at} is a literal://: anyone who reads the script has it. Use env://, file:// or store://`,
      );
      return LITERAL;
    }
    const given = reference.startsWith("env://") && Object.hasOwn(body.values, at);
    if (given) values[at] = body.values[at] ?? null;
    // The hub and the tracker are optional; a provider must have its key.
    if (given && values[at] === null && at.startsWith("credentials."))
      throw new SvcError("secret_not_found", { reference, why: "it is not set where configure() was called" });
    if (!reference.startsWith("env://")) resolveOwnersSecret(reference, places.home, places.env);
    return reference;
  };
  const tracker = body.registry.tracking?.tracker;
  const hub = body.registry.integrations?.hub;
  const { targets, rules } = body.registry.notifications ?? {};
  const registry: Registry = {
    credentials: used.map((c) => ({ ...c, secret_ref: keep(c.secret_ref, `credentials.${c.cred_id}`) })),
    tracking: tracker && { tracker: { ...tracker, secret_ref: keep(tracker.secret_ref, "tracking.tracker") } },
    integrations: hub && { hub: { ...hub, token_ref: keep(hub.token_ref, "integrations.hub") } },
    notifications: body.registry.notifications && {
      rules,
      targets: Object.fromEntries(
        Object.entries(targets ?? {}).map(([name, target]) => [
          name,
          "secret_ref" in target && target.secret_ref !== undefined
            ? { ...target, secret_ref: keep(target.secret_ref, `notifications.${name}`) }
            : target,
        ]),
      ),
    },
  };
  return { registry, values, warnings };
}

/** Old credentials that may still be needed to end machines. */
function heldBack(
  before: StoredRegistry | null,
  used: RegistryCredential[],
  options: PutOptions,
): RegistryCredential[] {
  return (before?.registry.credentials ?? []).filter(
    (c) => isRemote(c.provider) && !used.some((u) => u.provider === c.provider) && options.machinesOf(c.provider) > 0,
  );
}

function sealedWith(
  taken: Taken,
  kept: RegistryCredential[],
  before: StoredRegistry | null,
  places: Places,
): StoredRegistry {
  const values = { ...taken.values };
  const old = before && kept.length > 0 ? valuesOf(places.home, before) : {};
  const credentials = [...(taken.registry.credentials ?? [])];
  for (const credential of kept) {
    // Another credential may have its name now.
    const cred_id = credentials.some((c) => c.cred_id === credential.cred_id)
      ? `${credential.cred_id} (kept)`
      : credential.cred_id;
    const at = `credentials.${credential.cred_id}`;
    if (Object.hasOwn(old, at)) values[`credentials.${cred_id}`] = old[at] ?? null;
    credentials.push({ ...credential, cred_id });
  }
  return {
    v: 1,
    registry: { ...taken.registry, credentials },
    kept: credentials.slice(credentials.length - kept.length).map((c) => c.cred_id),
    sealed: sealText(JSON.stringify(values), installationKey(places.home)).toString("base64"),
  };
}
