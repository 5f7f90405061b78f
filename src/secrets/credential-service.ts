// Shows, sets and removes credentials.
//
// D1. No answer holds a secret; no message quotes one.
// D2. Values from the environment cannot be changed here.
// D3. A credential that the provider refuses when it is checked is not saved.
// D4. A provider's credential is not removed, in whole or in a necessary part, while a machine of that provider may
//     cost money.

import { Redactor } from "../domain/redaction.ts";
import { secretParts } from "../domain/secret-names.ts";
import { SvcError, type FieldError } from "../errors/index.ts";
import { DEFAULT_CREDENTIALS, type CredentialField } from "../providers/descriptor.ts";
import { credentialBlockOf, descriptorOf, isRemote, PROVIDER_NAMES } from "../providers/descriptors.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { CREDENTIAL_FIELDS, CREDENTIAL_NAMES, isService, type CredentialName } from "../schemas/credential-blocks.ts";
import type {
  CredentialBody,
  CredentialCheck,
  Credentials,
  SavedCredential,
  ShownCredential,
} from "../schemas/credentials.ts";
import type { RegistryBody, RegistryInUse } from "../schemas/registry.ts";
import { readCredential } from "./credentials.ts";
import { putRegistry, type PutOptions } from "./put-registry.ts";
import { CONTROL, storeOf, type Places } from "./read-credential.ts";
import { foundIn, shown } from "./masked.ts";
import { blockIn, changeStore, isRecord, UnusableFile, withBlock, type Exclusively } from "./store-file.ts";

const LINE_LENGTH_MAX = 4_096;
const KEY_FILE_LENGTH_MAX = 64 * 1024;

export interface DeskOptions extends Places {
  exclusively: Exclusively;
  /** Machines of a provider that may cost money. */
  machinesOf: (name: CredentialName) => number;
  /** A registry was stored. */
  stored?: () => void;
  /** Reports problems for the log. */
  warn: (line: string) => void;
  /** Checks without network access. Throws what is wrong with a credential before it is saved, naming the field. */
  judge: (name: CredentialName, places: Places) => Promise<void>;
  /**
   * Checks with the provider or service. Throws `credential_refused`, `credential_missing`, `provider_unreachable` and
   * related errors.
   */
  ask: (name: CredentialName, places: Places) => Promise<CredentialCheck>;
}

/** A short word is not the key of any service, and masking it would make svc's own sentences unreadable. */
const isWord = (secret: string): boolean => /^[a-z]{1,7}$/i.test(secret);

export class CredentialService {
  readonly #o: DeskOptions;

  constructor(options: DeskOptions) {
    this.#o = options;
  }

  /** @throws `credentials_unusable` */
  list(): Credentials {
    const store = this.#store();
    const of = (name: CredentialName): ShownCredential => shown(name, blockIn(store, name), this.#o);
    return {
      providers: Object.fromEntries(PROVIDER_NAMES.map((name) => [name, isRemote(name) ? of(name) : {}])) as Record<
        ProviderName,
        ShownCredential
      >,
      tracker: of("tracker"),
      hub: of("hub"),
      objstore_a: of("objstore_a"),
      objstore_b: of("objstore_b"),
    };
  }

  /**
   * Sets the given fields and leaves the others unchanged; null removes a field. With `check` the provider or service
   * verifies it first.
   * @throws `invalid_request`, `credential_read_only`, `credential_in_use`, `credentials_unusable`, and the errors of
   * the check
   */
  async save(given: string, body: CredentialBody, options: { check: boolean }): Promise<SavedCredential> {
    const name = known(given);
    const values = fieldsOf(name, body);
    const change = (store: Record<string, unknown>) => withBlock(store, name, merged(blockIn(store, name), values));
    const before = this.#store();
    this.#refuseWhatIsFixed(name, [...values.keys()]);
    const places: Places = { home: this.#o.home, env: this.#o.env, store: change(structuredClone(before)) };
    await this.#unquoted(name, places, () => this.#o.judge(name, places));
    if (!isService(name) && secretOf(name, this.#o) !== null && secretOf(name, places) === null) {
      const machines = this.#o.machinesOf(name);
      if (machines > 0) throw new SvcError("credential_in_use", { name, machines });
    }
    const check = options.check ? await this.#ask(name, places) : null;
    this.#change(change);
    return { name, credential: this.#shown(name), check };
  }

  /** @throws `credential_read_only`, `credential_in_use`, `credentials_unusable` */
  remove(given: string): SavedCredential {
    const name = known(given);
    const secrets = CREDENTIAL_FIELDS[name].flatMap((field) => (field.secret ? [field.name] : []));
    this.#refuseWhatIsFixed(name, [...secrets, ...(isService(name) ? [] : credentialBlockOf(name).anchors)]);
    const machines = blockIn(this.#store(), name) === undefined ? 0 : this.#o.machinesOf(name);
    if (machines > 0) throw new SvcError("credential_in_use", { name, machines });
    this.#change((store) => withBlock(store, name, null));
    return { name, credential: this.#shown(name), check: null };
  }

  /**
   * Replaces the registry of an earlier `configure()`. @throws `invalid_request`, `secret_not_found`,
   * `credential_in_use`
   */
  configure(body: RegistryBody): RegistryInUse {
    const { exclusively, machinesOf, warn, stored } = this.#o;
    const inUse = readable(() => putRegistry(body, this.#o, { exclusively, machinesOf, secretOf }));
    stored?.();
    for (const warning of inUse.warnings) warn(warning);
    return inUse;
  }

  /** Verifies the stored credential with the provider or service. */
  check(given: string): Promise<CredentialCheck> {
    return this.#ask(known(given), this.#o);
  }

  #ask(name: CredentialName, places: Places): Promise<CredentialCheck> {
    return this.#unquoted(name, places, () => this.#o.ask(name, places));
  }

  /** A server may repeat the key it received: no answer and no error may pass that on (D1). */
  async #unquoted<T>(name: CredentialName, places: Places, work: () => Promise<T>): Promise<T> {
    const block = blockIn(
      readable(() => storeOf(places)),
      name,
    );
    const secrets = CREDENTIAL_FIELDS[name].flatMap((field) =>
      field.secret ? secretParts(foundIn(name, field, block, places)?.value ?? "") : [],
    );
    const redactor = new Redactor(secrets.filter((secret) => !isWord(secret)));
    try {
      return redactor.redactValue(await work());
    } catch (e) {
      if (!(e instanceof SvcError) || redactor.empty) throw e;
      const errors = e.errors && redactor.redactValue(e.errors);
      throw new SvcError(e.code, redactor.redactValue(e.data), { cause: e.cause, ...(errors ? { errors } : {}) });
    }
  }

  #shown(name: CredentialName): ShownCredential {
    return shown(name, blockIn(this.#store(), name), this.#o);
  }

  #refuseWhatIsFixed(name: CredentialName, fields: string[]): void {
    for (const field of CREDENTIAL_FIELDS[name]) {
      if (!fields.includes(field.name)) continue;
      const found = foundIn(name, field, {}, this.#o);
      if (found !== null) throw new SvcError("credential_read_only", { name, field: field.name, from: found.where });
    }
  }

  #store(): Record<string, unknown> {
    return readable(() => storeOf(this.#o));
  }

  #change(change: (store: Record<string, unknown>) => Record<string, unknown>): void {
    readable(() => changeStore(this.#o.home, this.#o.exclusively, change));
  }
}

const secretOf: PutOptions["secretOf"] = (name, places) => {
  try {
    return readCredential(name, places).credential?.secret ?? null;
  } catch {
    return null;
  }
};

function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (e) {
    if (e instanceof UnusableFile) throw new SvcError("credentials_unusable", { why: e.message }, { cause: e });
    throw e;
  }
}

const refused = (errors: FieldError[]): SvcError =>
  new SvcError(
    "invalid_request",
    { summary: `The credential is not valid: ${errors.map((e) => `${e.field} ${e.message}`).join("; ")}.` },
    { errors },
  );

function known(name: string): CredentialName {
  const found = CREDENTIAL_NAMES.find((one) => one === name);
  if (found) return found;
  const message = descriptorOf(name) ? `${name} needs no credential` : `must be one of ${CREDENTIAL_NAMES.join(", ")}`;
  throw refused([{ field: "name", message }]);
}

/** The fields in their stored form, trimmed. */
function fieldsOf(name: CredentialName, body: CredentialBody): Map<string, string | null> {
  const errors: FieldError[] = [];
  const values = new Map<string, string | null>();
  for (const [key, raw] of Object.entries(body)) {
    const field = CREDENTIAL_FIELDS[name].find((f) => f.name === key);
    const value = typeof raw === "number" ? String(raw) : typeof raw === "string" ? raw.trim() : raw;
    const text = isRecord(value) && field?.kind === "key_file" ? JSON.stringify(value) : value;
    const wrong = field === undefined ? "is not a known field" : text === null ? null : faultOf(field, text);
    if (wrong !== null) errors.push({ field: key.slice(0, 64), message: wrong });
    else values.set(key, typeof text === "string" ? text : null);
  }
  if (errors.length > 0) throw refused(errors);
  if (values.size === 0) throw refused([{ field: "body", message: "names no field" }]);
  return values;
}

function faultOf(field: CredentialField, value: unknown): string | null {
  if (typeof value !== "string") return "must be text";
  if (value === "") return "must not be empty (to take it away, send null in its place, or remove the credential)";
  const pasted = field.kind === "key_file" && value.startsWith("{");
  const max = pasted ? KEY_FILE_LENGTH_MAX : LINE_LENGTH_MAX;
  if (value.length > max) return `must be at most ${max} characters long`;
  if (!value.isWellFormed()) return "must be well-formed Unicode";
  if (pasted) return null;
  if (CONTROL.test(value)) return "must be one line, without control characters";
  if (field.kind === "key_file" && value === DEFAULT_CREDENTIALS) return null;
  if ((field.kind === "path" || field.kind === "key_file") && !/^(\/|~\/|[A-Za-z]:[\\/])/.test(value))
    return "must be a whole path, or begin with ~/";
  // Keys travel in headers; an invisible character from an editor or a web page would make it another key.
  if (field.secret && field.kind === "line" && field.name !== "proxy_command" && !/^[\x21-\x7e]+$/.test(value))
    return "holds blanks or characters that no key has; copy it again";
  return null;
}

function merged(block: unknown, values: ReadonlyMap<string, string | null>): Record<string, unknown> | null {
  const left = (of: unknown): [string, unknown][] =>
    Object.entries(isRecord(of) ? of : {}).filter(([key]) => !values.has(key));
  const entries = left(block).map(([key, value]): [string, unknown] =>
    key === "extra" ? [key, Object.fromEntries(left(value))] : [key, value],
  );
  for (const [key, value] of values) if (value !== null) entries.push([key, value]);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}
