// The one table of credential fields for providers and services. The store, the environment, the API, its OpenAPI
// document and the dashboard's forms are all made from it. Free of zod, so that a page may read it.

import {
  addressField,
  credentialField,
  keyFileField,
  type CredentialBlock,
  type CredentialField,
} from "../providers/descriptor.ts";
import { credentialBlockOf, DESCRIPTORS, REMOTE_NAMES, type RemoteName } from "../providers/descriptors.ts";

interface ServiceBlock extends CredentialBlock {
  /** Its description, for a person. A provider's descriptor has it for providers. */
  speaks: string;
}

const SERVICES = {
  tracker: {
    speaks: "the experiment tracker, through wandb",
    about: "svc.log() also sends its values to the experiment tracker.",
    fields: [
      credentialField("tracker", "api_key", "API key", {
        secret: true,
        first: true,
        help: "On the tracker’s site: your profile, Settings, API keys.",
      }),
      credentialField("tracker", "project", "Project", {
        first: true,
        help: "The project that lists the runs; created if missing.",
      }),
      credentialField("tracker", "entity", "Entity", {
        first: true,
        help: "Your user name or team (default: your user).",
      }),
      addressField("tracker"),
    ],
  },
  hub: {
    speaks: "the source of models, through huggingface_hub",
    about: "svc downloads models with this token and passes it to every run.",
    fields: [
      credentialField("hub", "token", "Token", {
        secret: true,
        variables: ["HUB_TOKEN", "HUB_ACCESS_TOKEN"],
        first: true,
        help: "On the hub’s site: Settings, Access tokens. Read access is enough.",
      }),
      credentialField("hub", "cache_dir", "Cache directory", {
        kind: "path",
        variables: ["HUB_HOME"],
        first: true,
        help: "The folder for models on this computer (default: a folder in svc’s home).",
        note: "folder of the models; given to runs that have the token",
      }),
      addressField("hub"),
    ],
  },
  objstore_a: {
    speaks: "object stores with the S3 API",
    about: "Receives copies of checkpoints and logs (s3://…); uses an access key.",
    fields: [
      credentialField("objstore_a", "access_key_id", "Access key id", {
        first: true,
        help: "In the cloud’s console: IAM, Users, Security credentials, Create access key.",
        note: "with `secret_access_key`, in one place; without them the default credential chain of this computer",
      }),
      credentialField("objstore_a", "secret_access_key", "Secret access key", {
        secret: true,
        first: true,
        help: "Shown once, together with the access key id.",
      }),
      credentialField("objstore_a", "session_token", "Session token", { secret: true }),
      credentialField("objstore_a", "region", "Region", { first: true, help: "The region of the bucket." }),
      addressField("objstore_a"),
    ],
  },
  objstore_b: {
    speaks: "Google Cloud Storage",
    about: "Receives copies of checkpoints and logs (gs://…); uses a service account.",
    fields: [
      keyFileField(
        "objstore_b",
        "Its role must allow it to write objects.",
        "path, text or `adc`; without it the default credentials, where there are any",
      ),
      credentialField("objstore_b", "project", "Project", { first: true }),
      addressField("objstore_b"),
    ],
  },
} as const satisfies Record<string, ServiceBlock>;

export type ServiceName = keyof typeof SERVICES;
export const SERVICE_NAMES = Object.keys(SERVICES) as ServiceName[];
export type CredentialName = RemoteName | ServiceName;
export const CREDENTIAL_NAMES: readonly CredentialName[] = [...REMOTE_NAMES, ...SERVICE_NAMES];
export const isService = (name: CredentialName): name is ServiceName => Object.hasOwn(SERVICES, name);

/** One entry for each credential, by `make`. */
const byName = <T>(make: (name: CredentialName) => T) =>
  Object.fromEntries(CREDENTIAL_NAMES.map((name) => [name, make(name)])) as Record<CredentialName, T>;

export const CREDENTIAL_BLOCKS: Readonly<Record<CredentialName, CredentialBlock & { speaks: string }>> = byName(
  (name) => (isService(name) ? SERVICES[name] : { ...credentialBlockOf(name), speaks: DESCRIPTORS[name].speaks }),
);
/** The fields of each block. A new field needs an entry only in this table. */
export const CREDENTIAL_FIELDS: Readonly<Record<CredentialName, readonly CredentialField[]>> = byName(
  (name) => CREDENTIAL_BLOCKS[name].fields,
);
