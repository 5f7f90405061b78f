// The address and credentials of a sink: the sink's own fields first, then the owner's stored ones, then the default
// chain of the protocol. Read again for every try, so that a fix by the owner counts at once.

import { jsonOf } from "../domain/parsed-lines.ts";
import { SvcError } from "../errors/index.ts";
import { keepsSecrets } from "../schemas/address.ts";
import { credentialsOf, sinkPlaceOf, type Sink, type SinkKind } from "../schemas/sink.ts";
import { defaultGoogleCredentials, type DefaultCredentials } from "../secrets/default-google-credentials.ts";
import { keyFileText } from "../secrets/read-credential.ts";
import { resolveSecret } from "../secrets/resolve.ts";
import type { Given } from "../secrets/sealed.ts";
import { readObjstore } from "../secrets/services.ts";
import { UnusableFile } from "../secrets/store-file.ts";

/** Everything that opens one sink. */
export interface SinkAccess {
  kind: SinkKind;
  /** For messages: as in the spec. */
  url: string;
  bucket: string;
  prefix: string;
  /** Null: the vendor's default address. */
  endpoint: string | null;
  region: string | null;
  profile: string | null;
  /** objstore_a; null: the library's default chain. */
  keys: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | null;
  /** objstore_b: text of a key file, or of a user's default credentials. */
  keyFile: string | null;
  /** Must not appear in any message. */
  secrets: string[];
}

export interface AccessPlaces {
  home: string;
  env: NodeJS.ProcessEnv;
  /** The values of the sink's `env://` references when the run was submitted. */
  sealed: readonly Given[];
}

/** Throws `sink_credentials` if a named value is missing. */
export function accessOf(sink: Sink, places: AccessPlaces): SinkAccess {
  const place = sinkPlaceOf(sink.kind, sink.url);
  if (typeof place === "string") throw new SvcError("sink_refused", { sink: sink.url, why: `its url ${place}` });
  try {
    const found = sink.kind === "objstore_a" ? ofA(sink, places) : ofB(sink, places);
    return { kind: sink.kind, url: sink.url, ...place, ...found };
  } catch (e) {
    if (!(e instanceof SvcError) || (e.code !== "credential_missing" && e.code !== "secret_not_found")) throw e;
    const missing = (e as SvcError<"credential_missing">).data.missing ?? e.message.replace(/\.$/, "");
    throw new SvcError("sink_credentials", { sink: sink.url, missing }, { cause: e });
  }
}

type Found = Omit<SinkAccess, "kind" | "url" | "bucket" | "prefix">;

function ofA(sink: Sink, places: AccessPlaces): Found {
  const { env } = places;
  const given = credentialsOf(sink);
  const own = given.secret_access_key !== undefined;
  const stored = storedOfA(places, own || given.profile !== undefined);
  const accessKeyId = own ? (valueOf(given.access_key_id, places) ?? stored.keyId()) : stored.accessKeyId;
  const secretAccessKey = own ? valueOf(given.secret_access_key, places) : stored.secretAccessKey;
  const sessionToken = own ? valueOf(given.session_token, places) : stored.sessionToken;
  return {
    endpoint:
      given.endpoint ??
      stored.url ??
      safeEndpoint(env["AWS_ENDPOINT_URL_S3"]?.trim() || env["AWS_ENDPOINT_URL"]?.trim()),
    region:
      valueOf(given.region, places) ??
      stored.region ??
      ((env["AWS_REGION"] || env["AWS_DEFAULT_REGION"])?.trim() || null),
    profile: valueOf(given.profile, places),
    keys:
      accessKeyId === null || secretAccessKey === null
        ? null
        : { accessKeyId, secretAccessKey, ...(sessionToken === null ? {} : { sessionToken }) },
    keyFile: null,
    secrets: [secretAccessKey, sessionToken].filter((s) => s !== null),
  };
}

/**
 * The owner's stored settings; for a sink with its own keys only the settings that are not keys, even if the stored
 * keys are broken.
 */
function storedOfA({ home, env }: AccessPlaces, ownKeys: boolean) {
  const none = { OBJSTORE_A_ACCESS_KEY_ID: "none", OBJSTORE_A_SECRET_ACCESS_KEY: "none" };
  const { url, region, ...keys } = readObjstore("objstore_a", { home, env: ownKeys ? { ...env, ...none } : env });
  /** For a sink that names only the secret. */
  const keyId = (): string =>
    env["OBJSTORE_A_ACCESS_KEY_ID"]?.trim() || resolveSecret("store://objstore_a/access_key_id", home, env);
  const { accessKeyId, secretAccessKey, sessionToken } = ownKeys
    ? { accessKeyId: null, secretAccessKey: null, sessionToken: null }
    : keys;
  return { url, region, accessKeyId, secretAccessKey, sessionToken, keyId };
}

function ofB(sink: Sink, places: AccessPlaces): Found {
  const given = credentialsOf(sink);
  const stored = readObjstore("objstore_b", places);
  const own = valueOf(given.service_account_json, places);
  const where = given.service_account_json ?? "";
  const source = where.startsWith("env://") ? "env" : "store";
  const keyFile =
    own === null
      ? (stored.serviceAccountJson ?? defaultKeyFile(sink, places.env))
      : keyFileText("objstore_b", { value: own.trim(), source, where }, places);
  const secrets = secretsIn(keyFile);
  return { endpoint: given.endpoint ?? stored.url, region: null, profile: null, keys: null, keyFile, secrets };
}

const SECRET_MEMBERS: ReadonlySet<string> = new Set(["private_key", "refresh_token", "client_secret"]);

/** The parts of a key file that are secret: its other lines could occur in any log. */
const secretsIn = (keyFile: string): string[] => secretMembers(jsonOf(keyFile));

/** Also those of the credentials within an impersonated account's. */
function secretMembers(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    typeof member === "string" ? (SECRET_MEMBERS.has(name) ? [member] : []) : secretMembers(member),
  );
}

/**
 * The default credentials of the protocol's own tools: the file that a variable names, else the file that they write.
 */
function defaultKeyFile({ url }: Sink, env: NodeJS.ProcessEnv): string {
  const missing = (why: string, cause?: unknown) =>
    new SvcError("sink_credentials", { sink: url, missing: why }, { cause });
  let found: DefaultCredentials | null;
  try {
    found = defaultGoogleCredentials(env);
  } catch (e) {
    if (e instanceof UnusableFile) throw missing(e.message, e);
    throw e;
  }
  if (found !== null && found.text !== null) return found.text;
  throw missing(
    found !== null
      ? `the file ${found.where} does not exist`
      : "objstore_b has no service_account_json, and the default chain finds neither GOOGLE_APPLICATION_CREDENTIALS nor the file that `gcloud auth application-default login` writes",
  );
}

/** A reference's current value, else its value at submission; other text unchanged. */
function valueOf(text: string | undefined, { home, env, sealed }: AccessPlaces): string | null {
  if (text === undefined) return null;
  if (!/^(env|store):\/\//.test(text)) return text;
  try {
    return resolveSecret(text, home, env);
  } catch (e) {
    const before = sealed.findLast(([asked]) => asked === text);
    if (before) return before[1];
    throw e;
  }
}

/** Values that must outlive this process: those of the sinks' `env://` references. Throws `secret_not_found`. */
export function givenByEnvironment(sinks: readonly Sink[], places: Omit<AccessPlaces, "sealed">): Given[] {
  const references = sinks
    .flatMap((sink) => Object.values(credentialsOf(sink)))
    .filter((value) => value !== undefined)
    .filter((value) => value.startsWith("env://"));
  return [...new Set(references)].map((text): Given => [text, resolveSecret(text, places.home, places.env)]);
}

function safeEndpoint(text: string | undefined): string | null {
  if (text === undefined || text === "") return null;
  if (URL.canParse(text) && keepsSecrets(new URL(text))) return text;
  throw new SvcError("credential_missing", {
    provider: "objstore_a",
    missing: "AWS_ENDPOINT_URL must begin with https:// (only this computer itself may be reached without)",
  });
}
