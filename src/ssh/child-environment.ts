import { SECRET_NAME } from "../domain/secret-names.ts";

/**
 * What programs that bring us to a machine see of our own environment: everything but what is named like a secret. The keys of
 * providers are in the control plane's environment and are no business of ssh, rsync or a proxy.
 */
export function childEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (entry[0] === "SSH_AUTH_SOCK" || !SECRET_NAME.test(entry[0])),
  );
  return { ...Object.fromEntries(entries), LC_ALL: "C" };
}
