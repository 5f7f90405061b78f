// Reads the owner's credential for a provider, from the environment of the control plane or from the credential store.
//
// K1. The environment wins, field by field.
// K2. Nothing is cached: every call reads again, so a changed key counts at the next call.
// K3. Errors name the variable, the field or the file. Never a value.
// K4. If the environment has every needed value, an unreadable store stops nothing: machines must still be ended.

import { SvcError } from "../errors/index.ts";
import { keepsSecrets } from "../schemas/address.ts";
import { CREDENTIAL_FIELDS } from "../schemas/credential-blocks.ts";
import type { CredentialSource } from "../schemas/credentials.ts";
import type { CredentialReader } from "../providers/descriptor.ts";
import { credentialBlockOf, DESCRIPTORS, isRemote, PROVIDER_NAMES, type RemoteName } from "../providers/descriptors.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { configuredFor } from "./configured-for.ts";
import {
  absolutePath,
  CONTROL,
  findField,
  findLine,
  keyFileText,
  refusing,
  storeOf,
  unusable,
  type FieldPlace,
  type FoundCredential,
  type Places,
} from "./read-credential.ts";
import { blockIn, storedEntry, isRecord } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";

export interface CredentialReading {
  /** Null while anything is `missing`. */
  credential: { secret: string; settings: Record<string, string> } | null;
  /** The parts that are set, complete or not. */
  given: { secret: string; settings: Record<string, string> };
  /** The source of the key, or of its substitute. */
  source: CredentialSource | null;
  /** The things to set, as text; empty if nothing is missing. */
  missing: string[];
  /** Absolute; null if the home's own key is used. */
  sshKeyPath: string | null;
}

/** The fields of a provider's block that are not settings. */
const NOT_SETTINGS = new Set(["api_key", "service_account_json", "ssh_key_path", "secret_ref", "ssh_key_ref", "extra"]);

/** @throws `credential_missing`, which names the unusable value. */
export function readCredential(provider: ProviderName, places: Places): CredentialReading {
  const { env } = places;
  if (!isRemote(provider)) {
    const given = { secret: "", settings: {} };
    return { credential: given, given, source: null, missing: [], sshKeyPath: null };
  }
  const named = configuredFor(provider, places);
  if (named) return gather(provider, { ...places, env: homeOf(env) }, named.block, named.where);
  const fromEnv = gather(provider, places, {});
  if (fromEnv.missing.length === 0 && !storeIsReadable(places)) return fromEnv;
  const block = refusing(provider, () => blockIn(storeOf(places), provider));
  if (block !== undefined && !isRecord(block))
    throw unusable(provider, `providers.${provider} in ${homeLayout.credentials(places.home)} must be an object`);
  return gather(provider, { home: places.home, env }, block ?? {});
}

/** Only HOME, for `~`; the registry's credentials use nothing else of the environment. */
const homeOf = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ HOME: env["HOME"] });

/** For `GET /v1/providers`: never throws; an unusable credential is reported as missing. */
export function providerSources(
  home: string,
  env: NodeJS.ProcessEnv,
): Record<ProviderName, { connected: boolean; source: CredentialSource | "none_needed" | null; missing: string[] }> {
  const of = (provider: ProviderName) => {
    if (!isRemote(provider)) return { connected: true, source: "none_needed" as const, missing: [] };
    try {
      const { credential, source, missing } = readCredential(provider, { home, env });
      // The vendor's default address needs no check.
      if (DESCRIPTORS[provider].address !== null) baseUrlOf(provider, env, credential, "https://localhost");
      return { connected: missing.length === 0, source: missing.length === 0 ? source : null, missing };
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      // The data of `credential_missing` and `provider_unavailable` name the problem in these fields.
      const { missing, why } = e.data as { missing?: string; why?: string };
      return { connected: false, source: null, missing: [missing ?? why ?? e.message] };
    }
  };
  return Object.fromEntries(PROVIDER_NAMES.map((name) => [name, of(name)])) as Record<
    ProviderName,
    ReturnType<typeof of>
  >;
}

/**
 * Base address of the API of a provider or service: `SVC_<PROVIDER>_URL`, else the setting `url`, else `fallback`. Https, or http on
 * loopback; without a slash at its end. Throws `provider_unavailable`, which names the setting.
 */
export function baseUrlOf(
  provider: string,
  env: NodeJS.ProcessEnv,
  credential: { settings: Readonly<Record<string, string>> } | null,
  fallback: string,
): string {
  const name = `SVC_${provider.toUpperCase()}_URL`;
  const given = env[name]?.trim();
  const setting = credential?.settings["url"]?.trim();
  const [where, text] = given ? [name, given] : setting ? [`the setting url of ${provider}`, setting] : ["", fallback];
  const refuse = (why: string) => new SvcError("provider_unavailable", { provider, why: `${where} ${why}` });
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refuse("is not an address like https://host/path");
  }
  if (url.username !== "" || url.password !== "") throw refuse("must not hold a user or a password");
  if (url.search !== "" || url.hash !== "") throw refuse("must end with its path: no ? and no #");
  if (!keepsSecrets(url)) throw refuse("must begin with https://; http:// is for this computer only");
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

function storeIsReadable(places: Places): boolean {
  try {
    storeOf(places);
    return true;
  } catch {
    return false;
  }
}

function gather(
  provider: RemoteName,
  { home, env }: Places,
  block: Record<string, unknown>,
  configuredBy?: string,
): CredentialReading {
  const extra = storedEntry(block, "extra");
  const place = (name: string): FieldPlace => {
    const variables = [variableOf(provider, name)];
    const at = { owner: provider, path: `providers.${provider}`, block, variables, name, home, env };
    return configuredBy === undefined ? at : { ...at, configuredBy };
  };
  const field = (name: string): FoundCredential | null => findField(place(name));
  const oneLine = (name: string): FoundCredential | null => findLine(place(name));

  const settings: Record<string, string> = {};
  const where = new Map<string, CredentialSource>();
  for (const name of new Set([...settingsOf(provider), ...ownNames(block), ...ownNames(extra)])) {
    const found = oneLine(name);
    if (!found) continue;
    settings[name] = found.value;
    where.set(name, found.source);
  }
  const path = oneLine("ssh_key_path");
  const sshKeyPath = path === null ? null : absolutePath(path, { home, env });
  const from: CredentialReader = {
    line: oneLine,
    keyFile: (name) => {
      const key = field(name);
      if (key === null) return null;
      const text = keyFileText(provider, key, { home, env });
      const member = (of: string): string | null => {
        const value = storedEntry(JSON.parse(text), of);
        return typeof value === "string" && value.trim() !== "" && !CONTROL.test(value) ? value.trim() : null;
      };
      return { text, member, source: key.source };
    },
    settings,
    sourceOf: (name) => where.get(name) ?? null,
    toSet: (name) =>
      `${variableOf(provider, name)} in the environment, or providers.${provider}.${name} in credentials.json`,
  };
  const { secret, source, missing } = credentialBlockOf(provider).read(from);
  const given = { secret, settings };
  return { credential: missing.length > 0 ? null : given, given, source, missing, sshKeyPath };
}

/** Settings that the environment may give, as `<PROVIDER>_<SETTING>`. The store may give any. */
const settingsOf = (provider: RemoteName): string[] =>
  CREDENTIAL_FIELDS[provider].map((f) => f.name).filter((name) => name !== "url" && !NOT_SETTINGS.has(name));

const variableOf = (provider: ProviderName, name: string): string => `${provider}_${name}`.toUpperCase();

/** Names of the scalar fields of a block that can be settings. */
function ownNames(block: unknown): string[] {
  if (!isRecord(block)) return [];
  return Object.keys(block).filter(
    (name) =>
      /^[a-z][a-z0-9_]{0,63}$/.test(name) &&
      !NOT_SETTINGS.has(name) &&
      (typeof block[name] === "string" || typeof block[name] === "number"),
  );
}
