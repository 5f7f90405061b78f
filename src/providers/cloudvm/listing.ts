// Every machine of a project, of all zones. What is not complete is no listing: a zone that does not answer may hold a machine.

import { SvcError } from "../../errors/index.ts";
import { errorOf, type ComputeClient } from "./client.ts";
import { AggregatedInstances, lastPart, plainText, type Instance } from "./wire.ts";

const PAGES_MAX = 1_000;

export interface Listed {
  zone: string;
  instance: Instance;
}

/** Throws rather than to leave something out. */
export async function listInstances(
  client: ComputeClient,
  project: string,
  owner: string | null,
  signal: AbortSignal,
): Promise<Listed[]> {
  const incomplete = (why: string): SvcError =>
    new SvcError("provider_error", { provider: "cloudvm", why: `its listing of machines is not complete: ${why}` });
  const found: Listed[] = [];
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
    if (unreachables?.length) throw incomplete(`${plainText(unreachables.join(", "), 200)} did not answer`);
    if (isWarning(warning)) throw incomplete(plainText(warning?.message ?? warning?.code ?? ""));
    for (const [scope, { instances, warning: own }] of Object.entries(items ?? {})) {
      if (isWarning(own)) throw incomplete(`${plainText(scope, 80)}: ${plainText(own?.message ?? own?.code ?? "")}`);
      const zone = lastPart(scope);
      for (const instance of instances ?? []) {
        if (!/^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/.test(zone)) throw incomplete("the name of a zone cannot be one");
        found.push({ zone, instance });
      }
    }
    if (!nextPageToken) return found;
    if (seen.has(nextPageToken)) throw incomplete("its pages go round in a circle");
    seen.add(nextPageToken);
    pageToken = nextPageToken;
  }
  throw incomplete(`it has more than ${PAGES_MAX} pages`);
}

const isWarning = (warning: { code: string } | null | undefined): boolean =>
  warning !== null && warning !== undefined && warning.code !== "NO_RESULTS_ON_PAGE";
