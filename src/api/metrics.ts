// Provides the metrics of `GET /metrics` for a Prometheus server: runs, machines, money, requests, and the process
// itself.
//
// METRICS-1. A scrape reads the store as any route does. It asks no provider and starts nothing.
// METRICS-2. Label values come from fixed lists (statuses, providers, routes): a run, a file or a secret never becomes a label.
// METRICS-3. A price that no provider reports is counted apart and never shown as 0.
// METRICS-4. The process's own metrics, whose timers wake an idle process, are collected from the first scrape on.
//
// `startServer` owns one instance per server. Requests are counted from the first one that is answered after the library has loaded.

import type { Counter, Histogram, Registry } from "prom-client";
import type { Reads } from "../store/reads.ts";

interface Collectors {
  registry: Registry;
  collectProcess: () => void;
  requests: Counter<"method" | "route" | "status">;
  seconds: Histogram<"method" | "route">;
}

/** Upper bounds of the request histogram, in seconds. A page of the dashboard answers in 1 to 20 ms, a plan waits for providers. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class ServerMetrics {
  readonly #reads: Reads;
  readonly #version: string;
  #collectors: Promise<Collectors> | null = null;
  #ready: Collectors | null = null;
  #scraped = false;

  readonly #notifications: () => { kind: string; result: string; n: number }[];

  constructor(reads: Reads, version: string, notifications: () => { kind: string; result: string; n: number }[]) {
    this.#notifications = notifications;
    this.#reads = reads;
    this.#version = version;
  }

  /** Loads the library, so that requests are counted from then on. Not part of the start, which it would slow down. */
  load(): void {
    this.#load().catch(() => undefined);
  }

  /** @param route the pattern of the route, for example `/jobs/{id}`; never the requested path. */
  observe(method: string, route: string, status: number, seconds: number): void {
    this.#ready?.requests.inc({ method, route, status: String(status) });
    this.#ready?.seconds.observe({ method, route }, seconds);
  }

  /** The page in Prometheus' text format, and its content type. */
  async page(): Promise<{ text: string; contentType: string }> {
    const { registry, collectProcess } = await this.#load();
    if (!this.#scraped) collectProcess();
    this.#scraped = true;
    return { text: await registry.metrics(), contentType: registry.contentType };
  }

  #load(): Promise<Collectors> {
    this.#collectors ??= import("prom-client").then(({ default: client }) => {
      const registry = new client.Registry();
      this.#gauges(client, registry);
      this.#ready = {
        registry,
        collectProcess: () => client.collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 }),
        requests: new client.Counter({
          name: "svc_http_requests_total",
          help: "Answered requests by route and status code.",
          labelNames: ["method", "route", "status"],
          registers: [registry],
        }),
        seconds: new client.Histogram({
          name: "svc_http_request_duration_seconds",
          help: "Time from the request's headers to the end of its answer.",
          labelNames: ["method", "route"],
          buckets: SECONDS,
          registers: [registry],
        }),
      };
      return this.#ready;
    });
    return this.#collectors;
  }

  #gauges(client: typeof import("prom-client"), registry: Registry): void {
    const reads = this.#reads;
    const notifications = this.#notifications;
    const build = { name: "svc_build_info", help: "Always 1.", labelNames: ["version"] };
    const info = new client.Gauge({ ...build, registers: [] });
    info.set({ version: this.#version }, 1);
    const metrics = [
      info,
      new client.Gauge({
        name: "svc_jobs",
        help: "Runs in the store, by status.",
        labelNames: ["status"],
        registers: [],
        collect() {
          this.reset();
          for (const [status, n] of Object.entries(reads.countByStatus({ archived: "all" }))) this.set({ status }, n);
        },
      }),
      new client.Gauge({
        name: "svc_machines",
        help: "Machines that may cost money now, by provider and state.",
        labelNames: ["provider", "state"],
        registers: [],
        collect() {
          this.reset();
          for (const { provider, state } of reads.machines()) this.inc({ provider, state });
        },
      }),
      new client.Gauge({
        name: "svc_machines_price_usd_per_hour",
        help: "Sum of the known prices of machines that may cost money now.",
        labelNames: ["provider"],
        registers: [],
        collect() {
          this.reset();
          for (const { provider, price_per_hour_usd } of reads.machines())
            if (price_per_hour_usd !== null) this.inc({ provider }, price_per_hour_usd);
        },
      }),
      new client.Gauge({
        name: "svc_machines_without_price",
        help: "Machines that may cost money now with no price reported by the provider.",
        labelNames: ["provider"],
        registers: [],
        collect() {
          this.reset();
          for (const { provider, price_per_hour_usd } of reads.machines())
            if (price_per_hour_usd === null) this.inc({ provider });
        },
      }),
      new client.Counter<string>({
        name: "svc_notifications_total",
        help: "Attempts to send a notification since this process started, by kind of target and result.",
        labelNames: ["kind", "result"],
        registers: [],
        collect() {
          this.reset();
          for (const { kind, result, n } of notifications()) this.inc({ kind, result }, n);
        },
      }),
      new client.Counter({
        name: "svc_events_total",
        help: "Events in the feed since this home was created.",
        registers: [],
        collect() {
          this.reset();
          this.inc(reads.latestSeq());
        },
      }),
    ];
    for (const metric of metrics) registry.registerMetric(metric);
  }
}
