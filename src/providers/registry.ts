// Every provider there is, and which of them can be used here.

import type { ProviderInfo } from "../schemas/job.ts";
import type { Provider } from "./provider.ts";

const NOT_YET = "this version of svc drives only the provider local";

const capabilities = (c: Partial<ProviderInfo["capabilities"]>): ProviderInfo["capabilities"] => ({
  owns_machine: true,
  reports_price: true,
  nodes_max: 1,
  self_end: false,
  list_by_tag: true,
  ...c,
});

/** What is known of providers that this version cannot drive: enough to show and to refuse clearly. */
const UNAVAILABLE: readonly Omit<ProviderInfo, "connected" | "source" | "missing">[] = [
  {
    name: "podhost",
    speaks: "RunPod",
    capabilities: capabilities({ nodes_max: 64, self_end: true }),
    stops_by_itself: NOT_YET,
  },
  { name: "market", speaks: "Vast.ai", capabilities: capabilities({ self_end: true }), stops_by_itself: NOT_YET },
  {
    name: "cloudvm",
    speaks: "Google Compute Engine",
    capabilities: capabilities({ reports_price: false, nodes_max: 64, self_end: true }),
    stops_by_itself: NOT_YET,
  },
  {
    name: "notebook",
    speaks: "a notebook runtime behind a tunnel",
    capabilities: capabilities({ owns_machine: false, list_by_tag: false }),
    stops_by_itself: "Its owner, by closing the notebook.",
  },
];

export function describeProviders(connected: ReadonlyMap<string, Provider>): ProviderInfo[] {
  const here = [...connected.values()].map((p): ProviderInfo => ({
    ...p.info,
    connected: true,
    source: p.name === "local" ? "none_needed" : "store",
    missing: [],
  }));
  const others = UNAVAILABLE.filter((p) => !connected.has(p.name)).map((p): ProviderInfo => ({
    ...p,
    connected: false,
    source: null,
    missing: [NOT_YET],
  }));
  return [...here, ...others];
}
