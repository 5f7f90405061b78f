// The parts that every provider of rented machines is built from; wired in the composition root.

import type { MachineAccess } from "./host.ts";
import type { MachineHandle } from "./provider.ts";

/** The owner's credential for one provider. Read again for every use, so that a changed key counts at once. */
export interface ProviderCredential {
  /** The API key; for cloudvm the text of the service-account JSON; empty if the provider needs none. */
  secret: string;
  /** Everything else: project, zone, region, machine_type, ssh_user, ssh_port, host, port, proxy_command, api, network. */
  settings: Readonly<Record<string, string>>;
}

export interface RemoteOptions {
  /** Throws `credential_missing`, which names what to set. */
  credential: () => ProviderCredential;
  /**
   * Base address of the provider's API, without a slash at its end. Read again for every use, like the credential.
   * Throws `provider_unavailable` for a malformed address: then only this provider cannot be used.
   */
  readonly baseUrl: string;
  /** One line in the form of authorized_keys. Throws `ssh_key_unusable`. */
  publicKey: () => Promise<string>;
  access: (handle: MachineHandle) => MachineAccess;
  /** Milliseconds; for rate limits and for the age of cached data. */
  now: () => number;
  pause: (ms: number, signal?: AbortSignal) => Promise<void>;
}
