// The description of a provider, as data. Every list and table of providers is made from it: the credential fields, the
// Connect page, Python's names, the tables of the documentation.
//
// Descriptors import nothing and contain no code that sends requests, so that a command, a page and a schema may read
// them.

/** The `capabilities` in the answer of `GET /v1/providers`. Steps read them before they act. */
export interface Capabilities {
  /** Its machine is this computer. Nothing is sent anywhere. */
  runs_here: boolean;
  /** svc makes and ends the machine. Otherwise its owner does, and svc only connects and disconnects. */
  owns_machine: boolean;
  /** A machine costs money while it exists. */
  bills: boolean;
  reports_price: boolean;
  /** Whether a machine has GPUs: never, where one is ordered, or always. */
  gpus: "none" | "optional" | "required";
  nodes_max: number;
  /** The machine can end itself, with a key that opens nothing else. */
  self_end: boolean;
  list_by_tag: boolean;
  /** It rents machines that it may take back at any time, as `spot` requests. */
  spot: boolean;
}

export type FieldSource = "env" | "registry" | "store";

export interface CredentialField {
  name: string;
  title: string;
  /** Masked in every answer except for its last four characters. */
  secret: boolean;
  /** Environment variables of the control plane that set the field; the first one that is set wins. */
  variables: readonly string[];
  /** `key_file`: the JSON key file of a service account, as its path or its text. Everything else is one line. */
  kind: "line" | "path" | "key_file" | "address";
  /** The Connect page shows it at once; the others are folded. */
  first: boolean;
  /** For a person: where to get it, or its purpose. */
  help: string | null;
  /** For the table of the reference. */
  note: string;
}

/** The fields of one provider or service, with the text of the Connect page. */
export interface CredentialBlock {
  about: string;
  /** A page of the dashboard that helps to get the fields. */
  guide?: { href: string; title: string };
  fields: readonly CredentialField[];
}

/** The sources of a descriptor's credential: the environment, the store or `configure()`, whichever counts. */
export interface CredentialReader {
  /** One line of text; null if it is not set. */
  line(name: string): { value: string; source: FieldSource } | null;
  /** The JSON text of the key file that a field contains or names. Throws `credential_missing` if it cannot be used. */
  keyFile(name: string): { text: string; member(name: string): string | null; source: FieldSource } | null;
  /** Every field that is not secret, by name. A descriptor may add and remove entries. */
  settings: Record<string, string>;
  sourceOf(setting: string): FieldSource | null;
  /** The place to set a missing field, as text. */
  toSet(name: string): string;
}

export interface SecretReading {
  secret: string;
  source: FieldSource | null;
  /** The values that are missing, as text; empty if there are none. */
  missing: string[];
}

export interface ProviderCredentialBlock extends CredentialBlock {
  /**
   * Fields of which any one shows that there is a credential. An error about the credential as a whole names the first
   * that is set.
   */
  anchors: readonly [string, ...string[]];
  /** The field that `secret_ref` of `configure()` fills; null if nothing secret is needed. */
  secretField: string | null;
  read(from: CredentialReader): SecretReading;
}

/** The text about one provider in the tables of the documentation. */
export interface ProviderWords {
  /** The vendor's name in README and the reference. */
  vendor: string;
  needs: string;
  asked: string;
  priceCap: string;
  owns: string;
  selfEnd: string;
  listed: string;
  disk: string;
  absenceProof: string;
  /** The source of the figures in `certainty`, with a date: measured, documented, or a margin. */
  absenceBasis: string;
  /** If this computer never comes back: what ends the machine, in one phrase and in parts. */
  ends: { shortly: string; byItself: string; byProvider: string; leftOver: string };
}

export interface ProviderDescriptor {
  name: string;
  /** The service behind it, for a person. */
  speaks: string;
  /** The default address of its API; null if it has none. */
  address: string | null;
  capabilities: Capabilities;
  /** The means by which its machine ends without svc, for a person. */
  stopsByItself: string;
  /** Models that it commonly offers, by their names in `src/domain/gpus.ts`. */
  gpus: readonly string[];
  /** Default for `idle_timeout_minutes`; 0: no limit. */
  idleTimeoutMinutes: number;
  /** Seconds between the notice of an interruption and its machine's end; null if there is no such notice. */
  interruptionNoticeSeconds: number | null;
  /** Its minimum bill for a machine that existed; 0: it bills by the second from the first. */
  minimumBilledSeconds: number;
  /** Its machines may install the GPU driver after their first boot. */
  installsDriver: boolean;
  /** Machine types have fixed GPUs, and some a fraction of one: their memory is not compared with the usual size. */
  fixedGpus: boolean;
  /** Its default image is known to have neither conda nor mamba. */
  withoutConda: boolean;
  /** Null if no credential is needed. */
  credential: ProviderCredentialBlock | null;
  words: ProviderWords;
}

/** One field of `owner`. Its variable is `<OWNER>_<NAME>` by default. */
export const credentialField = (
  owner: string,
  name: string,
  title: string,
  more: Partial<Omit<CredentialField, "name" | "title">> = {},
): CredentialField => ({
  name,
  title,
  secret: false,
  variables: [`${owner}_${name}`.toUpperCase()],
  kind: "line",
  first: false,
  help: null,
  note: "",
  ...more,
});

const SSH_KEY_HELP = "Path of a private key on this computer. Without one, svc generates its own.";

/** The accepted values of `type` in the JSON of a `key_file` field. */
export const KEY_FILE_TYPES: readonly string[] = [
  "service_account",
  "authorized_user",
  "impersonated_service_account",
  "external_account",
  "compute_metadata",
];
/** In place of a key file: the default credentials of the vendor's tools (ADC). */
export const DEFAULT_CREDENTIALS = "adc";

export const apiKeyField = (owner: string, help: string): CredentialField =>
  credentialField(owner, "api_key", "API key", { secret: true, first: true, help, note: "required" });
export const keyFileField = (owner: string, help: string, note: string): CredentialField =>
  credentialField(owner, "service_account_json", "Service account", {
    secret: true,
    kind: "key_file",
    first: true,
    help: `The path of the JSON key file on this computer, or its content. Create it in the cloud’s console:  IAM, Service accounts, Keys, Add key, JSON. Or adc, for the default credentials of gcloud, a workload identity or this machine. ${help}`,
    note,
  });
export const regionField = (owner: string): CredentialField =>
  credentialField(owner, "region", "Region", { note: "for runs that name no `region`" });
export const sshUserField = (owner: string): CredentialField => credentialField(owner, "ssh_user", "SSH user");
export const sshKeyField = (owner: string, more: { first?: boolean; help?: string } = {}): CredentialField =>
  credentialField(owner, "ssh_key_path", "SSH key", {
    kind: "path",
    first: more.first ?? false,
    help: more.first ? [SSH_KEY_HELP, more.help ?? ""].join(" ").trim() : null,
    note: "else the home's own key is used, which is made when it is first needed",
  });
export const addressField = (owner: string): CredentialField =>
  credentialField(owner, "url", "Base address", {
    kind: "address",
    variables: [`SVC_${owner.toUpperCase()}_URL`],
    note: "another base address: https, or http on this computer",
  });

/** Reads a credential that consists only of an API key. */
export function readApiKey(from: CredentialReader): SecretReading {
  const key = from.line("api_key");
  return { secret: key?.value ?? "", source: key?.source ?? null, missing: key ? [] : [from.toSet("api_key")] };
}
