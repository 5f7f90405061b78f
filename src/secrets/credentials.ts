// Reads the owner's credential for a provider, from the environment of the control plane or from the credential store.
//
// K1. The environment wins, field by field.
// K2. Nothing is cached: every call reads again, so a changed key counts at the next call.
// K3. Errors name the variable, the field or the file. Never a value.
// K4. If the environment has every needed value, an unreadable store stops nothing: machines must still be ended.

import { SvcError } from "../errors/index.ts";
import { keepsSecrets } from "../schemas/address.ts";
import { CREDENTIAL_FIELDS, type CredentialSource } from "../schemas/credentials.ts";
import type { RemoteName } from "../schemas/provider-names.ts";
import type { ProviderName } from "../schemas/spec.ts";
import {
  absolutePath,
  configuredFor,
  CONTROL,
  findField,
  findLine,
  keyFileText,
  refusing,
  storeOf,
  unusable,
  type FieldPlace,
  type Found,
  type Places,
} from "./read-credential.ts";
import { blockIn, entryOf, isRecord, storePath } from "./store-file.ts";

export interface CredentialReading {
  /** Null while anything is `missing`. */
  credential: { secret: string; settings: Record<string, string> } | null;
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
  if (provider === "local")
    return { credential: { secret: "", settings: {} }, source: null, missing: [], sshKeyPath: null };
  const named = configuredFor(provider, places);
  if (named) return gather(provider, { ...places, env: homeOf(env) }, named.block, named.where);
  const fromEnv = gather(provider, places, {});
  if (fromEnv.missing.length === 0 && !storeIsReadable(places)) return fromEnv;
  const block = refusing(provider, () => blockIn(storeOf(places), provider));
  if (block !== undefined && !isRecord(block))
    throw unusable(provider, `providers.${provider} in ${storePath(places.home)} must be an object`);
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
    if (provider === "local") return { connected: true, source: "none_needed" as const, missing: [] };
    try {
      const { credential, source, missing } = readCredential(provider, { home, env });
      // The vendor's default address needs no check.
      if (provider !== "notebook") baseUrlOf(provider, env, credential, "https://localhost");
      return { connected: missing.length === 0, source: missing.length === 0 ? source : null, missing };
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      // The data of `credential_missing` and `provider_unavailable` name the problem in these fields.
      const { missing, why } = e.data as { missing?: string; why?: string };
      return { connected: false, source: null, missing: [missing ?? why ?? e.message] };
    }
  };
  return {
    local: of("local"),
    podhost: of("podhost"),
    market: of("market"),
    cloudvm: of("cloudvm"),
    notebook: of("notebook"),
  };
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
  const extra = entryOf(block, "extra");
  const place = (name: string): FieldPlace => {
    const variables = [variableOf(provider, name)];
    const at = { owner: provider, path: `providers.${provider}`, block, variables, name, home, env };
    return configuredBy === undefined ? at : { ...at, configuredBy };
  };
  const given = (name: string): Found | null => findField(place(name));
  const oneLine = (name: string): Found | null => findLine(place(name));

  const settings: Record<string, string> = {};
  const where = new Map<string, CredentialSource>();
  for (const name of new Set([...settingsOf(provider), ...ownNames(block), ...ownNames(extra)])) {
    const found = oneLine(name);
    if (!found) continue;
    settings[name] = found.value;
    where.set(name, found.source);
  }
  if (provider === "notebook") dropOtherAddress(settings, where);
  const path = oneLine("ssh_key_path");
  const sshKeyPath = path === null ? null : absolutePath(path, { home, env });
  const { secret, source, missing } = secretOf(provider, { home, env, given, oneLine, settings, where });
  return { credential: missing.length > 0 ? null : { secret, settings }, source, missing, sshKeyPath };
}

/** An address from the environment is not combined with the store's settings for another address. */
function dropOtherAddress(settings: Record<string, string>, where: ReadonlyMap<string, CredentialSource>): void {
  const others =
    where.get("endpoint") === "env"
      ? ["host", "port", "host_key"]
      : where.get("host") === "env"
        ? ["endpoint", "host_key"]
        : [];
  for (const name of others) if (where.get(name) === "store") delete settings[name];
}

interface Gathered extends Places {
  given: (name: string) => Found | null;
  oneLine: (name: string) => Found | null;
  /** The key file may add settings. */
  settings: Record<string, string>;
  where: ReadonlyMap<string, CredentialSource>;
}

function secretOf(
  provider: ProviderName,
  from: Gathered,
): { secret: string; source: CredentialSource | null; missing: string[] } {
  const { settings } = from;
  const toSet = (name: string): string =>
    `${variableOf(provider, name)} in the environment, or providers.${provider}.${name} in credentials.json`;
  if (provider === "notebook") {
    const anchor = ["endpoint", "host", "proxy_command"].find((name) => settings[name] !== undefined);
    const source = (anchor !== undefined && from.where.get(anchor)) || null;
    const port = settings["port"] ?? settings["endpoint"] ?? settings["proxy_command"];
    const cell = "the bootstrap cell prints both: GET /v1/notebook/bootstrap";
    const missing = anchor === undefined ? [`${toSet("host")} (${cell})`] : [];
    // The user may have pasted the host with its surroundings: tcp://host:port.
    if (port === undefined && !/[:\s]/.test(settings["host"] ?? "")) missing.push(toSet("port"));
    return { secret: "", source, missing };
  }
  if (provider === "cloudvm") {
    const key = from.given("service_account_json");
    const missing: string[] = [];
    const secret = key === null ? "" : keyFileText(provider, key, from);
    if (key === null) missing.push(toSet("service_account_json"));
    else if (settings["project"] === undefined) {
      const project = entryOf(JSON.parse(secret), "project_id");
      if (typeof project === "string" && project.trim() !== "" && !CONTROL.test(project))
        settings["project"] = project.trim();
    }
    for (const name of ["project", "zone"]) if (settings[name] === undefined) missing.push(toSet(name));
    return { secret, source: key?.source ?? null, missing };
  }
  const key = from.oneLine("api_key");
  return { secret: key?.value ?? "", source: key?.source ?? null, missing: key ? [] : [toSet("api_key")] };
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
