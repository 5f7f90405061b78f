// Decides which values of a run's environment and arguments are secrets, and which parts of an address.

import { REDACTED } from "./redaction.ts";
import { isKey, keysIn, looksRandom, webhookTokens } from "./secret-values.ts";

/** Names whose literal value never enters a record; the value itself is also redacted from the log. */
export const SECRET_NAME =
  /(^|_)(api_?key|key|token|secret|pass|password|passwd|passphrase|pwd|pat|credential|credentials|auth|cookie|jwt|dsn)(_|$)|(password|passwd|secret|apikey|authtoken)$/i;

/** Such a value is a secret if it says more than a place. */
const CONNECTION_NAME = /(^|_)(connection_?string|conn_?str(ing)?)(_|$)/i;
const SAYS_MORE = /[=@]/;
/** A path or a query behind the host. */
const WEBHOOK_NAME = /webhook(_?ur[il])?$/i;
const HAS_PATH = /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/?#]+(?:\/|\/?\?)[^\s/]/i;

const namesAddress = (name: string, value: string): boolean =>
  (CONNECTION_NAME.test(name) && SAYS_MORE.test(value)) || (WEBHOOK_NAME.test(name) && HAS_PATH.test(value));

/** A reference names a secret without holding it, so it may be shown. */
export const isReference = (value: string): boolean => /^(env|store):\/\//.test(value);

/** Whether a variable of a run contains a secret itself. */
export const holdsSecret = (name: string, value: string): boolean =>
  !isReference(value) && (SECRET_NAME.test(name) || namesAddress(name, value) || isSecret(value));

/** Under any name. */
const isSecret = (value: string): boolean => isKey(value) || hasPassword(value) || tokensIn(value).length > 0;

/**
 * The usual ways to pass a secret as an argument: `--token VALUE`, `--api-key=VALUE`, `TOKEN=VALUE`. Tokens of a
 * vocabulary are not secrets.
 */
const SECRET_ARGUMENT =
  /(^|_)(api_?key|access_?key|secret_?key|private_?key|account_?key|auth|token|secret|pass|password|passwd|passphrase|pwd|pat|credentials?|cookie|jwt|dsn)$/i;
const VOCABULARY_TOKEN =
  /(^|_)(pad|eos|bos|unk|mask|sep|cls|special|image|start|end|stop|eot|eod|num|max|min|per|new|page|next|placeholder|initializer|instance|modifier)_token$/i;
/** Its value is often the name of a column, and of the last of these a digest: it has to look like a key itself. */
const KEY_ARGUMENT = /key$/i;
const KEY_OF_DATA =
  /(^|_)(cache|commit|dataset|dedup|file|foreign|hash|idempotency|index|object|partition|primary|pub|public|record|row|run|sample|shard|sort)_?key$/i;
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
    const words = wordsOf(name);
    if (given !== undefined && isSecretSetting(words, given)) return [given];
    return value === undefined ? markedIn(arg) : [...markedIn(value), ...pairedIn(arg)];
  });
}

/** `hubToken`, `hub-token` and `trainer.hub token` as `hub_token`. */
const wordsOf = (name: string): string => name.replaceAll(/[-. ]/g, "_").replaceAll(/([a-z0-9])(?=[A-Z])/g, "$1_");

function markedIn(text: string): string[] {
  if (isReference(text)) return [];
  const bearer = BEARER.exec(text)?.[1];
  return isKey(text) || hasPassword(text) ? [text] : [...tokensIn(text), ...(bearer === undefined ? [] : [bearer])];
}

function isSecretSetting(words: string, value: string): boolean {
  if (VOCABULARY_TOKEN.test(words) || isReference(value)) return false;
  if (namesAddress(words, value)) return !value.startsWith("-");
  if (!couldBeSecret(value)) return false;
  return SECRET_ARGUMENT.test(words) || (KEY_ARGUMENT.test(words) && !KEY_OF_DATA.test(words) && looksRandom(value));
}

/** `name=value` in the query of an address, or in a list such as `AccountName=me;AccountKey=…`. */
const SETTING = /(?:^(?=[^;&]*[;&])|[?&;#])\s{0,8}([A-Za-z][\w .-]{0,63})=([^\s&;#"'`$][^\s&;#"'`]{7,2000})/g;
/** `"name": "value"` of a JSON object, `name: value` of a mapping, `NAME=value` in a line of a shell. */
const PAIR =
  /(?<![\w.-])(["']?)([A-Za-z][\w.-]{0,63})\1\s{0,8}[:=]\s{0,8}(?:"([^"\\$][^"\\]{7,2000})"|'([^'\\$][^'\\]{7,2000})'|([^\s"'`,;&<>()[\]{}\\$][^\s"'`,;&<>()[\]{}\\]{7,2000}))/g;
const SIGNATURE_NAME = /^(sig|signature|x_(amz|goog)_(signature|security_token))$/i;
const SIGNATURE_CHARS_MIN = 16;

/** Secrets that stand in a value beside other text, also decoded: an address or a list shows what it belongs to. */
export function tokensIn(text: string): string[] {
  const named = [...text.matchAll(SETTING)].flatMap(([, name = "", value = ""]) =>
    isTokenSetting(wordsOf(name.trim()), value) ? decodedToo(value) : [],
  );
  return [...webhookTokens(text), ...keysIn(text), ...named, ...pairedIn(text)];
}

function pairedIn(text: string): string[] {
  return [...text.matchAll(PAIR)].flatMap(([, quote, name = "", ...values]) => {
    const value = values.find((each) => each !== undefined) ?? "";
    const isSecretPair = quote === "" ? isSecretSetting : isTokenSetting;
    return isSecretPair(wordsOf(name), value) ? [value] : [];
  });
}

const isTokenSetting = (words: string, value: string): boolean =>
  isSecretSetting(words, value) ||
  (SIGNATURE_NAME.test(words) && value.length >= SIGNATURE_CHARS_MIN && /\d/.test(value)) ||
  (PASSWORD_NAME.test(words) && !isDefault("", value) && !isReference(value));

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
      if (SECRET_NAME.test(name) || namesAddress(name, value)) return false;
      return !CREDENTIAL_TEXT.test(name) && !PRIVATE_KEY.test(value);
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
 * word are none, so that a log stays readable. Of an address only its password or its token is one.
 */
export const inheritedSecrets = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env).flatMap(([name, given]) => {
    const value = given?.trim() ?? "";
    if (Buffer.byteLength(value) < ARGUMENT_BYTES_MIN || isReference(value)) return [];
    if (namesAddress(name, value)) return secretParts(value);
    const isNamed = SECRET_NAME.test(name) || INHERITED_NAME.test(name);
    if (isNamed && !ABOUT_A_SECRET.test(name) && !VOCABULARY_TOKEN.test(name) && isNoOrdinary(name, value))
      return secretParts(value);
    return isKey(value) ? secretParts(value) : [...passwordsIn(value), ...tokensIn(value)];
  });

const isNoOrdinary = (name: string, value: string): boolean =>
  !isPath(value) && (PASSWORD_NAME.test(name) || (/[A-Za-z]/.test(value) && !WORD.test(value)));

/** Base64 may begin with a slash, too: a path has no long part of mixed characters. */
const isPath = (value: string): boolean =>
  /^(~|\.{0,2})\/[^+=]+$/.test(value) &&
  value.split("/").every((part) => part.length < 16 || ![/[a-z]/, /[A-Z]/, /[0-9]/].every((kind) => kind.test(part)));

/**
 * A secret and those of its parts that are secrets too: the password or the token of an address, the values in a JSON
 * object of keys.
 */
export function secretParts(value: string): string[] {
  return [value, ...passwordsIn(value), ...tokensIn(value), ...membersOf(value)];
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
  return password === undefined || isDefault(user, password) ? [] : decodedToo(password);
}

function decodedToo(value: string): string[] {
  try {
    return [value, decodeURIComponent(value)];
  } catch {
    return [value];
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
