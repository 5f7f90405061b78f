// Decides which values of a run's environment and arguments are secrets, and which parts of an address.

import { REDACTED } from "./redaction.ts";

/** Names whose literal value never enters a record; the value itself is also redacted from the log. */
export const SECRET_NAME =
  /(^|_)(api_?key|key|token|secret|pass|password|passwd|passphrase|pwd|pat|credential|credentials|auth|cookie|jwt|dsn)(_|$)|(password|passwd|secret|apikey|authtoken)$/i;

/**
 * Values that are secrets under any name: an address with a password in it, a private key, a key with its maker's
 * prefix.
 */
const SECRET_VALUE =
  /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]{0,200}:[^\s/@]{1,500}@|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|^(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}$|^eyJ[A-Za-z0-9_-]{10,}\.eyJ/i;

/** A reference names a secret without holding it, so it may be shown. */
export const isReference = (value: string): boolean => /^(env|store):\/\//.test(value);

/** Whether a variable of a run contains a secret itself. */
export const holdsSecret = (name: string, value: string): boolean =>
  !isReference(value) && (SECRET_NAME.test(name) || SECRET_VALUE.test(value));

/**
 * The usual ways to pass a secret as an argument: `--token VALUE`, `--api-key=VALUE`, `TOKEN=VALUE`. Tokens of a
 * vocabulary are not secrets.
 */
const SECRET_ARGUMENT =
  /(^|_)(api_?key|access_?key|secret_?key|private_?key|account_?key|auth|token|secret|pass|password|passwd|passphrase|pwd|pat|credentials?|cookie|jwt|dsn)$/i;
const VOCABULARY_TOKEN =
  /(^|_)(pad|eos|bos|unk|mask|sep|cls|special|image|start|end|stop|eot|num|max|min|per|new)_token$/i;
const ARGUMENT_BYTES_MIN = 8;
/** The header of a request, as tools such as curl accept it. */
const BEARER = /\b(?:Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{12,2000})$/i;

/**
 * Secrets in the arguments of a run: a name for a secret followed by a value that could be one, or a key with its
 * maker's prefix.
 */
export function secretArguments(args: readonly string[]): string[] {
  return args.flatMap((arg, i) => {
    const [, dashes = "", name = "", value] = /^(-{0,2})([A-Za-z][\w.-]{0,127})(?:=([^]*))?$/.exec(arg) ?? [];
    const given = value ?? (dashes === "" ? undefined : args[i + 1]);
    const words = name.replaceAll(/[-.]/g, "_");
    const bearer = BEARER.exec(arg)?.[1];
    const marked = holdsSecret("", value ?? arg) ? [value ?? arg] : bearer === undefined ? [] : [bearer];
    if (given === undefined || !SECRET_ARGUMENT.test(words) || VOCABULARY_TOKEN.test(words)) return marked;
    return couldBeSecret(given) ? [given] : marked;
  });
}

/** Excludes options, paths, numbers, references and words of a dictionary. */
export const couldBeSecret = (value: string): boolean =>
  Buffer.byteLength(value) >= ARGUMENT_BYTES_MIN &&
  !isReference(value) &&
  !/^(-|\.{0,2}\/|~|<)|\s/.test(value) &&
  /[A-Za-z]/.test(value) &&
  /[^A-Za-z_.-]/.test(value);

/** Variables of credentials whose names do not reveal that: a key file may be given as its text. A test holds it to their table. */
const CREDENTIAL_TEXT = /(^|_)(service_account_json|proxy_command)$/i;
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/;

/**
 * An environment without variables that are named like a secret or hold a private key, for programs that do not need
 * them. The socket of an SSH agent is a path, so it stays whatever its name is.
 */
export const withoutSecrets = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => {
      const [name, value] = entry;
      if (value === undefined || name === "SSH_AUTH_SOCK") return value !== undefined;
      return !SECRET_NAME.test(name) && !CREDENTIAL_TEXT.test(name) && !PRIVATE_KEY.test(value);
    }),
  );

/** Names that people give to secrets without the separators of {@link SECRET_NAME}. */
const INHERITED_NAME = /(key|token|secret|password|passwd|passphrase|credentials?|auth|authorization)$/i;
/** Such a variable describes a secret, says where it is, or is the shell's working directory. */
const ABOUT_A_SECRET =
  /^(OLD)?PWD$|(^|_)(file|path|dir|folder|sock|socket|ur[il]|endpoint|host|port|type|mode|method|scheme|provider|backend|name|user|alg|algorithm|expir\w*|ttl|timeout|length|size|count|enabled?|disabled?)$/i;
/** Anything under these names is a secret, a word of a dictionary as well. */
const PASSWORD_NAME = /((^|_)(pass|pwd)|password|passwd|passphrase)$/i;
const WORD = /^[A-Za-z_.-]{1,19}$/;

/**
 * The secrets of the environment that a local run inherits, by their names and their shape. A short value, a path, a number and a
 * word are none, so that a log stays readable. Of an address only its password is one.
 */
export const inheritedSecrets = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env).flatMap(([name, given]) => {
    const value = given?.trim() ?? "";
    if (Buffer.byteLength(value) < ARGUMENT_BYTES_MIN || isReference(value)) return [];
    const isNamed = SECRET_NAME.test(name) || INHERITED_NAME.test(name);
    if (isNamed && !ABOUT_A_SECRET.test(name) && !VOCABULARY_TOKEN.test(name) && isNoOrdinary(name, value))
      return secretParts(value);
    if (!SECRET_VALUE.test(value)) return [];
    return hasPassword(value) ? passwordsIn(value) : secretParts(value);
  });

const isNoOrdinary = (name: string, value: string): boolean =>
  !isPath(value) && (PASSWORD_NAME.test(name) || (/[A-Za-z]/.test(value) && !WORD.test(value)));

/** Base64 may begin with a slash, too: a path has no long part of mixed characters. */
const isPath = (value: string): boolean =>
  /^(~|\.{0,2})\/[^+=]+$/.test(value) &&
  value.split("/").every((part) => part.length < 16 || ![/[a-z]/, /[A-Z]/, /[0-9]/].every((kind) => kind.test(part)));

/**
 * A secret and those of its parts that are secrets too: the password of an address, the values in a JSON object of
 * keys.
 */
export function secretParts(value: string): string[] {
  return [value, ...passwordsIn(value), ...membersOf(value)];
}

/** An address with a password, or with a token in place of a user's name, anywhere in a text. */
const ADDRESS =
  /\b([a-z][a-z0-9+.-]{0,30}:\/\/)(?:([^\s/@:"'`]{0,200}:)([^\s/@"'`]{1,500})|([^\s/@:"'`]{16,500}))(?=@)/gi;

/** Also decoded. `${NAME}`, which the installer replaces, is not a secret itself. */
export const addressPasswords = (text: string): string[] =>
  [...text.matchAll(ADDRESS)].flatMap(([, scheme = "", user, password, token]) => {
    const secret = password ?? token ?? "";
    return secret.startsWith("$") ? [] : passwordsIn(`${scheme}${user ?? ":"}${secret}@`);
  });

/** Passwords that documentation and images of databases name. Masked, such a word would be missing in paths and names. */
const DEFAULT_PASSWORDS = new Set(
  `admin airflow changeme ci default dev docker example guest local mariadb minio minioadmin mlflow mongo mongodb
   mysql neo4j optuna pass passwd password postgres postgresql prefect rabbitmq redis root sa secret test testing
   tests user`.split(/\s+/),
);

/** Also if it repeats the name of its user, as in `optuna:optuna`, and a number that counts up from 1. */
const isDefault = (user: string, password: string): boolean =>
  DEFAULT_PASSWORDS.has(password.toLowerCase()) ||
  (WORD.test(password) && password.toLowerCase() === user.toLowerCase()) ||
  "1234567890".startsWith(password);

/** A text to show, with the passwords of its addresses masked, whether svc knows them or not. */
export const withoutPasswords = (text: string): string =>
  text.replaceAll(ADDRESS, (all: string, scheme: string, user?: string, password?: string, token?: string) =>
    (password ?? token)?.startsWith("$") ? all : `${scheme}${user ?? ""}${REDACTED}`,
  );

const FIRST_ADDRESS = /^[a-z][a-z0-9+.-]*:\/\/([^\s/@:]*):([^\s/@]+)@/i;
const hasPassword = (value: string): boolean => FIRST_ADDRESS.test(value);

function passwordsIn(value: string): string[] {
  const [, user = "", password] = FIRST_ADDRESS.exec(value) ?? [];
  if (password === undefined || isDefault(user, password)) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}

function membersOf(value: string): string[] {
  if (!value.trimStart().startsWith("{")) return [];
  try {
    return secretMembers(JSON.parse(value));
  } catch {
    return [];
  }
}

/** However deep: the file of an impersonated account holds the credentials of another. */
function secretMembers(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    typeof member === "string" ? (holdsSecret(name, member) ? [member] : []) : secretMembers(member),
  );
}
