// Checks whether a provider can serve a spec at all, by its capabilities, its credential and its own rules. Sends no
// request.
//
// Every contradiction of `capabilities` is refused here and nowhere else, so that no provider has to repeat it.

import { isCpu } from "../domain/gpus.ts";
import { SvcError } from "../errors/index.ts";
import type { Provider } from "../providers/provider.ts";
import type { ProviderInfo } from "../schemas/job.ts";
import type { RunSpec } from "../schemas/spec.ts";

export interface SpecChecks {
  /** The provider that the spec names; undefined if it cannot be used here. */
  provider: Provider | undefined;
  describeProviders: () => ProviderInfo[];
  checkCredential: (provider: RunSpec["provider"]) => void;
}

const refuse = (field: string, error: SvcError, message = error.message): never => {
  throw new SvcError(error.code, error.data, { errors: [{ field: `spec.${field}`, message }] });
};

/** Throws what contradicts the provider's capabilities. */
export function checkCapabilities(spec: RunSpec, { info }: Pick<Provider, "info">): void {
  const { nodes, gpus, spot = "never", provider } = spec;
  const { nodes_max, ...has } = info.capabilities;
  if (nodes > nodes_max) refuse("nodes", new SvcError("nodes_unsupported", { provider, nodes, nodes_max }));
  if (has.gpus === "none" && !isCpu(gpus)) refuse("gpus", new SvcError("gpus_unsupported", { provider, gpus }));
  if (!has.spot && spot !== "never")
    refuse("spot", new SvcError("spot_unsupported", { provider, spot }), `must be never, or left out, on ${provider}`);
}

/** Throws the first objection, with the field of the spec that it concerns. */
export function checkSpec(spec: RunSpec, { provider, describeProviders, checkCredential }: SpecChecks): void {
  if (!provider) {
    const info = describeProviders().find(({ name }) => name === spec.provider);
    const why = info?.missing.join(", ") ?? "it is not known";
    return refuse("provider", new SvcError("provider_unavailable", { provider: spec.provider, why }));
  }
  checkCapabilities(spec, provider);
  if (spec.python !== undefined && !provider.info.capabilities.runs_here) {
    const why = `it is for runs on this computer, and a machine of ${spec.provider} uses its own interpreter`;
    refuse("python", new SvcError("python_refused", { python: spec.python, why }));
  }
  try {
    checkCredential(spec.provider);
  } catch (e) {
    throw e instanceof SvcError && e.errors === undefined ? refuse("provider", e) : e;
  }
  provider.check?.(spec);
}
