// What every provider of rented machines is built from; put together in the composition root.

import type { MachineAccess } from "./host.ts";
import type { MachineHandle } from "./provider.ts";

/** What the owner gave for one provider. Read anew for every use, so that a changed key counts at once. */
export interface ProviderCredential {
  /** The API key; for cloudvm the text of the service-account JSON; empty where the provider needs none. */
  secret: string;
  /** Everything else: project, zone, region, machine_type, ssh_user, ssh_port, host, port, proxy_command, api, network. */
  settings: Readonly<Record<string, string>>;
}

export interface RemoteOptions {
  /** Throws `credential_missing`, which names what to set. */
  credential: () => ProviderCredential;
  /**
   * Base address of the provider's API, without a slash at its end. Read anew for every use, as the credential is. Throws
   * `provider_unavailable` where what is set is no address: then this provider alone cannot be used.
   */
  readonly baseUrl: string;
  /** One line as it stands in authorized_keys. Throws `ssh_key_unusable`. */
  publicKey: () => Promise<string>;
  access: (handle: MachineHandle) => MachineAccess;
  /** Milliseconds; for rate limits and for the age of what is remembered. */
  now: () => number;
  pause: (ms: number, signal?: AbortSignal) => Promise<void>;
}
