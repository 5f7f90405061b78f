// Which values of a run's environment are secrets.

/** Names whose literal value is kept from every record; the value itself is also redacted from the log. */
export const SECRET_NAME = /(^|_)(api_?key|key|token|secret|password|passwd|pwd|credential|credentials|auth)(_|$)/i;

/** A reference names a secret without holding it, so it may be shown. */
export const isReference = (value: string): boolean => /^(env|store):\/\//.test(value);
