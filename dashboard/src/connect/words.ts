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

const SSH = "Path of a private key on this computer. Without it svc makes one of its own.";
const KEY_FILE =
  "The path of the JSON key file on this computer, or its text. Make it in the cloud’s console: IAM, Service accounts, Keys, Add key, JSON.";

export const CREDENTIAL_WORDS: Readonly<Record<CredentialName, CredentialWords>> = {
  podhost: {
    about: "Pods with one to many GPUs, also several nodes in one run.",
    first: ["api_key", "ssh_key_path"],
    where: {
      api_key: "In the provider’s console: Settings, API keys. It must be allowed to make and end pods.",
      ssh_key_path: SSH,
    },
  },
  market: {
    about: "A marketplace: the cheapest machine that fits is rented.",
    first: ["api_key", "ssh_key_path"],
    where: {
      api_key: "In the marketplace’s console: Account, API keys.",
      ssh_key_path: `${SSH} Its public half must be registered at the marketplace, under SSH keys.`,
    },
  },
  cloudvm: {
    about: "Virtual machines of a cloud, in your own project. It reports no price: look at the cloud’s bill.",
    first: ["service_account_json", "project", "zone"],
    where: {
      service_account_json: `${KEY_FILE} Its role must let it make and delete instances.`,
      project: "The project’s id, as its console shows it at the top. Taken from the key file when left out.",
      zone: "Where machines are made, for example the zone in which your GPU quota is.",
    },
  },
  notebook: {
    about: "A notebook runtime that you open yourself. svc reaches it through a tunnel and never ends it.",
    first: ["endpoint", "host", "port", "ssh_user"],
    where: {
      endpoint: "The line that the notebook cell printed, pasted whole. It stands for host and port.",
      host: "As the notebook cell printed it.",
      port: "As the notebook cell printed it.",
    },
  },
  tracker: {
    speaks: "the experiment tracker, through wandb",
    about: "What svc.log() is given also goes to the experiment tracker.",
    first: ["api_key", "project", "entity"],
    where: {
      api_key: "On the tracker’s site: your profile, Settings, API keys.",
      project: "Where runs are listed; made when it is not there.",
      entity: "Your user name or team. Your own when left out.",
    },
  },
  hub: {
    speaks: "where models come from, through huggingface_hub",
    about: "Models are pulled with this token, and every run is given it.",
    first: ["token", "cache_dir"],
    where: {
      token: "On the hub’s site: Settings, Access tokens. Reading is enough to pull.",
      cache_dir: "Where models are kept on this computer. A folder of svc’s home when left out.",
    },
  },
  objstore_a: {
    speaks: "object stores with the S3 API",
    about: "A place that checkpoints and logs are copied to (s3://…), by access key.",
    first: ["access_key_id", "secret_access_key", "region"],
    where: {
      access_key_id: "In the cloud’s console: IAM, Users, Security credentials, Create access key.",
      secret_access_key: "Shown once, together with the access key id.",
      region: "The region of the bucket.",
    },
  },
  objstore_b: {
    speaks: "Google Cloud Storage",
    about: "A place that checkpoints and logs are copied to (gs://…), by service account.",
    first: ["service_account_json", "project"],
    where: { service_account_json: `${KEY_FILE} Its role must let it write objects.` },
  },
};
