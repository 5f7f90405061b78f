// Which values of a run's environment are secrets.

/** Names whose literal value is kept from every record; the value itself is also redacted from the log. */
export const SECRET_NAME =
  /(^|_)(api_?key|key|token|secret|pass|password|passwd|passphrase|pwd|pat|credential|credentials|auth|cookie|jwt|dsn)(_|$)|(password|passwd|secret|apikey|authtoken)$/i;

/** What is a secret whatever its name: an address with a password in it, a private key, a key of a maker that marks its own. */
const SECRET_VALUE =
  /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]{0,200}:[^\s/@]{1,500}@|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|^(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}$|^eyJ[A-Za-z0-9_-]{10,}\.eyJ/i;

/** A reference names a secret without holding it, so it may be shown. */
export const isReference = (value: string): boolean => /^(env|store):\/\//.test(value);

/** Whether a variable of a run holds a secret itself. */
export const holdsSecret = (name: string, value: string): boolean =>
  !isReference(value) && (SECRET_NAME.test(name) || SECRET_VALUE.test(value));

/** Variables of credentials whose names do not sound like it: a key file may be given as its text. A test holds it to their table. */
const CREDENTIAL_TEXT = /(^|_)(service_account_json|proxy_command)$/i;
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/;

/**
 * An environment less what is named like a secret or holds a private key, for programs that have no business with it. The socket of an
 * SSH agent is a place, whatever its name sounds like.
 */
export const withoutSecrets = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => {
      const [name, value] = entry;
      if (value === undefined || name === "SSH_AUTH_SOCK") return value !== undefined;
      return !SECRET_NAME.test(name) && !CREDENTIAL_TEXT.test(name) && !PRIVATE_KEY.test(value);
    }),
  );

/** A secret and the parts of it that are secrets by themselves: the password of an address, what a JSON object of keys holds. */
export function secretParts(value: string): string[] {
  return [value, ...passwordsIn(value), ...membersOf(value)];
}

function passwordsIn(value: string): string[] {
  const password = /^[a-z][a-z0-9+.-]*:\/\/[^\s/@:]*:([^\s/@]+)@/i.exec(value)?.[1];
  if (password === undefined) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}

function membersOf(value: string): string[] {
  if (!value.trimStart().startsWith("{")) return [];
  try {
    const members = Object.entries(JSON.parse(value) as Record<string, unknown>);
    return members.flatMap(([name, member]) =>
      typeof member === "string" && holdsSecret(name, member) ? [member] : [],
    );
  } catch {
    return [];
  }
}
