// Pages of lists and forms of errors of the simulated cloud.

import { ZONES } from "./cloudvm-catalogue.ts";
import { parseFilter } from "./cloudvm-filter.ts";
import { CloudError, type Json } from "./cloudvm-insert.ts";
import type { Reply } from "./http-server.ts";

const PAGE_MAX = 500;

interface Place {
  project: string;
  /** The most rows that this simulator returns at once. */
  pageSize: number;
}

function slice<T>(
  query: URLSearchParams,
  pageSize: number,
  rows: readonly T[],
): { page: T[]; next: { nextPageToken?: string } } {
  const asked = Number(query.get("maxResults") ?? PAGE_MAX);
  if (!Number.isInteger(asked) || asked < 0 || asked > PAGE_MAX)
    throw new CloudError(
      400,
      "invalid",
      "Invalid value for field 'maxResults'. Values must be within the range: [0, 500]",
    );
  const size = Math.min(asked === 0 ? PAGE_MAX : asked, pageSize);
  const token = query.get("pageToken") ?? "";
  const from = token === "" ? 0 : Number(Buffer.from(token, "base64url").toString("utf8"));
  if (!Number.isInteger(from)) throw new CloudError(400, "invalid", "Invalid value for field 'pageToken'.");
  const next =
    from + size < rows.length ? { nextPageToken: Buffer.from(String(from + size)).toString("base64url") } : {};
  return { page: rows.slice(from, from + size), next };
}

export function listPage(query: URLSearchParams, place: Place & { kind: string }, rows: readonly Json[]): Json {
  const { kind, project } = place;
  const { page, next } = slice(query, place.pageSize, rows.filter(parseFilter(query.get("filter") ?? "")));
  // An empty list has no `items` at all.
  return {
    kind: `compute#${kind}`,
    id: `projects/${project}/${kind}`,
    ...(page.length > 0 && { items: page }),
    ...next,
  };
}

/** Instances of all zones; a zone without any has a warning instead. */
export function aggregatedPage(
  query: URLSearchParams,
  place: Place & { unreachable: ReadonlySet<string> },
  rows: readonly Json[],
): Json {
  const { project, unreachable } = place;
  const partial = query.get("returnPartialSuccess") === "true";
  if (unreachable.size > 0 && !partial)
    throw new CloudError(503, "backendError", "Some zones are currently unavailable.");
  // Rows that the filter removes still count, so such a list has empty pages.
  const { page: whole, next } = slice(query, place.pageSize, rows);
  const page = whole.filter(parseFilter(query.get("filter") ?? ""));
  const items: Record<string, Json> = {};
  for (const zone of ZONES) {
    if (unreachable.has(zone)) continue;
    const here = page.filter((row) => String(row["zone"]).endsWith(`/${zone}`));
    const message = `There are no results for scope 'zones/${zone}' on this page.`;
    items[`zones/${zone}`] =
      here.length > 0
        ? { instances: here }
        : { warning: { code: "NO_RESULTS_ON_PAGE", message, data: [{ key: "scope", value: `zones/${zone}` }] } };
  }
  return {
    kind: "compute#instanceAggregatedList",
    items,
    ...next,
    ...(unreachable.size > 0 && { unreachables: [...unreachable].map((zone) => `projects/${project}/zones/${zone}`) }),
  };
}

export const missing = (resource: string): CloudError =>
  new CloudError(404, "notFound", `The resource '${resource}' was not found`);

const STATUS: Record<number, string> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ALREADY_EXISTS",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

export function failed({ status, reason, domain, message }: CloudError): Reply {
  const location = status === 401 ? { locationType: "header", location: "Authorization" } : {};
  return {
    status,
    json: {
      error: { code: status, message, errors: [{ message, domain, reason, ...location }], status: STATUS[status] },
    },
  };
}
