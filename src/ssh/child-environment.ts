import { withoutSecrets } from "../domain/secret-names.ts";

/**
 * What programs that bring us to a machine see of our own environment: everything but what is named like a secret. The keys of
 * providers are in the control plane's environment and are no business of ssh, rsync or a proxy.
 */
export const childEnvironment = (): Record<string, string> => ({ ...withoutSecrets(process.env), LC_ALL: "C" });
