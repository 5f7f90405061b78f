// Checks whether a provider can serve a spec at all, by its capabilities, its credential and its own rules. Sends no
// request.

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

/** Throws the first objection, with the field of the spec that it concerns. */
export function checkSpec(spec: RunSpec, { provider, describeProviders, checkCredential }: SpecChecks): void {
  const refuse = (field: string, error: SvcError): never => {
    throw new SvcError(error.code, error.data, { errors: [{ field: `spec.${field}`, message: error.message }] });
  };
  if (!provider) {
    const info = describeProviders().find(({ name }) => name === spec.provider);
    const why = info?.missing.join(", ") ?? "it is not known";
    return refuse("provider", new SvcError("provider_unavailable", { provider: spec.provider, why }));
  }
  const { nodes_max, gpus, runs_here } = provider.info.capabilities;
  if (spec.nodes > nodes_max)
    refuse("nodes", new SvcError("nodes_unsupported", { provider: spec.provider, nodes: spec.nodes, nodes_max }));
  if (gpus === "none" && !isCpu(spec.gpus))
    refuse("gpus", new SvcError("gpus_unsupported", { provider: spec.provider, gpus: spec.gpus }));
  if (spec.python !== undefined && !runs_here) {
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
