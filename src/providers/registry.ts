// Every provider there is, and which of them can be used here.

import type { ProviderInfo } from "../schemas/job.ts";
import type { RemoteName } from "../schemas/provider-names.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { CloudvmProvider } from "./cloudvm/provider.ts";
import { MarketProvider } from "./market/provider.ts";
import { NotebookProvider } from "./notebook/provider.ts";
import { PodhostProvider } from "./podhost/provider.ts";
import type { Provider } from "./provider.ts";
import type { RemoteOptions } from "./remote.ts";

/** Where each provider's API answers unless it is said otherwise. */
export const VENDOR_ADDRESS: Readonly<Record<RemoteName, string>> = {
  podhost: "https://api.runpod.io",
  market: "https://console.vast.ai",
  cloudvm: "https://compute.googleapis.com",
  // Reached over SSH alone.
  notebook: "https://localhost",
};

export const REMOTE_PROVIDERS: Readonly<Record<RemoteName, (options: RemoteOptions) => Provider>> = {
  podhost: (options) => new PodhostProvider(options),
  market: (options) => new MarketProvider(options),
  cloudvm: (options) => new CloudvmProvider(options),
  notebook: (options) => new NotebookProvider(options),
};

/** Where a provider's credential comes from, and what of it is missing. */
export type CredentialSources = Readonly<Record<ProviderName, Pick<ProviderInfo, "connected" | "source" | "missing">>>;

export function describeProviders(
  providers: ReadonlyMap<string, Provider>,
  sources: CredentialSources,
): ProviderInfo[] {
  return [...providers.values()].map((provider) => ({ ...provider.info, ...sources[provider.name] }));
}
