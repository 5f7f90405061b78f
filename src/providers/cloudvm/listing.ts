// Lists every machine of a project, in all zones. A silent zone may contain a machine, and so may an unreadable page.
// The listing names the missing zones, for callers who ask about a machine in another one.

import { SvcError } from "../../errors/index.ts";
import { signsOf } from "../page-signs.ts";
import { readList } from "../paging.ts";
import type { PartialListing } from "../provider.ts";
import { errorOf, type ComputeClient } from "./client.ts";
import { NAME } from "./place.ts";
import { AggregatedInstances, lastPart, ListedInstance, plainText, type Instance } from "./wire.ts";

export interface Listed {
  zone: string;
  instance: Instance;
}

export interface Listing {
  found: Listed[];
  /** The parts that did not answer; `zone` is null if any zone may be affected. */
  silent: { zone: string | null; words: string }[];
}

const incomplete = (why: string): SvcError =>
  new SvcError("provider_error", { provider: "cloudvm", why: `its listing of machines is not complete: ${why}` });

/** The error for its missing parts; null if it is complete, or complete for the one requested zone. */
export function shortOf({ silent }: Listing, zone?: string): SvcError | null {
  const missing = silent.filter((part) => zone === undefined || part.zone === null || part.zone === zone);
  return missing.length === 0 ? null : incomplete(missing.map(({ words }) => words).join(", "));
}

/** Throws if nothing can be read. Missing parts are in `silent`. */
export async function listInstances(
  client: ComputeClient,
  project: string,
  owner: string | null,
  signal: AbortSignal,
  now: () => number,
): Promise<Listing> {
  const path = `/projects/${project}/aggregated/instances`;
  const { rows, missing } = await readList<Row>({
    provider: "cloudvm",
    what: "listing of machines",
    path,
    content: ["kind", "id", "items", "selfLink", "etag", "warning", "unreachables"],
    cursorParameter: "pageToken",
    now,
    ask: async (page) => {
      const query = {
        filter: owner === null ? undefined : `labels.svc-owner=${owner}`,
        returnPartialSuccess: true,
        maxResults: 500,
        ...page,
      };
      const reply = await client.send({ method: "GET", path, query, signal });
      if (!reply.ok) throw errorOf(reply, "list machines");
      return { status: reply.status, body: reply.body, headers: {} };
    },
    rows: rowsOf,
    key: (row) => ("instance" in row ? `${row.zone}/${row.instance.name}` : `${row.zone ?? ""} ${row.words}`),
  });
  const silent = rows.flatMap((row) => ("instance" in row ? [] : [row]));
  return {
    found: rows.flatMap((row) => ("instance" in row ? [row] : [])),
    silent: missing === null ? silent : [...silent, { zone: null, words: reasonOf(missing) }],
  };
}

const ENDS = /^(STOPPING|PENDING_STOP|STOPPED|DEPROVISIONING|TERMINATED|SUSPENDING|SUSPENDED)$/;
const usefulnessOf = ({ instance: { status } }: Listed): number =>
  status === "RUNNING" ? 0 : ENDS.test(status) ? 2 : 1;

/** The order of `usefulness`: an order that was repeated in another zone may have made two machines with one name. */
export const byUsefulness = (a: Listed, b: Listed): number => usefulnessOf(a) - usefulnessOf(b);

type Row = Listed | Listing["silent"][number];

function rowsOf(body: unknown): Row[] {
  const list = AggregatedInstances.safeParse(body);
  if (!list.success) throw incomplete("it cannot be read");
  const { items, unreachables, warning } = list.data;
  const rows: Row[] = (unreachables ?? []).map((place) => ({
    zone: zoneOf(place),
    words: `${plainText(place, 100)} did not answer`,
  }));
  if (isWarning(warning)) rows.push({ zone: null, words: plainText(warning?.message ?? warning?.code ?? "") });
  for (const [scope, { instances, warning: own, ...more }] of Object.entries(items ?? {})) {
    if (isWarning(own))
      rows.push({
        zone: zoneOf(scope),
        words: `${plainText(scope, 80)}: ${plainText(own?.message ?? own?.code ?? "")}`,
      });
    if (mayHoldMore(more))
      rows.push({ zone: zoneOf(scope), words: `${plainText(scope, 80)} may hold more than it shows` });
    const zone = lastPart(scope);
    for (const raw of instances ?? []) {
      if (!NAME.test(zone)) throw incomplete("the name of a zone cannot be one");
      const { data: instance } = ListedInstance.safeParse(raw);
      // It hides no other machine, and proves no absence in its zone.
      rows.push(
        instance === undefined ? { zone, words: `${zone} holds a machine that cannot be read` } : { zone, instance },
      );
    }
  }
  return rows;
}

/** Whether members other than a zone's machines hint at further machines. */
function mayHoldMore(members: Record<string, unknown>): boolean {
  const { more, next, maybeNext, links, total, unclear } = signsOf(members, {}, new Set());
  return more === true || total !== null || [next, maybeNext, links, unclear].some((signs) => signs.length > 0);
}

const reasonOf = (error: SvcError): string => error.message.replace(/^.*is not complete: /, "").replace(/\.$/, "");

/** The possible place of unlisted machines. */
export const gapOf = ({ silent }: Listing): PartialListing["gap"] =>
  silent.some(({ zone }) => zone === null) ? "anywhere" : "named";

const isWarning = (warning: { code: string } | null | undefined): boolean =>
  warning !== null && warning !== undefined && warning.code !== "NO_RESULTS_ON_PAGE";

/** The zone in `projects/…/zones/us-central1-b`; null if it names no single zone. */
function zoneOf(place: string): string | null {
  const zone = /(?:^|\/)zones\/([^/]*)$/.exec(place)?.[1];
  return zone !== undefined && NAME.test(zone) ? zone : null;
}
