// Every secret that svc knows, to mask svc's output: credentials of the environment, of the store and of `configure()`, what a local run
// inherits, and the secrets of runs in the lifetime of this process. A secret that is saved later is masked from then on.
//
// K1. Nothing here throws: an unreadable store gives no secrets, and the commands that need it report that.
// K2. Files are read again when one of them changed, wherever it lies, and only then. What a changed file held stays known.
// K3. A secret that another source overrules is a secret as well: the environment, the store and the registry all count.

import { PROVIDER_NAMES } from "../providers/descriptors.ts";
import { existsSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { Redactor } from "../domain/redaction.ts";
import { holdsSecret, inheritedSecrets, secretParts } from "../domain/secret-names.ts";
import { JOB_STATUSES, STEP_NAMES } from "../schemas/names.ts";
import { CREDENTIAL_FIELDS, CREDENTIAL_NAMES, type CredentialName } from "../schemas/credential-blocks.ts";
import { findField, keyFileText, type Places } from "./read-credential.ts";
import { registrySecrets } from "./registry-secrets.ts";
import { blockIn, hearingReads, isRecord, readPlainFile, readStore } from "./store-file.ts";
import { homeLayout } from "../platform/home-layout.ts";

/** Shorter secrets are masked in the log of their run, but not in records: they would match ordinary words there. */
export const SHOWN_SECRET_BYTES_MIN = 8;
/** The record of a run that ended long ago was masked when it was written. */
const REMEMBERED_MAX = 2_000;

/** Words of the API itself: masking them would make its answers unreadable for programs. */
const VOCABULARY = new Set<string>([...JOB_STATUSES, ...STEP_NAMES, ...PROVIDER_NAMES]);

export class KnownSecrets {
  readonly #places: Pick<Places, "home" | "env">;
  readonly #ofRuns = new Set<string>();
  readonly #sources: (() => void)[] = [];
  /** Of the files that were read; empty before the first look. */
  #stamps = new Map<string, string>();
  #credentials: readonly string[] = [];
  #isLooking = false;
  #shown: { of: readonly string[]; runs: number; redactor: Redactor } | null = null;
  #added = 0;

  constructor(places: Pick<Places, "home" | "env">) {
    this.#places = places;
  }

  /** Adds secrets of a run, and others that no file names. Returns whether one of them was unknown. */
  remember(values: Iterable<string>): boolean {
    const before = this.#added;
    for (const value of values) {
      if (Buffer.byteLength(value) < SHOWN_SECRET_BYTES_MIN || this.#ofRuns.has(value)) continue;
      this.#ofRuns.add(value);
      this.#added++;
      const [oldest] = this.#ofRuns.size > REMEMBERED_MAX ? this.#ofRuns : [];
      if (oldest !== undefined) this.#ofRuns.delete(oldest);
    }
    return this.#added > before;
  }

  /** `learn` calls `remember`, now and whenever a file that it read has changed. */
  learnFrom(learn: () => void): void {
    this.#sources.push(learn);
    this.lookAgain();
  }

  /** For a caller that has read a secret from a file that may be new here. */
  lookAgain(): void {
    this.#stamps.clear();
  }

  /** The credentials that are set now. */
  credentials(): readonly string[] {
    // A source may report an unreadable file, and that report is masked, too.
    if (!this.#isLooking && (this.#stamps.size === 0 || this.#hasChanged())) this.#look();
    return this.#credentials;
  }

  #hasChanged = (): boolean => [...this.#stamps].some(([file, stamp]) => stampOf(file) !== stamp);

  #look(): void {
    const stamps = new Map<string, string>();
    // Stamped before it is read: a change meanwhile causes another look.
    const heard = (file: string): void => void (stamps.has(file) || stamps.set(file, stampOf(file)));
    this.#isLooking = true;
    const found = hearingReads(heard, () => {
      for (const learn of this.#sources) orElse(learn, undefined);
      return orElse(() => new Set(credentialSecrets(this.#places).flatMap(secretParts)), null);
    });
    this.#isLooking = false;
    this.#stamps = stamps;
    if (found === null) return;
    const now = [...found].filter((value) => Buffer.byteLength(value) >= SHOWN_SECRET_BYTES_MIN);
    // The same array makes no new redactors: those of hundreds of runs take seconds.
    if (now.length === this.#credentials.length && this.#credentials.every((value) => found.has(value))) return;
    // A script may still hold what was replaced, and its maker may still accept it.
    this.remember(this.#credentials.filter((value) => !found.has(value)));
    this.#credentials = now;
  }

  /** For records, lists, events and messages. */
  redactor(): Redactor {
    const of = this.credentials();
    if (this.#shown?.of !== of || this.#shown.runs !== this.#added)
      this.#shown = { of, runs: this.#added, redactor: new Redactor(this.all()) };
    return this.#shown.redactor;
  }

  all(): string[] {
    return shownAmong([...this.credentials(), ...this.#ofRuns]);
  }
}

/** The secrets that are masked in records. */
export const shownAmong = (values: Iterable<string>): string[] =>
  [...values].filter((value) => Buffer.byteLength(value) >= SHOWN_SECRET_BYTES_MIN && !VOCABULARY.has(value));

function stampOf(file: string): string {
  try {
    const found = statSync(file, { throwIfNoEntry: false, bigint: true });
    return found === undefined ? "none" : `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}`;
  } catch {
    return "none";
  }
}

function credentialSecrets(places: Pick<Places, "home" | "env">): string[] {
  const { home, env } = places;
  const store = orElse(() => readStore(home), {});
  const registry = orElse(() => registrySecrets(places), { values: [], blocks: [] });
  const fields = [
    ...CREDENTIAL_NAMES.flatMap((name) => secretsIn(name, blockIn(store, name), places)),
    ...registry.blocks.flatMap(([name, block]) => secretsIn(name, block, { home, env: {} }, "configure()")),
  ];
  // Secrets of this installation: the token opens its API, the key opens sealed data.
  const own = [homeLayout.token(home), homeLayout.installationKey(home)].map((file) =>
    orElse(() => readPlainFile(file, { bytesMax: 4_096, ownersAlone: true })?.trim() ?? "", ""),
  );
  return [...own, ...fields, ...leavesOf(store), ...registry.values, ...inheritedSecrets(env).filter(isNoPlace)];
}

/** The name of a variable says little: what exists under an absolute path is a file. */
const isNoPlace = (value: string): boolean => !isAbsolute(value) || !existsSync(value);

/** The secret fields of one block, or of the environment; the text of a key file that one names. */
function secretsIn(
  name: CredentialName,
  block: unknown,
  places: Pick<Places, "home" | "env">,
  configuredBy?: string,
): string[] {
  return CREDENTIAL_FIELDS[name]
    .filter((field) => field.secret)
    .flatMap((field) => {
      const at = { owner: name, path: name, name: field.name, variables: field.variables, ...places };
      const by = configuredBy === undefined ? {} : { configuredBy };
      const found = orElse(() => findField({ ...at, ...by, block: isRecord(block) ? block : {} }), null);
      if (found === null) return [];
      if (field.kind !== "key_file" || found.value.startsWith("{")) return [found.value];
      return [orElse(() => keyFileText(name, found, places), "")];
    });
}

const SECRET_FIELDS = new Set(
  CREDENTIAL_NAMES.flatMap((name) => CREDENTIAL_FIELDS[name].flatMap((field) => (field.secret ? [field.name] : []))),
);

/** Values in the store other than the fields in use: `store://` reaches all of them. */
function leavesOf(value: unknown): string[] {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    if (typeof member === "string") return SECRET_FIELDS.has(name) || holdsSecret(name, member) ? [member] : [];
    return SECRET_FIELDS.has(name) && isRecord(member) ? [JSON.stringify(member)] : leavesOf(member);
  });
}

function orElse<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
