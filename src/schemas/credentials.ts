// The one table of credential fields for providers and services. The store, the environment, the API, its OpenAPI
// document and the dashboard's forms are all made from it.

import { z } from "zod";
import type { RemoteName } from "./provider-names.ts";
import { ProviderName } from "./spec.ts";

export interface CredentialField {
  name: string;
  title: string;
  /** Masked in every answer except for its last four characters. */
  secret: boolean;
  /** Environment variables of the control plane that set the field; the first one that is set wins. */
  variables: readonly string[];
  /** `key_file`: the JSON key file of a service account, as its path or its text. Everything else is one line. */
  kind: "line" | "path" | "key_file" | "address";
}

export const SERVICE_NAMES = ["tracker", "hub", "objstore_a", "objstore_b"] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];
export type CredentialName = RemoteName | ServiceName;

const field = (
  name: string,
  title: string,
  more: { secret?: boolean; variables?: readonly string[]; kind?: CredentialField["kind"] } = {},
): Omit<CredentialField, "variables"> & { variables: readonly string[] | null } => ({
  name,
  title,
  secret: more.secret ?? false,
  variables: more.variables ?? null,
  kind: more.kind ?? "line",
});

const fieldsOf = (owner: CredentialName, fields: ReturnType<typeof field>[]): readonly CredentialField[] =>
  fields.map((f) => ({ ...f, variables: f.variables ?? [`${owner}_${f.name}`.toUpperCase()] }));

const KEY = field("api_key", "API key", { secret: true });
const KEY_FILE = field("service_account_json", "Service account", { secret: true, kind: "key_file" });
const SSH_KEY = field("ssh_key_path", "SSH key", { kind: "path" });
const REGION = field("region", "Region");
const SSH_USER = field("ssh_user", "SSH user");
const SSH_PORT = field("ssh_port", "SSH port");
const url = (owner: CredentialName) =>
  field("url", "Base address", { kind: "address", variables: [`SVC_${owner.toUpperCase()}_URL`] });

/** The fields of each block. A new field needs an entry here and nowhere else. */
export const CREDENTIAL_FIELDS: Readonly<Record<CredentialName, readonly CredentialField[]>> = {
  podhost: fieldsOf("podhost", [
    KEY,
    field("api", "Interface"),
    REGION,
    field("network", "Network"),
    SSH_USER,
    SSH_KEY,
    url("podhost"),
  ]),
  market: fieldsOf("market", [KEY, REGION, SSH_USER, SSH_KEY, url("market")]),
  cloudvm: fieldsOf("cloudvm", [
    KEY_FILE,
    field("project", "Project"),
    field("zone", "Zone"),
    REGION,
    field("machine_type", "Machine type"),
    field("provisioning", "Provisioning"),
    field("image", "Image"),
    field("network", "Network"),
    field("subnetwork", "Subnetwork"),
    field("addresses", "Addresses"),
    field("reservation", "Reservation"),
    field("shielded", "Shielded VM"),
    SSH_USER,
    SSH_PORT,
    SSH_KEY,
    url("cloudvm"),
  ]),
  notebook: fieldsOf("notebook", [
    field("host", "Host"),
    field("port", "Port"),
    field("endpoint", "Endpoint"),
    field("host_key", "Host key"),
    SSH_USER,
    field("proxy_command", "Proxy command", { secret: true }),
    SSH_KEY,
  ]),
  tracker: fieldsOf("tracker", [KEY, field("project", "Project"), field("entity", "Entity"), url("tracker")]),
  hub: fieldsOf("hub", [
    field("token", "Token", { secret: true, variables: ["HUB_TOKEN", "HUB_ACCESS_TOKEN"] }),
    field("cache_dir", "Cache directory", { kind: "path", variables: ["HUB_HOME"] }),
    url("hub"),
  ]),
  objstore_a: fieldsOf("objstore_a", [
    field("access_key_id", "Access key id"),
    field("secret_access_key", "Secret access key", { secret: true }),
    field("session_token", "Session token", { secret: true }),
    REGION,
    url("objstore_a"),
  ]),
  objstore_b: fieldsOf("objstore_b", [KEY_FILE, field("project", "Project"), url("objstore_b")]),
};

export const CREDENTIAL_NAMES = Object.keys(CREDENTIAL_FIELDS) as CredentialName[];
export const isService = (name: CredentialName): name is ServiceName =>
  (SERVICE_NAMES as readonly string[]).includes(name);

/** `registry`: set by `configure()`. */
export const CredentialSource = z.enum(["env", "registry", "store"]).meta({ id: "CredentialSource" });
export type CredentialSource = z.infer<typeof CredentialSource>;

export const ShownField = z
  .object({
    value: z
      .string()
      .meta({ description: "Of a secret at most the last 4 characters are shown, of a short one none." }),
    source: CredentialSource,
    read_only: z.boolean().meta({ description: "True if the value comes from the environment or `configure()`." }),
  })
  .meta({ id: "CredentialField" });
export type ShownField = z.infer<typeof ShownField>;

export const ShownCredential = z.record(z.string(), ShownField).meta({
  id: "Credential",
  description: "The fields that are set; unset fields are omitted.",
});
export type ShownCredential = z.infer<typeof ShownCredential>;

export const Credentials = z
  .object({
    providers: z.record(ProviderName, ShownCredential),
    tracker: ShownCredential,
    hub: ShownCredential,
    objstore_a: ShownCredential,
    objstore_b: ShownCredential,
  })
  .meta({ id: "Credentials" });
export type Credentials = z.infer<typeof Credentials>;

export const CredentialCheck = z
  .object({
    account: z.string().nullable().meta({ description: "The account, as reported by the provider." }),
    may: z.array(z.string()).meta({ description: "Its known permissions, as text." }),
    balance_usd: z.number().nullable().meta({ description: "The remaining balance, if the provider reports one." }),
    warnings: z.array(z.string()).meta({ description: "Problems, and checks that could not be made." }),
  })
  .meta({ id: "CredentialCheck", description: "The provider accepts the credential." });
export type CredentialCheck = z.infer<typeof CredentialCheck>;

export const SavedCredential = z
  .object({ name: z.string(), credential: ShownCredential, check: CredentialCheck.nullable() })
  .meta({ id: "SavedCredential" });
export type SavedCredential = z.infer<typeof SavedCredential>;

/** Text or null for each field; null removes the stored value. A key file may also be sent as a JSON object. */
export const CredentialBody = z
  .record(z.string().max(64), z.union([z.string(), z.number(), z.record(z.string(), z.unknown()), z.null()]))
  .meta({
    id: "CredentialBody",
    description: "Fields to set; null removes a field, omitted fields stay unchanged.",
  });
export type CredentialBody = z.infer<typeof CredentialBody>;
