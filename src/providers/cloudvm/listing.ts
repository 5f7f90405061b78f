// Every machine of a project, of all zones. What is not complete is no listing: a zone that does not answer may hold a machine. Which ones
// those are is told, for who asks about another one.

import { SvcError } from "../../errors/index.ts";
import { errorOf, type ComputeClient } from "./client.ts";
import { NAME } from "./place.ts";
import { AggregatedInstances, lastPart, plainText, type Instance } from "./wire.ts";

const PAGES_MAX = 1_000;

export interface Listed {
  zone: string;
  instance: Instance;
}

export interface Listing {
  found: Listed[];
  /** What did not answer; `zone` is null where it may be any of them. */
  silent: { zone: string | null; words: string }[];
}

const incomplete = (why: string): SvcError =>
  new SvcError("provider_error", { provider: "cloudvm", why: `its listing of machines is not complete: ${why}` });

/** What is missing of it, as an error; null where it is whole, or whole for the one zone that is asked about. */
export function shortOf({ silent }: Listing, zone?: string): SvcError | null {
  const missing = silent.filter((part) => zone === undefined || part.zone === null || part.zone === zone);
  return missing.length === 0 ? null : incomplete(missing.map(({ words }) => words).join(", "));
}

/** Throws rather than to leave something out that it does not tell of. */
export async function listInstances(
  client: ComputeClient,
  project: string,
  owner: string | null,
  signal: AbortSignal,
): Promise<Listing> {
  const found: Listed[] = [];
  const silent: Listing["silent"] = [];
  const seen = new Set<string>();
  let pageToken: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const reply = await client.send({
      method: "GET",
      path: `/projects/${project}/aggregated/instances`,
      query: {
        filter: owner === null ? undefined : `labels.svc-owner=${owner}`,
        returnPartialSuccess: true,
        maxResults: 500,
        pageToken,
      },
      signal,
    });
    if (!reply.ok) throw errorOf(reply, "list machines");
    const list = AggregatedInstances.safeParse(reply.body);
    if (!list.success) throw incomplete("it cannot be read");
    const { items, unreachables, warning, nextPageToken } = list.data;
    for (const place of unreachables ?? [])
      silent.push({ zone: zoneOf(place), words: `${plainText(place, 100)} did not answer` });
    if (isWarning(warning)) throw incomplete(plainText(warning?.message ?? warning?.code ?? ""));
    for (const [scope, { instances, warning: own }] of Object.entries(items ?? {})) {
      if (isWarning(own))
        silent.push({
          zone: zoneOf(scope),
          words: `${plainText(scope, 80)}: ${plainText(own?.message ?? own?.code ?? "")}`,
        });
      const zone = lastPart(scope);
      for (const instance of instances ?? []) {
        if (!NAME.test(zone)) throw incomplete("the name of a zone cannot be one");
        found.push({ zone, instance });
      }
    }
    if (!nextPageToken) return { found, silent };
    if (seen.has(nextPageToken)) throw incomplete("its pages go round in a circle");
    seen.add(nextPageToken);
    pageToken = nextPageToken;
  }
  throw incomplete(`it has more than ${PAGES_MAX} pages`);
}

const isWarning = (warning: { code: string } | null | undefined): boolean =>
  warning !== null && warning !== undefined && warning.code !== "NO_RESULTS_ON_PAGE";

/** Of `projects/…/zones/us-central1-b`; null for what names no single zone. */
function zoneOf(place: string): string | null {
  const zone = /(?:^|\/)zones\/([^/]*)$/.exec(place)?.[1];
  return zone !== undefined && NAME.test(zone) ? zone : null;
}
