// Reads one field of a block: from the environment, else from the store. Its source is kept for messages.

import { isAbsolute, resolve } from "node:path";
import { SvcError } from "../errors/index.ts";
import { DEFAULT_CREDENTIALS, KEY_FILE_TYPES } from "../providers/descriptor.ts";
import type { CredentialSource } from "../schemas/credentials.ts";
import { defaultGoogleCredentials, OF_THIS_MACHINE } from "./default-google-credentials.ts";
import type { StoredRegistry } from "./registry.ts";
import { storedEntry, isRecord, readPlainFile, readStore, UnusableFile } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { withoutTilde } from "../platform/user-home.ts";

const KEY_FILE_BYTES_MAX = 64 * 1024;

/** The sources of secrets. */
export interface Places {
  home: string;
  /** The environment of the control plane's process. */
  env: NodeJS.ProcessEnv;
  /** Replaces the content of the store: for a check before it is written. */
  store?: Record<string, unknown>;
  /** Replaces the registry of the home, likewise. */
  registry?: StoredRegistry;
}

/** The store's content. Throws `UnusableFile`. */
export const storeOf = (places: Places): Record<string, unknown> => places.store ?? readStore(places.home);

/** A value with its source: a variable's name, or a field of the store. */
export interface FoundCredential {
  value: string;
  source: CredentialSource;
  where: string;
}

// eslint-disable-next-line no-control-regex -- control characters are exactly what is refused
export const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** The error for a credential that cannot be used, with its owner and the reason. */
export const unusable = (owner: string, missing: string): SvcError =>
  new SvcError("credential_missing", { provider: owner, missing });

/** Turns an unusable file into an unusable credential. */
export function refusing<T>(owner: string, read: () => T): T {
  try {
    return read();
  } catch (e) {
    if (e instanceof UnusableFile) throw unusable(owner, e.message);
    throw e;
  }
}

export interface FieldPlace extends Places {
  owner: string;
  /** `providers.podhost`, `hub`. */
  path: string;
  block: Record<string, unknown>;
  /** The first that is set wins. */
  variables: readonly string[];
  name: string;
  /** Set if the block is from the registry. */
  configuredBy?: string;
}

/** Trimmed; null if it is not set. Throws `credential_missing` if the value is not text. */
export function findField(at: FieldPlace): FoundCredential | null {
  for (const variable of at.variables) {
    const text = at.env[variable]?.trim();
    if (text) return { value: text, source: "env", where: variable };
  }
  const source = at.configuredBy === undefined ? "store" : "registry";
  const where =
    at.configuredBy === undefined
      ? `${at.path}.${at.name} in ${homeLayout.credentials(at.home)}`
      : `${at.name} of ${at.configuredBy}`;
  const raw = storedEntry(at.block, at.name) ?? storedEntry(storedEntry(at.block, "extra"), at.name);
  if (raw === undefined || raw === null || raw === "") return null;
  // The content of a key file is itself a JSON object, and may have been pasted as one.
  if (at.name === "service_account_json" && isRecord(raw)) return { value: JSON.stringify(raw), source, where };
  if (typeof raw !== "string" && typeof raw !== "number") throw unusable(at.owner, `${where} must be text`);
  const value = String(raw).trim();
  return value === "" ? null : { value, source, where };
}

/** Like {@link findField}, but refuses line breaks and control characters. */
export function findLine(at: FieldPlace): FoundCredential | null {
  const found = findField(at);
  if (found && CONTROL.test(found.value)) throw unusable(at.owner, `${found.where} must be one line of text`);
  return found;
}

/**
 * `~` is the user's home; a relative path counts from where it was written: the working directory, or the home of svc.
 */
export function absolutePath(found: FoundCredential, { home, env }: Places): string {
  const path = found.value;
  const whole = withoutTilde(path, env);
  return isAbsolute(whole) ? whole : found.source === "env" ? resolve(whole) : resolve(home, whole);
}

/** The JSON text of a key file, given as text, as a path, or as `adc`: the default credentials of the vendor's tools. */
export function keyFileText(owner: string, key: FoundCredential, places: Places): string {
  const { text, what } = readKey(owner, key, places);
  if (text.length > KEY_FILE_BYTES_MAX) throw unusable(owner, `${key.where} is larger than 64 KiB`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unusable(owner, `${what} is not valid JSON: it must be the key file of a service account`);
  }
  if (!isRecord(value)) throw unusable(owner, `${what} holds no JSON object`);
  // The other files of that vendor's tools look much alike, and lack just what would be asked for next.
  const { type } = value;
  if (typeof type === "string" && !KEY_FILE_TYPES.includes(type) && /^[a-z_]{1,40}$/.test(type))
    throw unusable(owner, `${what} is of the type ${type}: it must be the key file of a service account`);
  return text.trim();
}

function readKey(owner: string, key: FoundCredential, places: Places): { text: string; what: string } {
  if (key.value.startsWith("{")) return { text: key.value, what: key.where };
  if (key.value === DEFAULT_CREDENTIALS) {
    const found = refusing(owner, () => defaultGoogleCredentials(places.env));
    if (found?.text === null) throw unusable(owner, `the file ${found.where} does not exist`);
    return { text: found?.text ?? OF_THIS_MACHINE, what: found?.where ?? key.where };
  }
  if (CONTROL.test(key.value)) throw unusable(owner, `${key.where} is neither JSON nor a path`);
  const path = absolutePath(key, places);
  const text = refusing(owner, () => readPlainFile(path, { bytesMax: KEY_FILE_BYTES_MAX, ownersAlone: false }));
  if (text === null) throw unusable(owner, `the file ${path}, which ${key.where} names, does not exist`);
  return { text, what: `${path}, which ${key.where} names,` };
}
