import { withoutSecrets } from "../domain/secret-names.ts";

/**
 * The environment for programs that connect to a machine: ours without variables that are named like a secret. ssh,
 * rsync and a proxy do not need the providers' keys in the control plane's environment.
 */
export const childEnvironment = (): Record<string, string> => ({ ...withoutSecrets(process.env), LC_ALL: "C" });
