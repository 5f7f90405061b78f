// Routes for runs: submit, plan, list, read, kill and delete. The engine decides; a handler only calls it.

import { z } from "zod";
import {
  Checkpoints,
  JobRecord,
  JobsFilter,
  JobsPage,
  JobsQuery,
  Metrics,
  MetricsQuery,
  ResumePoints,
  Timeline,
} from "../../schemas/job.ts";
import { JobChange } from "../../schemas/change.ts";
import { Placements } from "../../schemas/placement.ts";
import { CheckpointRemovalBody, CheckpointsRemoved, Removed } from "../../schemas/removal.ts";
import { JobSinks } from "../../schemas/sink-status.ts";
import { Plan, Summary } from "../../schemas/plan.ts";
import { SubmitBody } from "../../schemas/spec.ts";
import { invalid } from "../field-errors.ts";
import { turn } from "../log-index.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";
import { ANSWER_POINTS_MAX } from "./series.ts";

const JobIds = z.object({ jobs: z.array(z.string()) }).meta({ id: "JobIds" });
const Empty = z.strictObject({});

/** Submitting, reading and ending jobs. */
export const JOB_ROUTES = [
  route({
    method: "POST",
    path: "/jobs",
    id: "submitJob",
    summary: "Start a run",
    description:
      "When this answers, the job is stored durably. Repeating the call with the same Idempotency-Key and body starts no second job.",
    headers: { "Idempotency-Key": "1 to 200 visible ASCII characters of your choice; one per run you mean to start." },
    body: SubmitBody,
    responses: { 201: { description: "The job record; the Location header has its address.", schema: JobRecord } },
    errors: [
      "invalid_request",
      "invalid_json",
      "entrypoint_not_found",
      "entrypoint_outside_project",
      "entrypoint_not_runnable",
      "project_dir_refused",
      "nodes_unsupported",
      "gpus_unsupported",
      "spot_unsupported",
      "feature_unavailable",
      "data_unavailable",
      "provider_unavailable",
      "idempotency_conflict",
      "body_too_large",
      "unsupported_media_type",
      "disk_full",
      "sink_credentials",
      "sink_refused",
      "budget_too_small",
      "budget_rate_unknown",
    ],
    async handle(call) {
      const key = idempotencyKey(call);
      const { record, created } = await call.cp.submit(call.body, {
        defaultProjectDir: call.projectDir,
        ...(key === null ? {} : { idempotencyKey: key }),
      });
      const headers = { location: `/jobs/${record.id}`, ...(created ? {} : { "idempotency-replayed": "true" }) };
      return { status: 201, body: record, headers };
    },
  }),
  route({
    method: "POST",
    path: "/v1/plan",
    id: "planJob",
    summary: "Preview what a run would rent, send and cost",
    description:
      "Takes the same body as `POST /jobs`. Asks the provider for offers, but rents, starts and stores nothing; the response lists what would be refused.",
    body: SubmitBody,
    responses: { 200: { description: "The plan.", schema: Plan } },
    errors: ["invalid_request", "invalid_json", "body_too_large", "unsupported_media_type"],
    handle: async (call) => ok(await call.cp.plan(call.body, { defaultProjectDir: call.projectDir })),
  }),
  route({
    method: "GET",
    path: "/v1/summary",
    id: "summary",
    summary: "Number of runs by status",
    description: "Counts all runs, or those that the filter selects.",
    query: JobsFilter,
    responses: { 200: { description: "The numbers, and an example to start with.", schema: Summary } },
    errors: ["invalid_request"],
    handle(call) {
      const runs = call.cp.reads.countByStatus(call.query);
      const total = Object.values(runs).reduce((sum, n) => sum + n, 0);
      return ok({ runs, total, example: call.cp.example() });
    },
  }),
  route({
    method: "GET",
    path: "/jobs",
    id: "listJobs",
    summary: "List jobs, newest first",
    query: JobsQuery,
    responses: { 200: { description: "One page; `next_cursor` is null on the last.", schema: JobsPage } },
    errors: ["invalid_request"],
    handle: (call) => ok(call.cp.reads.jobs(call.query)),
  }),
  route({
    method: "POST",
    path: "/jobs/kill",
    id: "killAllJobs",
    summary: "End every job and release its machines",
    body: z.strictObject({ all: z.literal(true, { error: "must be true" }) }).meta({ id: "KillAllBody" }),
    responses: { 202: { description: "Ids of the jobs that are now ending.", schema: JobIds } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type"],
    handle: async (call) => ({ status: 202, body: { jobs: await call.cp.killAll() } }),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}",
    id: "getJob",
    summary: "One job record",
    responses: { 200: { description: "The job record.", schema: JobRecord } },
    errors: [...NO_JOB],
    handle: (call) => ok(jobOf(call)),
  }),
  route({
    method: "PATCH",
    path: "/jobs/{id}",
    id: "changeJob",
    summary: "Change the limits, the label or the tags of a run",
    description:
      "When this answers, the change is stored durably, and the guards of the run's machines have the new deadlines or get them with their next contact. Idempotent. A run that has ended accepts only a label and tags; while the end is under way limits cannot be changed.",
    body: JobChange,
    responses: { 200: { description: "The job record.", schema: JobRecord } },
    errors: [
      ...NO_JOB,
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "change_refused",
      "budget_rate_unknown",
    ],
    handle: async (call) => ok(await call.cp.change(jobOf(call).id, call.body)),
  }),
  route({
    method: "POST",
    path: "/jobs/{id}/kill",
    id: "killJob",
    summary: "End a job and release its machines",
    description:
      "When this answers, the kill is stored durably; the job then passes through `terminating`. Idempotent.",
    body: Empty.optional(),
    responses: {
      200: { description: "The job had already ended.", schema: JobRecord },
      202: { description: "The kill is recorded.", schema: JobRecord },
    },
    errors: [...NO_JOB],
    async handle(call) {
      const { record, alreadyTerminal } = await call.cp.kill(jobOf(call).id);
      return { status: alreadyTerminal ? 200 : 202, body: record };
    },
  }),
  route({
    method: "DELETE",
    path: "/jobs/{id}",
    id: "removeJob",
    summary: "Delete a finished run",
    description:
      "Deletes its log, metrics, local checkpoints and sealed secrets, and code that no other run uses; copies in sinks and the costs in the machine ledger stay. An interrupted deletion is finished at the next start.",
    responses: { 200: { description: "The run is deleted; its id answers 404 from now on.", schema: Removed } },
    errors: [...NO_JOB, "job_not_removable"],
    handle: async (call) => ok(await call.cp.remove(jobOf(call).id)),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/metrics",
    id: "getMetrics",
    summary: "Metrics of a job",
    description: "`max_points` downsamples each series and keeps its extremes.",
    query: MetricsQuery,
    responses: { 200: { description: "Points by series.", schema: Metrics } },
    errors: [...NO_JOB, "invalid_request"],
    async handle(call) {
      const { id } = jobOf(call);
      const { name, max_points = Infinity, ...query } = call.query;
      const all = call.cp.reads.seriesList(id).filter((each) => name === undefined || each.name === name);
      const points = all.reduce((sum, each) => sum + each.points, 0);
      const share = points <= ANSWER_POINTS_MAX ? Infinity : Math.max(2, Math.floor(ANSWER_POINTS_MAX / all.length));
      // Without a prototype: a script may call its metric `__proto__`.
      const series = Object.create(null) as Metrics["series"];
      for (const each of all) {
        const most = Math.min(max_points, share);
        const one = { ...query, name: each.name, ...(most === Infinity ? {} : { max_points: most }) };
        series[each.name] = call.cp.reads.metrics(id, one).series[each.name] ?? [];
        // Reading long series takes a while, and must not delay a run.
        await turn();
      }
      return ok({ series } satisfies Metrics);
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/timeline",
    id: "getTimeline",
    summary: "Steps, attempts and transitions of a job",
    responses: { 200: { description: "The timeline.", schema: Timeline } },
    errors: [...NO_JOB],
    handle: (call) => ok(call.cp.reads.timeline(jobOf(call).id)),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/placements",
    id: "listPlacements",
    summary: "Machines that a job has used, one after the other, and what it waits for",
    description:
      "A placement is one pass from an order to the proof that its machines are gone. `waiting` is set while the job looks for a machine: then nothing is billed.",
    responses: { 200: { description: "The placements, oldest first.", schema: Placements } },
    errors: ["job_not_found"],
    handle: (call) => ok(call.cp.reads.placements(jobOf(call).id)),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/checkpoints",
    id: "listCheckpoints",
    summary: "Checkpoint files of a job",
    responses: { 200: { description: "The downloaded files.", schema: Checkpoints } },
    errors: [...NO_JOB],
    handle: (call) => ok({ files: call.cp.reads.checkpoints(jobOf(call).id) }),
  }),
  route({
    method: "POST",
    path: "/jobs/{id}/checkpoints/remove",
    id: "removeCheckpoints",
    summary: "Delete checkpoints of a finished run",
    description:
      "Deletes the files of the named checkpoints on this computer, all or none; copies in sinks stay. When this answers, the removal is stored durably, and no run can resume from them. With `dry_run` nothing is deleted, and the response says how much space it would free. Idempotent.",
    body: CheckpointRemovalBody,
    responses: { 200: { description: "The checkpoints are deleted.", schema: CheckpointsRemoved } },
    errors: [
      ...NO_JOB,
      "checkpoint_not_found",
      "checkpoint_not_removable",
      "invalid_request",
      "invalid_json",
      "body_too_large",
      "unsupported_media_type",
    ],
    handle: async (call) => ok(await call.cp.removeCheckpoints(jobOf(call).id, call.body)),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/resume-points",
    id: "listResumePoints",
    summary: "Complete checkpoints of a job that another run can resume from",
    description:
      "Checkpoints that are complete on this computer, the newest first, 200 at most. svc looks into the files of each.",
    responses: { 200: { description: "The complete checkpoints.", schema: ResumePoints } },
    errors: [...NO_JOB],
    handle: async (call) => ok({ checkpoints: await call.cp.resumePoints(jobOf(call).id) }),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/sinks",
    id: "listSinks",
    summary: "Upload progress of each sink of a job",
    responses: { 200: { description: "One entry per sink, in the order of the spec.", schema: JobSinks } },
    errors: [...NO_JOB],
    handle: (call) => ok({ sinks: call.cp.reads.sinks(jobOf(call).id) }),
  }),
  route({
    method: "POST",
    path: "/jobs/{id}/sinks/retry",
    id: "retrySinks",
    summary: "Retry failed uploads to the job's sinks now",
    description: "Also resumes a sink that svc gave up on after the end of the run.",
    body: Empty.optional(),
    responses: { 202: { description: "The present upload progress.", schema: JobSinks } },
    errors: [...NO_JOB, "sinks_none"],
    async handle(call) {
      const { id } = jobOf(call);
      await call.cp.retrySinks(id);
      return { status: 202, body: { sinks: call.cp.reads.sinks(id) } };
    },
  }),
];

function idempotencyKey(call: Call): string | null {
  const given = call.request.headers["idempotency-key"];
  if (given === undefined) return null;
  if (typeof given === "string" && /^[\x21-\x7e]{1,200}$/.test(given)) return given;
  throw invalid([{ field: "Idempotency-Key", message: "must be 1 to 200 visible ASCII characters without spaces" }]);
}
