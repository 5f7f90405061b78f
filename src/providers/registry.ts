// The code of every provider, and which of them can be used here.

import type { ProviderInfo } from "../schemas/job.ts";
import type { RemoteName } from "./descriptors.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { CloudvmProvider } from "./cloudvm/provider.ts";
import { MarketProvider } from "./market/provider.ts";
import { readKeyFile } from "./cloudvm/auth.ts";
import { endpointIn, NotebookProvider } from "./notebook/provider.ts";
import { PodhostProvider } from "./podhost/provider.ts";
import type { Provider } from "./provider.ts";
import type { ProviderCredential, RemoteOptions } from "./remote.ts";

/** The code of each provider; `descriptors.ts` has their descriptions. */
export interface RemoteCode {
  open(options: RemoteOptions): Provider;
  /** Throws the problem of a credential, complete or not, before it is saved. Sends no request. */
  judge?(given: ProviderCredential): void;
}

export const REMOTE_PROVIDERS: Readonly<Record<RemoteName, RemoteCode>> = {
  podhost: { open: (options) => new PodhostProvider(options) },
  market: { open: (options) => new MarketProvider(options) },
  cloudvm: { open: (options) => new CloudvmProvider(options), judge: ({ secret }) => void readKeyFile(secret) },
  notebook: { open: (options) => new NotebookProvider(options), judge: (given) => void endpointIn(given) },
};

/** A placeholder address for a provider without an API: it is reached only over SSH. */
export const NO_ADDRESS = "https://localhost";

/** The source of each provider's credential, and its missing parts. */
export type CredentialSources = Readonly<Record<ProviderName, Pick<ProviderInfo, "connected" | "source" | "missing">>>;

export function describeProviders(
  providers: ReadonlyMap<string, Provider>,
  sources: CredentialSources,
): ProviderInfo[] {
  return [...providers.values()].map((provider) => ({ ...provider.info, ...sources[provider.name] }));
}
