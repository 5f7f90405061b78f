// The registry that `configure()` sent, as the home stores it. docs/internals/adr/0018 explains why.
//
// R1. `registry.json` holds references in clear. The values of `env://`, as the caller saw them, and of `literal://`
//     are sealed.
// R2. A credential from the registry is used as a whole: neither the environment nor the store adds to it.
// R3. A credential is removed or changed only while no machine that it may have rented can cost money.

import { z } from "zod";
import { credentialBlockOf } from "../providers/descriptors.ts";
import { isService, type CredentialName } from "../schemas/credential-blocks.ts";
import type { NotifyTarget } from "../schemas/notify.ts";
import { Registry } from "../schemas/registry.ts";
import { registryJson, valuesOf } from "./registry-file.ts";
import { resolveOwnersSecret } from "./resolve.ts";
import { UnusableFile } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";

const Stored = z.object({
  v: z.literal(1),
  registry: Registry,
  kept: z.array(z.string()),
  /** Base64 of a sealed object: values by the position of their reference. */
  sealed: z.string(),
});
export type StoredRegistry = z.infer<typeof Stored>;

/** The registry's values for one name: fields in the form of a block of the store. */
export interface Configured {
  /** For messages. */
  where: string;
  block: Record<string, unknown>;
}

export function readStored(home: string): StoredRegistry | null {
  const value = registryJson(home);
  if (value === null) return null;
  const stored = Stored.safeParse(value);
  if (!stored.success) throw new UnusableFile(`${homeLayout.registry(home)} is not a registry that this version wrote`);
  return stored.data;
}

interface Places {
  home: string;
  env: NodeJS.ProcessEnv;
  /** Replaces the file: for a check before it is written. */
  registry?: StoredRegistry;
}

/**
 * The registry's block for a provider or a service; null if it does not name it. The block lacks secrets that cannot be
 * resolved. Throws `UnusableFile`, and `secret_not_found` for a broken reference.
 */
export function configured(name: CredentialName, places: Places): Configured | null {
  const stored = places.registry ?? readStored(places.home);
  if (stored === null) return null;
  const { registry } = stored;
  const secret = (reference: string | null | undefined, at: string): string | undefined =>
    reference ? secretAt(reference, at, places, stored) : undefined;
  if (name === "tracker") {
    const tracker = registry.tracking?.tracker;
    if (!tracker) return null;
    const api_key = secret(tracker.secret_ref, "tracking.tracker");
    return { where: "tracking.tracker of configure()", block: plain({ api_key, project: tracker.project }) };
  }
  if (name === "hub") {
    const hub = registry.integrations?.hub;
    if (!hub) return null;
    const token = hub.enabled === false ? undefined : secret(hub.token_ref, "integrations.hub");
    const cache_dir = hub.enabled === false ? undefined : hub.cache_dir;
    return { where: "integrations.hub of configure()", block: plain({ token, cache_dir }) };
  }
  if (isService(name)) return null;
  const credential = registry.credentials?.find((c) => c.provider === name);
  if (!credential) return null;
  const { secretField } = credentialBlockOf(name);
  return {
    where: `the credential ${credential.cred_id} of configure()`,
    block: plain({
      ...credential.extra,
      ssh_key_path: credential.ssh_key_ref?.replace(/^file:\/\//, ""),
      ...(secretField === null
        ? {}
        : { [secretField]: secret(credential.secret_ref, `credentials.${credential.cred_id}`) }),
    }),
  };
}

/** The targets of notifications that configure() set, by name. Throws `UnusableFile`. */
export const configuredTargets = (home: string): Readonly<Record<string, NotifyTarget>> =>
  readStored(home)?.registry.notifications?.targets ?? {};

/** The rules for all runs that configure() set. Throws `UnusableFile`. */
export const configuredRules = (home: string): readonly string[] =>
  readStored(home)?.registry.notifications?.rules ?? [];

/** The secret of such a target; undefined if it was not set for configure()'s caller. Throws `UnusableFile`, `secret_not_found`. */
export function configuredTargetSecret(name: string, reference: string, places: Places): string | undefined {
  const stored = readStored(places.home);
  return stored === null ? undefined : secretAt(reference, `notifications.${name}`, places, stored);
}

function secretAt(reference: string, at: string, places: Places, stored: StoredRegistry): string | undefined {
  if (!/^(env|literal):/.test(reference)) return resolveOwnersSecret(reference, places.home, places.env);
  const values = valuesOf(places.home, stored);
  if (!Object.hasOwn(values, at)) return resolveOwnersSecret(reference, places.home, places.env);
  // Null: the variable was not set for configure()'s caller, which for the hub and the tracker means "not configured".
  return values[at] ?? undefined;
}

const plain = (block: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(block).filter(([, value]) => value !== undefined && value !== null));
