// An in-memory control plane with explicit behaviour: the API reads exactly what a test has put in. Submitting makes a
// record and an event; killing ends it at once; nothing runs.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach } from "vitest";
import { startServer, type RunningServer, type ServerOptions } from "../../src/api/server.ts";
import type { JobChange } from "../../src/schemas/change.ts";
import type { ControlPlane, ModelsOfHub, NotificationsOf, SubmitOptions } from "../../src/engine/control-plane.ts";
import type { Offers, OffersQuery } from "../../src/schemas/offers.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { SvcError } from "../../src/errors/index.ts";
import { CredentialService } from "../../src/secrets/credential-service.ts";
import type { HubPullHint } from "../../src/schemas/hub.ts";
import type {
  CheckpointFile,
  CodeSnapshot,
  FeedEvent,
  FeedHint,
  JobRecord,
  Metrics,
  Timeline,
  ResumePoint,
} from "../../src/schemas/job.ts";
import { LIMIT_NAMES } from "../../src/schemas/limit-names.ts";
import type { HomeLimits, LimitsChange, LimitUse } from "../../src/schemas/limits.ts";
import type { CheckpointRemovalBody, CheckpointsRemoved } from "../../src/schemas/removal.ts";
import type { SubmitBody } from "../../src/schemas/spec.ts";
import type { Reads } from "../../src/store/reads.ts";
import { NOTHING_OLD, RetentionDouble } from "./retention-double.ts";

const homes: string[] = [];
afterAll(() => {
  for (const home of homes) rmSync(home, { recursive: true, force: true });
});
function newHome(): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "svc-api-")));
  homes.push(home);
  return home;
}

const NOTHING = {
  cost_usd: 0,
  cost_estimate_usd: null,
  work_usd: 0,
  waste: { starting: 0, idle_gpu: 0, held: 0, lost: 0, failed: 0, proof: 0 },
  hours: 0,
  hours_without_price: 0,
  machines: 0,
  machines_without_price: 0,
};

const UNLIMITED: LimitUse = { limit: null, used: 0, reserved: 0, left: null };

export class PlaneDouble implements ControlPlane {
  readonly home = newHome();
  readonly installationId = "inst1";
  readonly credentials = new CredentialService({
    home: this.home,
    env: {},
    exclusively: (_file, work) => work(),
    machinesOf: () => 0,
    judge: () => Promise.resolve(),
    warn: () => undefined,
    ask: () => Promise.resolve({ account: "somebody", may: [], balance_usd: null, warnings: [] }),
  });
  secret: string[] = [];
  secrets(): Redactor {
    return new Redactor(this.secret);
  }
  readonly startedAt = "2026-01-02T03:04:05.000Z";
  readonly records = new Map<string, JobRecord>();
  readonly logs = new Map<string, Buffer>();
  readonly times = new Map<string, { offset: number; at_ms: number }[]>();
  readonly files = new Map<string, { entry: CheckpointFile; path: string }[]>();
  readonly snapshots = new Map<string, CodeSnapshot>();
  readonly feed: FeedEvent[] = [];
  readonly listeners = new Set<(event: FeedEvent | FeedHint | HubPullHint) => void>();
  readonly submitted: { body: SubmitBody; options: SubmitOptions }[] = [];
  readonly reconciled: boolean[] = [];
  #byKey = new Map<string, { id: string; body: string }>();
  #next = 1;

  addJob(patch: Partial<JobRecord> = {}): JobRecord {
    const id = `job${String(this.#next++).padStart(6, "0")}`;
    const record: JobRecord = {
      id,
      status: "running",
      exit_code: null,
      cost_usd: 0,
      cost_estimate_usd: null,
      rate_usd_per_hour: null,
      budget_usd: null,
      spent_usd: null,
      budget_left_usd: null,
      budget_kept_usd: null,
      budget_stops_at: null,
      label: null,
      tags: [],
      provider: "local",
      gpus: "cpu",
      nodes: 1,
      entrypoint: "train.py",
      args: [],
      created_at: "2026-01-02T03:04:05.000Z",
      started_at: null,
      ended_at: null,
      price_per_hour_usd: null,
      machines: [],
      placements: 1,
      error: null,
      resumed_from: null,
      code_snapshot: null,
      disk_bytes: null,
      archived_at: null,
      left_out: null,
      spec: { entrypoint: "train.py" },
      note: null,
      ...patch,
    };
    this.records.set(record.id, record);
    return record;
  }

  emit(jobId: string | null, type = "notice", data: Record<string, unknown> = {}): FeedEvent {
    const event = { seq: this.feed.length + 1, job_id: jobId, at: "2026-01-02T03:04:05.000Z", type, data };
    this.feed.push(event);
    for (const listener of this.listeners) listener(event);
    return event;
  }

  hint(hint: FeedHint): void {
    for (const listener of this.listeners) listener(hint);
  }

  appendLog(id: string, text: string | Buffer, atMs = 0): void {
    const before = this.logs.get(id) ?? Buffer.alloc(0);
    this.times.set(id, [...(this.times.get(id) ?? []), { offset: before.length, at_ms: atMs }]);
    this.logs.set(id, Buffer.concat([before, Buffer.from(text)]));
    this.hint({ type: "log.advanced", job_id: id });
  }

  end(id: string, status: JobRecord["status"]): void {
    this.records.set(id, { ...this.#job(id), status });
    this.emit(id, "job.transition", { to: status });
  }

  #job(id: string): JobRecord {
    const record = this.records.get(id);
    if (!record) throw new SvcError("job_not_found", { id });
    return record;
  }

  /** Empty; test/notify has the real one. */
  notifications: NotificationsOf = {
    overview: () => ({ targets: [], rules: [], registry_rules: [], unread: 0, latest: 0 }),
    save: (name) => Promise.reject(new SvcError("notify_read_only", { name })),
    remove: (name) => Promise.reject(new SvcError("notify_unknown", { name })),
    test: (name) => Promise.reject(new SvcError("notify_unknown", { name })),
    setRules: (lines) => Promise.resolve([...lines]),
    notices: () => ({ notices: [], unread: 0, next_cursor: null }),
    markRead: () => Promise.resolve(0),
    deliveries: () => ({ deliveries: [], next_cursor: null }),
    counts: () => [],
  };

  /** `rule` is the rule that a test has set. */
  readonly retention = new RetentionDouble(this.records, this.startedAt);

  /** Empty by default; a test that pulls models replaces it with the real one. */
  hub: ModelsOfHub = {
    pull: () => {
      throw new SvcError("extra_missing", { extra: "hub" });
    },
    wait: (id) => Promise.reject(new SvcError("hub_pull_not_found", { id })),
    list: () => [],
    get: (id) => {
      throw new SvcError("hub_pull_not_found", { id });
    },
    cancel: (id) => Promise.reject(new SvcError("hub_pull_not_found", { id })),
    models: () => Promise.resolve([]),
    remove: (model) => Promise.reject(new SvcError("hub_model_not_here", { model })),
    adopt: (path) => Promise.reject(new SvcError("hub_model_unusable", { path, missing: ["it holds no model"] })),
  };

  readonly reads: Reads = {
    job: (id) => this.records.get(id) ?? null,
    resolveJobId: (prefix) => this.#job(prefix).id,
    jobs: (query) => {
      const all = [...this.records.values()]
        .reverse()
        .filter((r) => query.status === undefined || query.status.includes(r.status));
      const from = query.cursor === undefined ? 0 : all.findIndex((r) => r.id === query.cursor) + 1;
      const jobs = all.slice(from, from + query.limit);
      return { jobs, next_cursor: from + query.limit < all.length ? (jobs.at(-1)?.id ?? null) : null };
    },
    countByStatus: () => {
      const counts: Partial<Record<JobRecord["status"], number>> = {};
      for (const { status } of this.records.values()) counts[status] = (counts[status] ?? 0) + 1;
      return counts;
    },
    timeline: (): Timeline => ({
      steps: [],
      transitions: [{ seq: 1, from: null, to: "provisioning", event: "job.created", at: this.startedAt, placement: 1 }],
    }),
    placements: () => ({ placements: [], waiting: null }),
    regions: () => new Map(),
    startTimes: () => null,
    metrics: (): Metrics => ({ series: { loss: [{ step: 1, time: 1, value: "NaN", rank: 0 }] } }),
    seriesList: () => [{ id: 7, name: "loss", points: 1 }],
    seriesPoints: (_id, places) =>
      places.flatMap(({ id, from }) =>
        id === 7
          ? [{ id, from, next: 1, thinned: false, step: [1], time: [1], value: ["NaN" as const], rank: [0] }]
          : [],
      ),
    seriesNames: () => ({ names: ["loss"], more: false }),
    namedSeries: (ids) => ids.map((jobId) => ({ id: 7, jobId, name: "loss", points: 1 })),
    seriesShape: () => ({ min: null, max: null, last: null, samples: [null] }),
    hostStats: () => ({
      stats: [{ provider: "podhost", gpu: "A40", good: 41, of: 43, seconds_to_ssh_p50: 74 }],
      avoided: [],
    }),
    limits: () => this.limits,
    retention: () => this.retention.state(),
    oldRuns: () => ({ goes: [], kept: NOTHING_OLD.kept }),
    costs: ({ by, from = null, to = null }) => ({ by, from, to, time_zone: "UTC", groups: [], total: NOTHING }),
    receipt: (id) => ({
      job_id: id,
      label: null,
      status: this.#job(id).status,
      project: null,
      is_final: true,
      machines: [],
      total: NOTHING,
    }),
    heldHandle: () => null,
    logBytes: (id) => this.logs.get(id)?.length ?? 0,
    readLog: (id, offset, max) => (this.logs.get(id) ?? Buffer.alloc(0)).subarray(offset, offset + max),
    logTailOffset: (id, lines) => {
      const bytes = this.logs.get(id) ?? Buffer.alloc(0);
      let at = bytes.at(-1) === 10 ? bytes.length - 1 : bytes.length;
      for (let n = 0; n < lines; n++) {
        if (at <= 0) return 0;
        at = bytes.lastIndexOf(10, at - 1);
        if (at < 0) return 0;
      }
      return lines === 0 ? bytes.length : at + 1;
    },
    logTimes: (id, from) => {
      const times = this.times.get(id) ?? [];
      return times.slice(
        Math.max(
          0,
          times.findLastIndex((t) => t.offset <= from),
        ),
      );
    },
    sinks: () => [],
    removedAt: (id) => this.removed.get(id) ?? null,
    checkpoints: (id) => (this.files.get(id) ?? []).map((f) => f.entry),
    checkpointPath: (id, path) => this.files.get(id)?.find((f) => f.entry.path === path)?.path ?? null,
    leftOutList: () => null,
    code: (id) => this.snapshots.get(id) ?? null,
    machines: () => [
      {
        name: "svc-inst1-job1-0",
        id: "m1",
        provider: "market",
        job_id: null,
        node: 0,
        state: "held",
        address: null,
        price_per_hour_usd: 1.5,
        cost_usd: 0.025,
        created_at: this.startedAt,
        age_seconds: 60,
        note: null,
      },
    ],
    eventsSince: (since, { jobId, limit }) =>
      this.feed.filter((e) => e.seq > since && (jobId === undefined || e.job_id === jobId)).slice(0, limit),
    latestSeq: () => this.feed.length,
  };

  async submit(body: SubmitBody, options: SubmitOptions): Promise<{ record: JobRecord; created: boolean }> {
    this.submitted.push({ body, options });
    const text = JSON.stringify(body);
    const earlier = options.idempotencyKey === undefined ? undefined : this.#byKey.get(options.idempotencyKey);
    if (earlier && earlier.body !== text) throw new SvcError("idempotency_conflict", { job_id: earlier.id });
    if (earlier) return { record: this.#job(earlier.id), created: false };
    const record = this.addJob({ label: body.label ?? null, entrypoint: body.spec.entrypoint, status: "provisioning" });
    if (options.idempotencyKey !== undefined) this.#byKey.set(options.idempotencyKey, { id: record.id, body: text });
    this.emit(record.id, "job.created");
    return { record, created: true };
  }

  resumePoints(): Promise<ResumePoint[]> {
    return Promise.resolve([]);
  }

  retrySinks(id: string): Promise<void> {
    return Promise.reject(new SvcError("sinks_none", { job: id }));
  }

  limits: HomeLimits = {
    usd_per_day: UNLIMITED,
    usd_per_month: UNLIMITED,
    usd_per_hour: UNLIMITED,
    max_machines: UNLIMITED,
    max_gpus: UNLIMITED,
    machines_without_price: 0,
    waiting: [],
  };
  async setLimits(change: LimitsChange): Promise<HomeLimits> {
    for (const name of LIMIT_NAMES) {
      const limit = change[name];
      if (limit !== undefined) this.limits = { ...this.limits, [name]: { ...this.limits[name], limit, left: limit } };
    }
    return this.limits;
  }

  readonly changes: { id: string; change: JobChange }[] = [];
  change(id: string, change: JobChange): Promise<JobRecord> {
    const record = this.records.get(id);
    if (!record) throw new SvcError("job_not_found", { id });
    this.changes.push({ id, change });
    return Promise.resolve(record);
  }

  async kill(id: string): Promise<{ record: JobRecord; alreadyTerminal: boolean }> {
    const alreadyTerminal = this.#job(id).status === "cancelled";
    if (!alreadyTerminal) this.end(id, "cancelled");
    return { record: this.#job(id), alreadyTerminal };
  }

  readonly removed = new Map<string, string>();
  remove(id: string): Promise<{ id: string; freed_bytes: number }> {
    this.records.delete(id);
    this.removed.set(id, "2026-01-02T03:04:05.000Z");
    return Promise.resolve({ id, freed_bytes: 0 });
  }

  readonly removedCheckpoints: CheckpointRemovalBody[] = [];
  removeCheckpoints(id: string, body: CheckpointRemovalBody): Promise<CheckpointsRemoved> {
    const name = body.names[0] ?? "";
    if (this.#job(id).status === "running")
      return Promise.reject(
        new SvcError("checkpoint_not_removable", { id, name, why: "the run has not ended", remedy: "Wait." }),
      );
    this.removedCheckpoints.push(body);
    const checkpoints = body.names.map((each) => ({ name: each, files: 1, bytes: 10 }));
    return Promise.resolve({ id, dry_run: body.dry_run, checkpoints, freed_bytes: 10, linked_bytes: 0, left_bytes: 0 });
  }

  async killAll(): Promise<string[]> {
    const ids = [...this.records.values()].filter((r) => r.status === "running").map((r) => r.id);
    for (const id of ids) this.end(id, "cancelled");
    return ids;
  }

  async reconcile({ dryRun }: { dryRun: boolean }): ReturnType<ControlPlane["reconcile"]> {
    this.reconciled.push(dryRun);
    return {
      dry_run: dryRun,
      replayed: [],
      resumed: [],
      ending: [],
      terminated: [],
      failed: [],
      unreachable_providers: [],
      foreign: [],
    };
  }

  offers({ gpus = "A40", provider = "podhost", price_cap }: OffersQuery): Promise<Offers> {
    const offer = {
      id: "one",
      provider,
      gpus,
      spot: false,
      price_per_hour_usd: 0.5,
      facts: { place: "EU" },
      avoided: null,
    };
    return Promise.resolve({
      offers: [{ ...offer, within_cap: price_cap === undefined || price_cap >= 0.5, age_seconds: 0 }],
      asked: [{ provider, gpus, offers_total: 1, error: null }],
      open: 0,
    });
  }

  plan({ spec }: SubmitBody): ReturnType<ControlPlane["plan"]> {
    return Promise.resolve({
      provider: spec.provider,
      gpus: spec.gpus,
      nodes: spec.nodes,
      project_dir: "/project",
      offers: [],
      offers_total: 0,
      candidates: [],
      order: [],
      price_per_hour_usd: null,
      cost_max_usd: null,
      budget_usd: null,
      budget_lasts_seconds: null,
      history: null,
      leftOutList: () => null,
      code: null,
      install: null,
      start: null,
      account: null,
      stops: [],
      warnings: [],
      refusals: [],
    });
  }

  example(): null {
    return null;
  }

  providers(): ReturnType<ControlPlane["providers"]> {
    const capabilities = {
      runs_here: false,
      bills: true,
      gpus: "optional" as const,
      owns_machine: true,
      reports_price: true,
      nodes_max: 1,
      self_end: false,
      list_by_tag: true,
      spot: false,
    };
    return [
      {
        name: "local",
        speaks: "this computer",
        connected: true,
        source: "none_needed",
        missing: [],
        capabilities,
        stops_by_itself: "never",
      },
    ];
  }

  subscribe(listener: (event: FeedEvent | FeedHint | HubPullHint) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async shutdown(): Promise<{ unfinished: string[] }> {
    return { unfinished: [] };
  }
}

const toClose: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of toClose.splice(0)) await close();
});

/** A server over a fresh double; closed after the test. */
export async function serve(
  options: Partial<ServerOptions> = {},
): Promise<{ plane: PlaneDouble; server: RunningServer; lines: string[] }> {
  const plane = new PlaneDouble();
  const lines: string[] = [];
  const server = await startServer(plane, {
    host: "127.0.0.1",
    port: 0,
    projectDir: "/projects/mine",
    dashboardDir: null,
    version: "9.8.7",
    log: (line) => lines.push(line),
    ...options,
  });
  toClose.push(async () => {
    await server.close();
    rmSync(plane.home, { recursive: true, force: true });
  });
  return { plane, server, lines };
}
