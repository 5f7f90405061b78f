// The HTTP API as functions: wire format in, wire format out. Runs in Node and in a browser.
//
// W1. Every call has a deadline and a cap on the bytes it reads; a redirect is an error.
// W2. A call that may not have arrived is retried only if it is idempotent: reads, and submissions under one key.

import type {
  CheckpointFile,
  CodeSnapshot,
  Gpu,
  JobRecord,
  JobsPage,
  LedgerMachine,
  Metrics,
  ProviderInfo,
  ReconcileReport,
  ResumePoint,
  Timeline,
  Health as HealthSchema,
} from "../src/schemas/job.ts";
import type { Placements } from "../src/schemas/placement.ts";
import type { Offers, OffersQuery } from "../src/schemas/offers.ts";
import type { Plan } from "../src/schemas/plan.ts";
import type { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../src/schemas/credentials.ts";
import type { CostReport, CostsQuery, Receipt } from "../src/schemas/costs.ts";
import type { JobChange } from "../src/schemas/change.ts";
import type { Deliveries, Notifications, NotifyTargetBody, ShownTarget, Tested } from "../src/schemas/notify.ts";
import type { HomeLimits, LimitsChange } from "../src/schemas/limits.ts";
import type { HomeRetention, RetentionChange } from "../src/schemas/retention.ts";
import type { CheckpointsRemoved, Removed } from "../src/schemas/removal.ts";
import type { RegistryBody, RegistryInUse } from "../src/schemas/registry.ts";
import type { HubAdopted, HubModel, HubPull, HubPullBody } from "../src/schemas/hub.ts";
import type { RunSpecInput } from "../src/schemas/spec.ts";
import type { z } from "zod";
import { LATE, SvcError } from "./errors.ts";

export type Health = z.infer<typeof HealthSchema>;

export interface ClientOptions {
  /** `http://127.0.0.1:8780`; in a page of the dashboard the empty string: its own origin. */
  baseUrl: string;
  /** Called only when the server requires a token. */
  token?: () => string | null;
  deadlineMs?: number;
  bytesMax?: number;
}

export interface JobsFilter {
  status?: string;
  provider?: string;
  label?: string;
  /** Only archived runs, which the list leaves out otherwise. */
  archived?: boolean;
  /** Runs that have all of these tags. */
  tags?: readonly string[];
  limit?: number;
  cursor?: string;
}

interface Call {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  deadlineMs?: number;
  signal?: AbortSignal | undefined;
}

const job = (id: string): string => `/jobs/${encodeURIComponent(id)}`;

export class Client {
  readonly baseUrl: string;
  readonly #options: ClientOptions;
  #token: string | null = null;

  constructor(options: ClientOptions) {
    this.baseUrl = options.baseUrl.replace(/\/+$/, "");
    this.#options = options;
  }

  health(deadlineMs = 2_000): Promise<Health> {
    return this.#json("/v1/health", { deadlineMs });
  }
  /** The same key and body twice make one job. */
  submit(
    body: { label?: string | null; tags?: string[]; spec: RunSpecInput },
    idempotencyKey: string,
  ): Promise<JobRecord> {
    return this.#json("/jobs", {
      method: "POST",
      body,
      headers: { "Idempotency-Key": idempotencyKey },
      deadlineMs: 60_000,
    });
  }
  job(id: string): Promise<JobRecord> {
    return this.#json(job(id), {});
  }
  jobs(filter: JobsFilter = {}): Promise<JobsPage> {
    const { tags, archived, ...rest } = filter;
    return this.#json("/jobs", { query: { ...rest, tag: tags?.join(","), archived: archived ? "only" : undefined } });
  }
  kill(id: string): Promise<JobRecord> {
    return this.#json(`${job(id)}/kill`, { method: "POST" });
  }
  async killAll(): Promise<string[]> {
    return (await this.#json<{ jobs: string[] }>("/jobs/kill", { method: "POST", body: { all: true } })).jobs;
  }
  /** Fields that are left out stay; null removes a limit or the label, an empty list all tags. */
  update(id: string, change: JobChange): Promise<JobRecord> {
    return this.#json(job(id), { method: "PATCH", body: change });
  }
  /** Deleting large checkpoints takes a while. */
  remove(id: string): Promise<Removed> {
    return this.#json(job(id), { method: "DELETE", deadlineMs: 600_000 });
  }
  archive(id: string, isArchived: boolean): Promise<JobRecord> {
    return this.#json(`${job(id)}/${isArchived ? "archive" : "unarchive"}`, { method: "POST", body: {} });
  }
  timeline(id: string): Promise<Timeline> {
    return this.#json(`${job(id)}/timeline`, {});
  }
  placements(id: string): Promise<Placements> {
    return this.#json(`${job(id)}/placements`, {});
  }
  /** May take as long as the providers do. */
  plan(body: { label?: string | null; tags?: string[]; spec: RunSpecInput }, signal?: AbortSignal): Promise<Plan> {
    return this.#json("/v1/plan", { method: "POST", body, deadlineMs: 60_000, signal });
  }
  metrics(id: string, query: { name?: string; since_step?: number; max_points?: number } = {}): Promise<Metrics> {
    return this.#json(`${job(id)}/metrics`, { query });
  }
  async checkpoints(id: string): Promise<CheckpointFile[]> {
    return (await this.#json<{ files: CheckpointFile[] }>(`${job(id)}/checkpoints`, {})).files;
  }
  async resumePoints(id: string): Promise<ResumePoint[]> {
    return (await this.#json<{ checkpoints: ResumePoint[] }>(`${job(id)}/resume-points`, {})).checkpoints;
  }
  removeCheckpoints(id: string, names: readonly string[], dryRun = false): Promise<CheckpointsRemoved> {
    const body = { names, dry_run: dryRun };
    return this.#json(`${job(id)}/checkpoints/remove`, { method: "POST", body, deadlineMs: 600_000 });
  }
  code(id: string): Promise<CodeSnapshot> {
    return this.#json(`${job(id)}/code`, {});
  }
  /** May take as long as the providers do. */
  reconcile(
    { dryRun, gone }: { dryRun: boolean; gone?: string | undefined },
    signal?: AbortSignal,
  ): Promise<ReconcileReport> {
    const body = { dry_run: dryRun, gone };
    return this.#json("/v1/reconcile", { method: "POST", body, deadlineMs: 600_000, signal });
  }
  credentials(): Promise<Credentials> {
    return this.#json("/v1/credentials", {});
  }
  /** With `check` the provider or service is asked first, which may take as long as it does. */
  saveCredential(name: string, body: CredentialBody, check = false): Promise<SavedCredential> {
    const query = { check: String(check) };
    return this.#json(`/v1/credentials/${encodeURIComponent(name)}`, {
      method: "PUT",
      query,
      body,
      deadlineMs: 90_000,
    });
  }
  removeCredential(name: string): Promise<SavedCredential> {
    return this.#json(`/v1/credentials/${encodeURIComponent(name)}`, { method: "DELETE" });
  }
  checkCredential(name: string): Promise<CredentialCheck> {
    return this.#json(`/v1/credentials/${encodeURIComponent(name)}/check`, { method: "POST", deadlineMs: 90_000 });
  }
  costs(query: Partial<CostsQuery> = {}): Promise<CostReport> {
    return this.#json("/v1/costs", { query: { ...query } });
  }
  receipt(id: string): Promise<Receipt> {
    return this.#json(`${job(id)}/receipt`, {});
  }
  limits(): Promise<HomeLimits> {
    return this.#json("/v1/limits", {});
  }
  retention(): Promise<HomeRetention> {
    return this.#json("/v1/retention", {});
  }
  setRetention(change: RetentionChange): Promise<HomeRetention> {
    return this.#json("/v1/retention", { method: "PUT", body: change });
  }
  setLimits(change: LimitsChange): Promise<HomeLimits> {
    return this.#json("/v1/limits", { method: "PUT", body: change });
  }
  notifications(): Promise<Notifications> {
    return this.#json("/v1/notifications", {});
  }
  saveNotifyTarget(name: string, body: NotifyTargetBody): Promise<ShownTarget> {
    return this.#json(`/v1/notifications/targets/${encodeURIComponent(name)}`, { method: "PUT", body });
  }
  removeNotifyTarget(name: string): Promise<unknown> {
    return this.#json(`/v1/notifications/targets/${encodeURIComponent(name)}`, { method: "DELETE" });
  }
  testNotifyTarget(name: string): Promise<Tested> {
    return this.#json(`/v1/notifications/targets/${encodeURIComponent(name)}/test`, {
      method: "POST",
      deadlineMs: 60_000,
    });
  }
  async setNotifyRules(rules: readonly string[]): Promise<string[]> {
    return (await this.#json<{ rules: string[] }>("/v1/notifications/rules", { method: "PUT", body: { rules } })).rules;
  }
  notifyDeliveries(limit: number): Promise<Deliveries> {
    return this.#json("/v1/notifications/deliveries", { query: { limit: String(limit) } });
  }
  /** Sends the registry of `configure`; its values stay with the home's owner. */
  configure(body: z.input<typeof RegistryBody>): Promise<RegistryInUse> {
    return this.#json("/v1/registry", { method: "PUT", body });
  }
  async machines(): Promise<LedgerMachine[]> {
    return (await this.#json<{ machines: LedgerMachine[] }>("/v1/machines", {})).machines;
  }
  async providers(): Promise<ProviderInfo[]> {
    return (await this.#json<{ providers: ProviderInfo[] }>("/v1/providers", {})).providers;
  }
  /** Starts a pull, or joins an identical one. */
  async pull(body: HubPullBody): Promise<HubPull> {
    return (await this.#json<{ pull: HubPull }>("/v1/hub/pull", { method: "POST", body })).pull;
  }
  async pullOf(id: string): Promise<HubPull> {
    return (await this.#json<{ pull: HubPull }>(`/v1/hub/pulls/${encodeURIComponent(id)}`, {})).pull;
  }
  async models(): Promise<HubModel[]> {
    return (await this.#json<{ models: HubModel[] }>("/v1/hub/models", {})).models;
  }
  adopt(path: string): Promise<HubAdopted> {
    return this.#json("/v1/hub/models", { method: "POST", body: { path } });
  }
  async removeModel(modelId: string): Promise<string[]> {
    const path = modelId.split("/").map(encodeURIComponent).join("/");
    return (await this.#json<{ removed: string[] }>(`/v1/hub/models/${path}`, { method: "DELETE" })).removed;
  }
  /** May take as long as the providers do. */
  offers(query: OffersQuery = {}, signal?: AbortSignal): Promise<Offers> {
    return this.#json("/v1/offers", { query: { ...query }, deadlineMs: 90_000, signal });
  }
  async gpus(provider?: string): Promise<Gpu[]> {
    return (await this.#json<{ gpus: Gpu[] }>("/v1/gpus", { query: { provider } })).gpus;
  }

  /**
   * Bytes of the stored log from `offset`, until the job has ended. A lost connection throws `unreachable`: a caller
   * that counts the bytes can resume from there.
   */
  async *followLog(id: string, offset: number, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const quit = new AbortController();
    const onAbort = (): void => quit.abort(signal?.reason);
    if (signal?.aborted) return;
    signal?.addEventListener("abort", onAbort, { once: true });
    const deadline = setTimeout(() => quit.abort(new Error(LATE)), this.#options.deadlineMs ?? 30_000);
    try {
      const answer = await this.#send(`${job(id)}/logs`, { query: { follow: 1, offset }, signal: quit.signal });
      clearTimeout(deadline);
      if (!answer.ok) throw await this.#refusal(answer);
      if (!answer.body) return;
      const reader = answer.body.getReader();
      for (;;) {
        const part = await reader.read().catch((e: unknown) => {
          throw SvcError.unreachable(this.baseUrl, why(e), e);
        });
        if (part.done) return;
        yield part.value;
      }
    } catch (e) {
      if (!signal?.aborted) throw e;
    } finally {
      clearTimeout(deadline);
      signal?.removeEventListener("abort", onAbort);
      quit.abort();
    }
  }

  async #json<T>(path: string, call: Call): Promise<T> {
    const deadline = AbortSignal.timeout(call.deadlineMs ?? this.#options.deadlineMs ?? 30_000);
    const signal = call.signal ? AbortSignal.any([call.signal, deadline]) : deadline;
    const answer = await this.#send(path, { ...call, signal });
    if (!answer.ok) throw await this.#refusal(answer);
    // The caller names the type that the API documents for this path.
    return (await this.#body(answer)) as T;
  }

  async #send(path: string, call: Call): Promise<Response> {
    const query = new URLSearchParams();
    for (const [k, v] of Object.entries(call.query ?? {})) if (v !== undefined) query.set(k, String(v));
    const ask = (): Promise<Response> =>
      fetch(`${this.baseUrl}${path}${query.size ? `?${query}` : ""}`, {
        method: call.method ?? "GET",
        redirect: "error",
        headers: {
          Accept: "application/json",
          ...(call.body === undefined ? {} : { "Content-Type": "application/json" }),
          ...(this.#token ? { Authorization: `Bearer ${this.#token}` } : {}),
          ...call.headers,
        },
        ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
        ...(call.signal ? { signal: call.signal } : {}),
      });
    try {
      const answer = await ask();
      if (answer.status !== 401 || this.#token) return answer;
      this.#token = this.#options.token?.() ?? null;
      if (!this.#token) return answer;
      await answer.body?.cancel();
      return await ask();
    } catch (e) {
      throw SvcError.unreachable(this.baseUrl, why(e), e);
    }
  }

  async #refusal(answer: Response): Promise<SvcError> {
    return SvcError.fromAnswer(answer.status, await this.#body(answer).catch(() => null));
  }

  /** The body as JSON, counted after decompression. */
  async #body(answer: Response): Promise<unknown> {
    const max = this.#options.bytesMax ?? 256 * 1024 * 1024;
    const decoder = new TextDecoder();
    let text = "";
    let size = 0;
    const reader = answer.body?.getReader();
    if (!reader) return null;
    for (;;) {
      const part = await reader.read().catch((e: unknown) => {
        throw SvcError.unreachable(this.baseUrl, why(e), e);
      });
      if (part.done) break;
      size += part.value.byteLength;
      if (size > max) {
        await reader.cancel();
        throw SvcError.unreachable(this.baseUrl, `its answer is larger than ${max} bytes`);
      }
      text += decoder.decode(part.value, { stream: true });
    }
    try {
      return JSON.parse(text + decoder.decode());
    } catch (e) {
      throw SvcError.unreachable(this.baseUrl, "the program at that address did not answer with JSON", e);
    }
  }
}

/** The cause of fetch's "fetch failed". */
function why(thrown: unknown): string {
  const e = thrown as { name?: string; message?: string; cause?: { code?: string; message?: string } } | null;
  if (e?.name === "TimeoutError") return LATE;
  const code = e?.cause?.code;
  if (code === "ECONNREFUSED") return "connection refused";
  return code ?? e?.cause?.message ?? e?.message ?? String(thrown);
}
