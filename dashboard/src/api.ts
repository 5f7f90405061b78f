// The dashboard's client of the HTTP API. Types come from the schemas; a failed call becomes an ApiError that says what
// happened and what to do.

import pRetry from "p-retry";
import type {
  Checkpoints,
  CodeSnapshot,
  Gpu,
  JobRecord,
  JobsPage,
  LedgerMachine,
  Metrics,
  Problem,
  ProviderInfo,
  ReconcileReport,
  ResumePoints,
  Timeline,
} from "../../src/schemas/job.ts";
import type { CostDimension } from "../../src/schemas/cost-names.ts";
import type { CostReport, Receipt } from "../../src/schemas/costs.ts";
import type { Placements } from "../../src/schemas/placement.ts";

import type { CredentialCheck, Credentials, SavedCredential } from "../../src/schemas/credentials.ts";
import type { DataFile, DataReport, DataSummary } from "../../src/schemas/data.ts";
import type { Folder } from "../../src/schemas/folder.ts";
import type { HubModel, HubPull } from "../../src/schemas/hub.ts";
import type { MetricSummaries } from "../../src/schemas/series.ts";
import type { Offers } from "../../src/schemas/offers.ts";
import type { Plan, Summary } from "../../src/schemas/plan.ts";
import { takeEarly } from "./early.ts";

export class ApiError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail || problem.title);
    this.problem = problem;
  }
  /** The call got no answer: the control plane is not running or not reachable. */
  get unreachable(): boolean {
    return this.problem.status === 0;
  }
}

const problemOf = (status: number, title: string, detail: string, hint: string): Problem => ({
  type: "about:blank",
  title,
  status,
  detail,
  code: status === 0 ? "unreachable" : "unexpected_answer",
  hint,
});

/** The problem in a thrown value, for a person. */
export function asProblem(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return problemOf(-1, "Unexpected", error instanceof Error ? error.message : String(error), "Reload the page.");
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    const early = init.method === undefined && init.headers === undefined ? takeEarly(path) : null;
    response = await (early ?? fetch(path, { ...init, cache: "no-store" }));
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(
      problemOf(
        0,
        "Not reachable",
        "The control plane does not answer.",
        "Start it with `svc serve`. This page then updates itself.",
      ),
    );
  }
  if (response.ok) return response;
  const body: unknown = await response.json().catch(() => null);
  if (body !== null && typeof body === "object" && "detail" in body)
    throw new ApiError({ hint: "", ...body } as Problem);
  throw new ApiError(
    problemOf(
      response.status,
      response.statusText,
      `The server answered with status ${response.status}.`,
      "See the output of `svc serve`.",
    ),
  );
}

/** After 0.25, 0.5, 1 and 2 s: longer than a change of the computer's network lasts. */
const AGAIN = { retries: 4, minTimeout: 250, factor: 2 };

/** There was no answer, or only a part of one. */
const isLost = (error: unknown): boolean =>
  error instanceof TypeError || (error instanceof ApiError && error.unreachable);

/**
 * Reads the JSON of an address. A lost request is sent again: a change of the network, such as a VPN or another interface, fails the
 * requests that are under way, and while the live connection stays, nothing else tells the page to read again.
 */
export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  pRetry(async () => (await (await call(path, signal ? { signal } : {})).json()) as T, {
    ...AGAIN,
    shouldRetry: ({ error }) => isLost(error),
    ...(signal ? { signal } : {}),
  });

export const sendJson = async <T>(
  method: "POST" | "PUT" | "PATCH",
  path: string,
  body: unknown,
  { headers = {}, signal }: { headers?: Record<string, string>; signal?: AbortSignal | undefined } = {},
): Promise<T> =>
  (await (
    await call(path, {
      ...(signal ? { signal } : {}),
      method,
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    })
  ).json()) as T;

const post = <T>(path: string, body: unknown): Promise<T> => sendJson<T>("POST", path, body);

export const job = (id: string) => `/jobs/${encodeURIComponent(id)}`;
export const query = (values: Record<string, string | number | null | undefined>): string => {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== null && value !== undefined) params.set(name, String(value));
  const text = params.toString();
  return text ? `?${text}` : "";
};

/** The query of `GET /jobs`, before it is text. */
type JobsQuestion = {
  status?: string | null;
  provider?: string | null;
  q?: string | null;
  created_from?: string | null;
  created_until?: string | null;
  archived?: string | null;
  ids?: string | null;
  limit?: number;
  cursor?: string | null;
};

export const api = {
  jobs: (q: JobsQuestion, signal?: AbortSignal) => get<JobsPage>(`/jobs${query(q)}`, signal),
  job: (id: string, signal?: AbortSignal) => get<JobRecord>(job(id), signal),
  kill: (id: string) => post<JobRecord>(`${job(id)}/kill`, {}),
  remove: async (id: string) => void (await call(job(id), { method: "DELETE" })),
  archive: (id: string, isArchived: boolean) =>
    post<JobRecord>(`${job(id)}/${isArchived ? "archive" : "unarchive"}`, {}),
  submit: (body: unknown, key: string) =>
    sendJson<JobRecord>("POST", "/jobs", body, { headers: { "idempotency-key": key } }),
  timeline: (id: string) => get<Timeline>(`${job(id)}/timeline`),
  placements: (id: string) => get<Placements>(`${job(id)}/placements`),
  metrics: (id: string, q: { since_step?: number; max_points?: number }) =>
    get<Metrics>(`${job(id)}/metrics${query(q)}`),
  checkpoints: (id: string) => get<Checkpoints>(`${job(id)}/checkpoints`),
  code: (id: string) => get<CodeSnapshot>(`${job(id)}/code`),
  metricSummaries: (ids: readonly string[], names: readonly string[]) =>
    get<MetricSummaries>(
      `/v1/metrics${query({ ids: ids.join(","), names: names.length > 0 ? JSON.stringify(names) : null })}`,
    ),
  summary: (q: Pick<JobsQuestion, "provider" | "q" | "created_from" | "created_until" | "archived"> = {}) =>
    get<Summary>(`/v1/summary${query(q)}`),
  plan: (body: unknown, signal?: AbortSignal) => sendJson<Plan>("POST", "/v1/plan", body, { signal }),
  reconcile: (dryRun: boolean) => post<ReconcileReport>("/v1/reconcile", { dry_run: dryRun }),
  credentials: () => get<Credentials>("/v1/credentials"),
  saveCredential: (name: string, body: unknown, check: boolean) =>
    sendJson<SavedCredential>("PUT", `/v1/credentials/${name}?check=${String(check)}`, body),
  removeCredential: async (name: string) => void (await call(`/v1/credentials/${name}`, { method: "DELETE" })),
  checkCredential: (name: string) => post<CredentialCheck>(`/v1/credentials/${name}/check`, {}),
  data: () => get<{ data: DataSummary[] }>("/v1/data"),
  dataFiles: (name: string) =>
    get<{ data: DataSummary; files: DataFile[]; next_cursor: string | null }>(
      `/v1/data/${encodeURIComponent(name)}?limit=500`,
    ),
  addData: (body: unknown) => post<{ data: DataSummary; unchanged: boolean | null }>("/v1/data", body),
  verifyData: (name: string, full: boolean) =>
    post<DataReport>(`/v1/data/${encodeURIComponent(name)}/verify`, { full }),
  removeData: async (name: string) => void (await call(`/v1/data/${encodeURIComponent(name)}`, { method: "DELETE" })),
  models: () => get<{ models: HubModel[] }>("/v1/hub/models"),
  pulls: () => get<{ pulls: HubPull[] }>("/v1/hub/pulls"),
  pull: (body: unknown) => post<{ pull: HubPull }>("/v1/hub/pull", body),
  cancelPull: (id: string) => post<{ pull: HubPull }>(`/v1/hub/pulls/${encodeURIComponent(id)}/cancel`, {}),
  removeModel: async (id: string) =>
    void (await call(`/v1/hub/models/${id.split("/").map(encodeURIComponent).join("/")}`, { method: "DELETE" })),
  notebookCell: () => get<{ cell: string }>("/v1/notebook/bootstrap"),
  /** The same as a notebook file. */
  notebookFile: async () =>
    (await call("/v1/notebook/bootstrap", { headers: { accept: "application/x-ipynb+json" } })).blob(),
  machines: () => get<{ machines: LedgerMachine[] }>("/v1/machines"),
  providers: () => get<{ providers: ProviderInfo[] }>("/v1/providers"),
  costs: (by: CostDimension, from: string | null) => get<CostReport>(`/v1/costs${query({ by, from })}`),
  receipt: (id: string) => get<Receipt>(`${job(id)}/receipt`),
  folder: (path: string | null) => get<Folder>(`/v1/folder${query({ path })}`),
  resumePoints: (id: string) => get<ResumePoints>(`${job(id)}/resume-points`),
  gpus: () => get<{ gpus: Gpu[] }>("/v1/gpus"),
  offers: () => get<Offers>("/v1/offers"),
  logUrl: (id: string) => `${job(id)}/logs`,
  checkpointUrl: (id: string, path: string) =>
    `${job(id)}/checkpoints/${path.split("/").map(encodeURIComponent).join("/")}`,
};
