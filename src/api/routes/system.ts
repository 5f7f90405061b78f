// Routes that belong to no single run: events, health, metrics, providers, GPUs, machines, hosts, reconcile.

import { z } from "zod";
import { listGpus } from "../../domain/gpus.ts";
import { FeedEvent, FeedHint, Gpu, Health, Machines, ProviderInfo, ReconcileReport } from "../../schemas/job.ts";
import { HostStats } from "../../schemas/hosts.ts";
import { Offers, OffersQuery } from "../../schemas/offers.ts";
import { HubPullHint } from "../../schemas/hub.ts";
import { ProviderName } from "../../schemas/spec.ts";
import { SvcError } from "../../errors/index.ts";
import { EventStream } from "../event-stream.ts";
import { NO_JOB, noJob, ok, route } from "../route.ts";

const EventsQuery = z.strictObject({
  job_id: z.string().max(64).optional(),
  since: z
    .string()
    .regex(/^\d{1,15}$/, "must be the seq of the last event you have, or 0")
    .transform(Number)
    .optional(),
});

/** Routes that do not concern a single job. */
export const SYSTEM_ROUTES = [
  route({
    method: "GET",
    path: "/v1/events",
    id: "events",
    summary: "WebSocket: events as they become durable",
    description:
      "Each message is one FeedEvent, FeedHint or HubPullHint as JSON. `since=<seq>` first replays every later event, then continues live, without gaps or " +
      "duplicates. Without it only new events are sent. A reader that does not keep up is closed with 1013 and can resume with the last seq it has.",
    query: EventsQuery,
    responses: {
      101: {
        description: "Messages.",
        schema: z.union([FeedEvent, FeedHint, HubPullHint]).meta({ id: "FeedMessage" }),
      },
    },
    errors: ["upgrade_required", ...NO_JOB, "invalid_request"],
    handle(call) {
      const id = call.query.job_id;
      if (id !== undefined && !call.cp.reads.job(id)) throw noJob(call, id);
      if (!call.request.ws) throw new SvcError("upgrade_required", {});
      return null;
    },
    socket: (call, socket) =>
      new EventStream(
        socket,
        call.cp,
        { jobId: call.query.job_id ?? null, since: call.query.since ?? null },
        call.limits,
      ).start(),
  }),
  route({
    method: "POST",
    path: "/v1/reconcile",
    id: "reconcile",
    summary: "Compare the ledger with the providers, and terminate orphaned machines",
    description:
      "`dry_run` only reports what would be done. `gone` names a machine whose end you confirm, after you have looked at the provider's console: svc closes its order first. It refuses " +
      "while a run uses the machine, while the provider shows it or does not answer, and unless the key was replaced since the order and the provider does not name the account.",
    body: z
      .strictObject({ dry_run: z.boolean().default(false), gone: z.string().min(1).max(200).optional() })
      .optional(),
    responses: {
      200: { description: "The replayed and resumed runs, and the terminated machines.", schema: ReconcileReport },
    },
    errors: [
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "machine_not_found",
      "machine_not_closable",
      "credential_missing",
      "credential_refused",
      "provider_unavailable",
      "provider_unreachable",
      "provider_error",
    ],
    handle: async ({ cp, body: { dry_run: dryRun = false, gone } = {} }) =>
      ok(await cp.reconcile({ dryRun, ...(gone === undefined ? {} : { gone }) })),
  }),
  route({
    method: "GET",
    path: "/v1/machines",
    id: "listMachines",
    summary: "Machines that may cost money now",
    responses: { 200: { description: "The ledger's open entries.", schema: Machines } },
    errors: [],
    handle: (call) => ok({ machines: call.cp.reads.machines() }),
  }),
  route({
    method: "GET",
    path: "/v1/providers",
    id: "listProviders",
    summary: "Providers, their features and whether they are connected",
    responses: {
      200: {
        description: "Every provider.",
        schema: z.object({ providers: z.array(ProviderInfo) }).meta({ id: "Providers" }),
      },
    },
    errors: [],
    handle: (call) => ok({ providers: call.cp.providers() }),
  }),
  route({
    method: "GET",
    path: "/v1/gpus",
    id: "listGpus",
    summary: "GPU models, their memory and who usually offers them",
    description: "The list is not complete: `gpus` of a run accepts any model.",
    query: z.strictObject({ provider: ProviderName.optional() }),
    responses: {
      200: { description: "The catalogue.", schema: z.object({ gpus: z.array(Gpu) }).meta({ id: "Gpus" }) },
    },
    errors: ["invalid_request"],
    handle: (call) => ok({ gpus: listGpus(call.query.provider) }),
  }),
  route({
    method: "GET",
    path: "/v1/offers",
    id: "listOffers",
    summary: "Offers of the connected providers, with prices",
    description:
      "Asks every connected provider that bills, at most once in five minutes for the same machine, and rents nothing. Without `gpus` it asks for each model that a provider commonly has. " +
      "`within_cap` compares each price with `price_cap`. A provider that fails is in `asked` with its error.",
    query: OffersQuery,
    responses: { 200: { description: "The offers.", schema: Offers } },
    errors: ["invalid_request"],
    handle: async (call) => ok(await call.cp.offers(call.query)),
  }),
  route({
    method: "GET",
    path: "/v1/hosts/stats",
    id: "hostStats",
    summary: "Statistics of the rented machines of this home",
    description:
      "By provider and GPU, of the last 90 days: how many were good, and how long they took to SSH. `avoided` lists the hosts whose offers are tried last, because the newest " +
      "machine on them was bad within 7 days.",
    responses: { 200: { description: "The statistics, and the avoided hosts.", schema: HostStats } },
    errors: [],
    handle: (call) => ok(call.cp.reads.hostStats()),
  }),
  route({
    method: "GET",
    path: "/v1/health",
    id: "health",
    summary: "Whether the control plane is running, and its identity",
    responses: { 200: { description: "The control plane is running.", schema: Health } },
    errors: [],
    handle: (call) =>
      ok({
        status: "ok",
        version: call.version,
        pid: process.pid,
        home: call.cp.home,
        started_at: call.cp.startedAt,
        installation_id: call.cp.installationId,
      }),
  }),
  route({
    method: "GET",
    path: "/metrics",
    id: "prometheusMetrics",
    summary: "Metrics of the control plane for a Prometheus server",
    description:
      "Runs by status, machines and their known prices by provider, requests, and the process itself, in Prometheus' text format. " +
      "The usual access rules apply: when svc listens on more than loopback, a scrape needs the bearer token.",
    responses: { 200: { description: "The metrics.", contentType: "text/plain; version=0.0.4; charset=utf-8" } },
    errors: [],
    async handle(call) {
      const { text, contentType } = await call.metrics.page();
      void call.reply.header("content-type", contentType).header("cache-control", "no-store").send(text);
      return null;
    },
  }),
  route({
    method: "GET",
    path: "/v1/openapi.json",
    id: "openapi",
    summary: "This document",
    responses: { 200: { description: "OpenAPI 3.1." } },
    errors: [],
    handle: (call) => ok(call.openapi()),
  }),
];
