// Parses and checks a Google credential: a service account's key file, a user's login, an impersonated account, a workload
// identity, or the account of this machine. tokens.ts exchanges it for tokens.
//
// A1. Every address in a credential must be https, or this computer itself: secrets and tokens are sent there.
// A2. A malformed credential is refused here, with its reason, before any request is made with it.

import { createPrivateKey, type KeyObject } from "node:crypto";
import { z } from "zod";
import { SvcError } from "../../errors/index.ts";
import { keepsSecrets } from "../../schemas/address.ts";
import { plainText } from "./wire.ts";

const PROVIDER = "cloudvm";
const DEFAULT_TOKEN_URI = "https://oauth2.googleapis.com/token";
export const USER_AGENT = "svc";

export interface ServiceAccount {
  kind: "service_account";
  /** The account of the tokens: its address, or a description if the file does not name it. */
  email: string;
  project: string | null;
  tokenUri: string;
  privateKey: KeyObject;
}

/** Every kind that the library reads itself: all but a service account's key. */
export interface OtherCredential {
  kind: "authorized_user" | "impersonated_service_account" | "external_account" | "compute_metadata";
  email: string;
  project: string | null;
  /** The endpoint that refreshes a user's token. */
  tokenUri: string;
  file: Readonly<Record<string, unknown>>;
}

export type GoogleCredential = ServiceAccount | OtherCredential;

const Text = z.string().optional();
const CredentialFile = z.looseObject({
  type: Text,
  client_email: Text,
  private_key: Text,
  project_id: Text,
  quota_project_id: Text,
  token_uri: Text,
  service_account_impersonation_url: Text,
  source_credentials: z.looseObject({ token_uri: Text }).optional(),
});

const HOW =
  "make one in the provider's console under IAM, Service accounts, Keys, Add key, JSON, and give the whole file as service_account_json";

/** The required members of each other kind, and its description if the file does not name the account. */
const OTHERS: Readonly<Record<OtherCredential["kind"], { needs: readonly string[]; who: string }>> = {
  authorized_user: { needs: ["client_id", "client_secret", "refresh_token"], who: "a user's login" },
  impersonated_service_account: {
    needs: ["service_account_impersonation_url", "source_credentials"],
    who: "an impersonated account",
  },
  external_account: {
    needs: ["audience", "subject_token_type", "token_url", "credential_source"],
    who: "a workload identity",
  },
  compute_metadata: { needs: [], who: "the service account of this machine" },
};
const isOther = (type: string | undefined): type is OtherCredential["kind"] =>
  type !== undefined && Object.hasOwn(OTHERS, type);

/**
 * Parses and checks the credential. Throws `credential_missing` if it is malformed, `credential_refused` if it must not
 * be used.
 * @param whose the key's purpose, as text for an error.
 */
export function readKeyFile(secret: string, whose: string = PROVIDER): GoogleCredential {
  const unusable = (why: string): SvcError =>
    new SvcError("credential_missing", { provider: whose, missing: `${why}; ${HOW}` });
  if (secret.trim() === "") throw unusable("service_account_json is not set");
  let parsed: unknown;
  try {
    // Some editors add a byte order mark.
    parsed = JSON.parse(secret.replace(/^\uFEFF/, ""));
  } catch {
    throw unusable("service_account_json is not JSON");
  }
  const read = CredentialFile.safeParse(parsed);
  if (!read.success) throw unusable("service_account_json is not the key file of a service account");
  const file = read.data;
  if (isOther(file.type)) return otherOf(file.type, file, { whose, unusable });
  const { type, client_email, private_key, project_id, token_uri } = file;
  if (type !== undefined && type !== "service_account")
    throw unusable(`service_account_json is of type ${plainText(type, 40)}, not the key file of a service account`);
  const lacking = Object.entries({ client_email, private_key }).flatMap(([name, value]) => (value ? [] : [name]));
  if (!client_email || !private_key) throw unusable(`service_account_json has no ${lacking.join(" and no ")}`);
  if (!/^[^\s@]{1,200}@[^\s@]{1,200}$/.test(client_email))
    throw unusable("client_email of service_account_json is not an address");
  return {
    kind: "service_account",
    email: client_email,
    project: project_id || null,
    tokenUri: safeAddress(token_uri || DEFAULT_TOKEN_URI, "token_uri", whose),
    privateKey: readPrivateKey(private_key, unusable),
  };
}

interface Refusing {
  whose: string;
  unusable: (why: string) => SvcError;
}

function otherOf(
  kind: OtherCredential["kind"],
  file: z.infer<typeof CredentialFile>,
  { whose, unusable }: Refusing,
): OtherCredential {
  const lacking = OTHERS[kind].needs.filter((name) => !file[name]);
  if (lacking.length > 0)
    throw unusable(`service_account_json is of type ${kind} and has no ${lacking.join(" and no ")}`);
  checkAddresses(file, whose);
  const target = /\/serviceAccounts\/([^/\s]{1,200}):generateAccessToken$/.exec(
    file.service_account_impersonation_url ?? "",
  );
  if (kind === "impersonated_service_account" && target === null)
    throw unusable("service_account_impersonation_url of service_account_json names no account");
  return {
    kind,
    email: target?.[1] ?? OTHERS[kind].who,
    project: file.project_id || file.quota_project_id || null,
    tokenUri: file.token_uri || file.source_credentials?.token_uri || DEFAULT_TOKEN_URI,
    file,
  };
}

/** The metadata endpoints of a cloud machine. They use plain http, and receive no secret. */
export const isMetadataHost = (host: string): boolean =>
  ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "metadata.google.internal."].includes(host);

/** Checks every member that is an address, at any depth. */
function checkAddresses(value: unknown, whose: string, at = ""): void {
  if (typeof value === "object" && value !== null)
    for (const [name, member] of Object.entries(value))
      checkAddresses(member, whose, at === "" ? name : `${at}.${name}`);
  if (typeof value !== "string" || !/^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return;
  if (at.startsWith("credential_source.") && URL.canParse(value) && isMetadataHost(new URL(value).hostname)) return;
  safeAddress(value, at, whose);
}

function readPrivateKey(pem: string, unusable: (why: string) => SvcError): KeyObject {
  let key: KeyObject;
  try {
    // A shell or a form may have escaped the line ends twice.
    key = createPrivateKey(pem.includes("\n") ? pem : pem.replaceAll("\\n", "\n"));
  } catch {
    throw unusable("private_key of service_account_json cannot be read, perhaps because it was cut or changed");
  }
  if (key.asymmetricKeyType !== "rsa") throw unusable("private_key of service_account_json is not an RSA key");
  return key;
}

function safeAddress(text: string, name: string, whose: string): string {
  const refuse = (why: string): SvcError =>
    new SvcError("credential_refused", { provider: whose, why: `${name} of service_account_json ${why}` });
  if (!URL.canParse(text)) throw refuse("is not a URL");
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") throw refuse("holds a user or a password");
  if (!keepsSecrets(url)) throw refuse("must begin with https:// (http:// is allowed only for this computer itself)");
  return text;
}
