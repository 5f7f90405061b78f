// What each credential is for, which of its fields everybody needs, and where one gets them.

import type { CredentialName } from "../../../src/schemas/credentials.ts";

export interface CredentialWords {
  /** What a service is, beside its name. A provider says itself what it speaks to. */
  speaks?: string;
  about: string;
  /** Fields that are shown at once; the others are folded away. */
  first: readonly string[];
  /** Where to get a field, or what it is good for. */
  where: Readonly<Record<string, string>>;
}

const SSH = "Path of a private key on this computer. Without one, svc generates its own.";
const KEY_FILE =
  "The path of the JSON key file on this computer, or its content. Create it in the cloud’s console:  IAM, Service accounts, Keys, Add key, JSON.";

export const CREDENTIAL_WORDS: Readonly<Record<CredentialName, CredentialWords>> = {
  podhost: {
    about: "Pods with one or more GPUs; one run can use several nodes.",
    first: ["api_key", "ssh_key_path"],
    where: {
      api_key: "In the provider’s console: Settings, API keys. The key needs permission to create and terminate pods.",
      ssh_key_path: SSH,
    },
  },
  market: {
    about: "A marketplace: svc rents the cheapest machine that fits.",
    first: ["api_key", "ssh_key_path"],
    where: {
      api_key: "In the marketplace’s console: Account, API keys.",
      ssh_key_path: `${SSH} Its public half must be registered at the marketplace, under SSH keys.`,
    },
  },
  cloudvm: {
    about: "Virtual machines of a cloud, in your own project. The cloud reports no price; see its bill.",
    first: ["service_account_json", "project", "zone"],
    where: {
      service_account_json: `${KEY_FILE} Its role must allow it to create and delete instances.`,
      project: "The project’s id, shown at the top of the cloud’s console. Default: the project in the key file.",
      zone: "The zone to create machines in, for example the one with your GPU quota.",
    },
  },
  notebook: {
    about: "A notebook runtime that you open yourself. svc reaches it through a tunnel and never ends it.",
    first: ["endpoint", "host", "port", "ssh_user"],
    where: {
      endpoint: "Paste the whole line that the notebook cell printed. It sets host and port.",
      host: "Printed by the notebook cell.",
      port: "Printed by the notebook cell.",
    },
  },
  tracker: {
    speaks: "the experiment tracker, through wandb",
    about: "svc.log() also sends its values to the experiment tracker.",
    first: ["api_key", "project", "entity"],
    where: {
      api_key: "On the tracker’s site: your profile, Settings, API keys.",
      project: "The project that lists the runs; created if missing.",
      entity: "Your user name or team (default: your user).",
    },
  },
  hub: {
    speaks: "the source of models, through huggingface_hub",
    about: "svc downloads models with this token and passes it to every run.",
    first: ["token", "cache_dir"],
    where: {
      token: "On the hub’s site: Settings, Access tokens. Read access is enough.",
      cache_dir: "The folder for models on this computer (default: a folder in svc’s home).",
    },
  },
  objstore_a: {
    speaks: "object stores with the S3 API",
    about: "Receives copies of checkpoints and logs (s3://…); uses an access key.",
    first: ["access_key_id", "secret_access_key", "region"],
    where: {
      access_key_id: "In the cloud’s console: IAM, Users, Security credentials, Create access key.",
      secret_access_key: "Shown once, together with the access key id.",
      region: "The region of the bucket.",
    },
  },
  objstore_b: {
    speaks: "Google Cloud Storage",
    about: "Receives copies of checkpoints and logs (gs://…); uses a service account.",
    first: ["service_account_json", "project"],
    where: { service_account_json: `${KEY_FILE} Its role must allow it to write objects.` },
  },
};
