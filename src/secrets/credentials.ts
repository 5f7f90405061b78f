// What the owner gave for a provider, from the environment of the control plane or from the credential store.
//
// K1. The environment wins, field by field.
// K2. Nothing is kept: every reading is anew, so a changed key counts at the next call.
// K3. Errors name the variable, the field or the file. Never a value.
// K4. Where the environment gives all that is needed, a store that cannot be read stops nobody: machines must still be ended.

import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { SvcError } from "../errors/index.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { entryOf, isRecord, readPlainFile, readStore, storePath, UnusableFile } from "./store-file.ts";

export type CredentialSource = "env" | "store";

export interface CredentialReading {
  /** Null while something of `missing` is. */
  credential: { secret: string; settings: Record<string, string> } | null;
  /** Where the key, or what stands for it, comes from. */
  source: CredentialSource | null;
  /** What to set, in words; empty where nothing is missing. */
  missing: string[];
  /** Absolute; null where the home's own key is to be used. */
  sshKeyPath: string | null;
}

export interface CredentialPlaces {
  home: string;
  /** Of the control plane's process. */
  env: NodeJS.ProcessEnv;
}

const KEY_FILE_BYTES_MAX = 64 * 1024;

/** Settings that the environment may give, as `<PROVIDER>_<SETTING>`. The store may give any. */
const SETTINGS: Record<ProviderName, readonly string[]> = {
  local: [],
  podhost: ["api", "region", "network", "ssh_user", "ssh_port"],
  market: ["region", "ssh_user", "ssh_port"],
  cloudvm: [
    "project",
    "zone",
    "region",
    "machine_type",
    "provisioning",
    "image",
    "network",
    "subnetwork",
    "ssh_user",
    "ssh_port",
  ],
  notebook: ["host", "port", "endpoint", "host_key", "ssh_user", "proxy_command"],
};
/** What each provider's block holds beside settings. */
const NOT_SETTINGS = new Set(["api_key", "service_account_json", "ssh_key_path", "secret_ref", "ssh_key_ref", "extra"]);

/** @throws `credential_missing` where what is there cannot be used, naming it. */
export function readCredential(provider: ProviderName, places: CredentialPlaces): CredentialReading {
  const { env } = places;
  if (provider === "local")
    return { credential: { secret: "", settings: {} }, source: null, missing: [], sshKeyPath: null };
  const fromEnv = gather(provider, places, {});
  if (fromEnv.missing.length === 0 && !storeIsReadable(places.home)) return fromEnv;
  const block = refusing(provider, () => entryOf(entryOf(readStore(places.home), "providers"), provider));
  if (block !== undefined && !isRecord(block))
    throw unusable(provider, `providers.${provider} in ${storePath(places.home)} must be an object`);
  return gather(provider, { home: places.home, env }, block ?? {});
}

/** For `GET /v1/providers`: never throws; what cannot be used is said as missing. */
export function providerSources(
  home: string,
  env: NodeJS.ProcessEnv,
): Record<ProviderName, { connected: boolean; source: CredentialSource | "none_needed" | null; missing: string[] }> {
  const of = (provider: ProviderName) => {
    if (provider === "local") return { connected: true, source: "none_needed" as const, missing: [] };
    try {
      const { credential, source, missing } = readCredential(provider, { home, env });
      // The vendor's own address needs no check.
      if (provider !== "notebook") baseUrlOf(provider, env, credential, "https://localhost");
      return { connected: missing.length === 0, source: missing.length === 0 ? source : null, missing };
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      // `credential_missing` and `provider_unavailable` say it in these.
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
 * Base address of the provider's API: `SVC_<PROVIDER>_URL`, else the setting `url`, else `fallback`. Https, or http on
 * loopback; without a slash at its end. Throws `provider_unavailable`, which names the setting.
 */
export function baseUrlOf(
  provider: ProviderName,
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
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url.hostname)))
    throw refuse("must begin with https://; http:// is for this computer only");
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);

const unusable = (provider: ProviderName, missing: string) => new SvcError("credential_missing", { provider, missing });

function refusing<T>(provider: ProviderName, read: () => T): T {
  try {
    return read();
  } catch (e) {
    if (e instanceof UnusableFile) throw unusable(provider, e.message);
    throw e;
  }
}

function storeIsReadable(home: string): boolean {
  try {
    readStore(home);
    return true;
  } catch {
    return false;
  }
}

/** A value with where it was found: a variable's name, or a field of the store. */
interface Given {
  value: string;
  source: CredentialSource;
  where: string;
}

function gather(
  provider: ProviderName,
  { home, env }: CredentialPlaces,
  block: Record<string, unknown>,
): CredentialReading {
  const extra = entryOf(block, "extra");
  const given = (name: string): Given | null => {
    const variable = variableOf(provider, name);
    const text = env[variable]?.trim();
    if (text) return { value: text, source: "env", where: variable };
    const where = `providers.${provider}.${name} in ${storePath(home)}`;
    const raw = entryOf(block, name) ?? entryOf(extra, name);
    if (raw === undefined || raw === null || raw === "") return null;
    // A key file's content is a JSON object itself, and may have been pasted as one.
    if (name === "service_account_json" && isRecord(raw)) return { value: JSON.stringify(raw), source: "store", where };
    if (typeof raw !== "string" && typeof raw !== "number") throw unusable(provider, `${where} must be text`);
    const value = String(raw).trim();
    return value === "" ? null : { value, source: "store", where };
  };
  const oneLine = (name: string): Given | null => {
    const found = given(name);
    if (found && CONTROL.test(found.value)) throw unusable(provider, `${found.where} must be one line of text`);
    return found;
  };

  const settings: Record<string, string> = {};
  const where = new Map<string, CredentialSource>();
  for (const name of new Set([...SETTINGS[provider], ...ownNames(block), ...ownNames(extra)])) {
    const found = oneLine(name);
    if (!found) continue;
    settings[name] = found.value;
    where.set(name, found.source);
  }
  if (provider === "notebook") dropOtherAddress(settings, where);
  const path = oneLine("ssh_key_path");
  const sshKeyPath = path === null ? null : absolute(path, home, env);
  const { secret, source, missing } = secretOf(provider, { home, env, given, oneLine, settings, where });
  return { credential: missing.length > 0 ? null : { secret, settings }, source, missing, sshKeyPath };
}

/** An address that is given in the environment is not mixed with what the store says of another one. */
function dropOtherAddress(settings: Record<string, string>, where: ReadonlyMap<string, CredentialSource>): void {
  const others =
    where.get("endpoint") === "env"
      ? ["host", "port", "host_key"]
      : where.get("host") === "env"
        ? ["endpoint", "host_key"]
        : [];
  for (const name of others) if (where.get(name) === "store") delete settings[name];
}

interface Gathered extends CredentialPlaces {
  given: (name: string) => Given | null;
  oneLine: (name: string) => Given | null;
  /** May gain what the key file tells. */
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
    // A host may have been pasted with all that stood around it: tcp://host:port.
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

/** The text of the service-account JSON, which may be given as it is or as the path of its file. */
function keyFileText(provider: ProviderName, key: Given, places: CredentialPlaces): string {
  const pasted = key.value.startsWith("{");
  const path = pasted ? "" : absolute(key, places.home, places.env);
  if (!pasted && CONTROL.test(key.value)) throw unusable(provider, `${key.where} is neither JSON nor a path`);
  const text = pasted
    ? key.value
    : refusing(provider, () => readPlainFile(path, { bytesMax: KEY_FILE_BYTES_MAX, ownersAlone: false }));
  if (text === null) throw unusable(provider, `there is no file ${path}, which ${key.where} names`);
  if (text.length > KEY_FILE_BYTES_MAX) throw unusable(provider, `${key.where} is larger than 64 KiB`);
  const what = pasted ? key.where : `${path}, which ${key.where} names,`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unusable(provider, `${what} is not valid JSON: it must be the key file of a service account`);
  }
  if (!isRecord(value)) throw unusable(provider, `${what} holds no JSON object`);
  return text.trim();
}

// eslint-disable-next-line no-control-regex -- control characters are exactly what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

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

/** `~` is the user's; what is relative counts from where it was written: the working directory, or the home of svc. */
function absolute(given: Given, home: string, env: NodeJS.ProcessEnv): string {
  const path = given.value;
  const user = env["HOME"] || homedir();
  if (path === "~") return user;
  if (path.startsWith("~/")) return join(user, path.slice(2));
  return isAbsolute(path) ? path : given.source === "env" ? resolve(path) : resolve(home, path);
}
