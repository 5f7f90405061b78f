// The owner's credentials for the tracker, the hub and the object stores. Read again at every call, field by field, the
// environment first; null if nothing is set. K1 to K4 of credentials.ts apply here too: every function throws
// `credential_missing` for an unusable value.

import { CREDENTIAL_FIELDS, type ServiceName } from "../schemas/credential-blocks.ts";
import type { CredentialSource } from "../schemas/credentials.ts";
import { baseUrlOf } from "./credentials.ts";
import { configuredFor } from "./configured-for.ts";
import {
  absolutePath,
  findField,
  findLine,
  keyFileText,
  refusing,
  storeOf,
  unusable,
  type FoundCredential,
  type Places,
} from "./read-credential.ts";
import type { Configured } from "./registry.ts";
import { blockIn, isRecord } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";

const TRACKER_URL = "https://api.wandb.ai";

interface Reading {
  /** The source of the secret, or else of another field; null if nothing is set. */
  source: CredentialSource | null;
}

export interface TrackerCredential extends Reading {
  apiKey: string | null;
  project: string | null;
  entity: string | null;
  /** Without a slash at its end. */
  url: string;
}

export interface HubCredential extends Reading {
  token: string | null;
  /** Absolute folder of this computer. */
  cacheDir: string | null;
  /** As the user wrote it: runs on other machines receive it as `HUB_HOME`. */
  cacheDirAsGiven: string | null;
  url: string;
}

export interface ObjstoreACredential extends Reading {
  /** Null, together with the next: use the default credential chain. */
  accessKeyId: string | null;
  secretAccessKey: string | null;
  sessionToken: string | null;
  region: string | null;
  /** Null: the vendor's own address of the region. */
  url: string | null;
}

export interface ObjstoreBCredential extends Reading {
  /** The key file's text; null: use the default credential chain. */
  serviceAccountJson: string | null;
  project: string | null;
  url: string;
}

export function readTracker(places: Places): TrackerCredential {
  const { line, source } = reader("tracker", places);
  return {
    apiKey: line("api_key")?.value ?? null,
    project: line("project")?.value ?? null,
    entity: line("entity")?.value ?? null,
    url: addressOf("tracker", places, line("url"), TRACKER_URL),
    source: source(),
  };
}

export function readHub(places: Places): HubCredential {
  const { line, source } = reader("hub", places);
  const token = line("token");
  const cache = line("cache_dir");
  return {
    token: token?.value ?? null,
    cacheDir: cache && absolutePath(cache, places),
    cacheDirAsGiven: cache?.value ?? null,
    url: addressOf("hub", places, line("url"), "https://huggingface.co"),
    source: source(),
  };
}

export function readObjstore(name: "objstore_a", places: Places): ObjstoreACredential;
export function readObjstore(name: "objstore_b", places: Places): ObjstoreBCredential;
export function readObjstore(
  name: "objstore_a" | "objstore_b",
  places: Places,
): ObjstoreACredential | ObjstoreBCredential {
  const { field, line, source } = reader(name, places);
  if (name === "objstore_b") {
    const key = field("service_account_json");
    return {
      serviceAccountJson: key && keyFileText(name, key, places),
      project: line("project")?.value ?? null,
      url: addressOf(name, places, line("url"), "https://storage.googleapis.com"),
      source: source(),
    };
  }
  const [id, secret, session] = [line("access_key_id"), line("secret_access_key"), line("session_token")];
  if ((id === null) !== (secret === null)) {
    const lacking = id === null ? "access_key_id" : "secret_access_key";
    throw unusable(name, `${(id ?? secret)?.where} is given without ${lacking}`);
  }
  // Half a pair of the environment must not be completed with half of another pair.
  if (id !== null && id.source !== secret?.source)
    throw unusable(name, `${id.where} and ${secret?.where} are of two different places; give both in one`);
  const url = line("url");
  return {
    accessKeyId: id?.value ?? null,
    secretAccessKey: secret?.value ?? null,
    sessionToken: session !== null && session.source === id?.source ? session.value : null,
    region: line("region")?.value ?? null,
    url: url && addressOf(name, places, url, ""),
    source: source(),
  };
}

/** Variables that a run receives without asking. */
export interface Injected {
  /** Kept from logs and records. */
  secrets: Record<string, string>;
  /** Overridden by the run's own variables. */
  plain: Record<string, string>;
}

/**
 * Hub and tracker variables, under svc's names and those that the real libraries read; empty if nothing is set. A cache
 * directory of this computer makes sense on another machine only if it is an absolute path.
 */
export function injectedVariables(places: Places, where: { inPlace: boolean } = { inPlace: true }): Injected {
  const out: Injected = { secrets: {}, plain: {} };
  const { token, cacheDir, cacheDirAsGiven } = readHub(places);
  if (token !== null) {
    for (const name of ["HUB_TOKEN", "HUB_ACCESS_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
      out.secrets[name] = token;
    if (cacheDir !== null && (where.inPlace || cacheDir === cacheDirAsGiven))
      for (const name of ["HUB_HOME", "HF_HOME"]) out.plain[name] = cacheDir;
  }
  const { apiKey, project, entity, url } = readTracker(places);
  if (apiKey !== null) {
    for (const name of ["TRACKER_API_KEY", "WANDB_API_KEY"]) out.secrets[name] = apiKey;
    if (project !== null) out.plain["WANDB_PROJECT"] = project;
    if (entity !== null) out.plain["WANDB_ENTITY"] = entity;
    if (url !== TRACKER_URL) out.plain["WANDB_BASE_URL"] = url;
  }
  return out;
}

function reader(name: ServiceName, places: Places) {
  let block: Record<string, unknown> | null = null;
  let source: CredentialSource | null = null;
  let registered: { is: Configured | null } | null = null;
  const find = (field: string, how: typeof findField): FoundCredential | null => {
    const variables = CREDENTIAL_FIELDS[name].find((f) => f.name === field)?.variables ?? [];
    const at = { owner: name, path: name, name: field, variables, ...places };
    const named = (registered ??= { is: configuredFor(name, places) }).is;
    if (named && field !== "url") {
      const found = how({ ...at, block: named.block, variables: [], configuredBy: named.where });
      source ??= found?.source ?? null;
      return found;
    }
    // The store is opened only for values that the environment lacks.
    const found = how({ ...at, block: {} }) ?? how({ ...at, block: (block ??= blockOf(name, places, source)) });
    source ??= found?.source ?? null;
    return found;
  };
  return {
    field: (field: string) => find(field, findField),
    line: (field: string) => find(field, findLine),
    source: () => source,
  };
}

function blockOf(name: ServiceName, places: Places, source: CredentialSource | null): Record<string, unknown> {
  try {
    const block = refusing(name, () => blockIn(storeOf(places), name)) ?? {};
    if (isRecord(block)) return block;
    throw unusable(name, `${name} in ${homeLayout.credentials(places.home)} must be an object`);
  } catch (e) {
    if (source === "env") return {}; // the needed values are known without it
    throw e;
  }
}

/** https, or http on this computer. */
function addressOf(name: ServiceName, { env }: Places, url: FoundCredential | null, fallback: string): string {
  return baseUrlOf(name, env, url === null ? null : { settings: { url: url.value } }, fallback);
}
