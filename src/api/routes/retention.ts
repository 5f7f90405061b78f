// Routes of the retention rule of a home, and of archived runs, which it leaves alone.

import { z } from "zod";
import { JobRecord } from "../../schemas/job.ts";
import { OldRuns, HomeRetention, RetentionChange, RetentionQuery } from "../../schemas/retention.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";

const Empty = z.strictObject({});

async function archived(call: Call, isArchived: boolean) {
  const { id } = jobOf(call);
  return ok(await call.cp.retention.archive(id, isArchived));
}

export const RETENTION_ROUTES = [
  route({
    method: "GET",
    path: "/v1/retention",
    id: "getRetention",
    summary: "The rule that removes ended runs by age, what it has removed and what it would remove now",
    responses: { 200: { description: "The rule; null if none is set.", schema: HomeRetention } },
    errors: [],
    handle: (call) => ok(call.cp.retention.state()),
  }),
  route({
    method: "GET",
    path: "/v1/retention/preview",
    id: "previewRetention",
    summary: "The runs that a rule would remove now",
    description: "Sets no rule and deletes nothing.",
    query: RetentionQuery,
    responses: { 200: { description: "The runs and their size.", schema: OldRuns } },
    errors: ["invalid_request"],
    handle: (call) => {
      const { older_than, keep_best = null, keep_newest = null } = call.query;
      return ok(call.cp.retention.preview({ older_than, keep_best, keep_newest }));
    },
  }),
  route({
    method: "PUT",
    path: "/v1/retention",
    id: "setRetention",
    summary: "Set or remove the rule that removes ended runs by age",
    description:
      "The running control plane applies the rule an hour later, then once an hour, and at each start. It deletes each run as `DELETE /jobs/{id}` does. Runs that are archived or in use stay. Saving a rule takes the computer's present date as right.",
    body: RetentionChange,
    responses: { 200: { description: "The rule and what it would remove now.", schema: HomeRetention } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type"],
    handle: async (call) => ok(await call.cp.retention.set(call.body.rule)),
  }),
  route({
    method: "POST",
    path: "/jobs/{id}/archive",
    id: "archiveJob",
    summary: "Archive a finished run",
    description:
      "Lists leave an archived run out, and neither `svc prune` nor the retention rule removes it. Its files stay. Idempotent.",
    body: Empty.optional(),
    responses: { 200: { description: "The job record.", schema: JobRecord } },
    errors: [...NO_JOB, "job_not_archivable"],
    handle: (call) => archived(call, true),
  }),
  route({
    method: "POST",
    path: "/jobs/{id}/unarchive",
    id: "unarchiveJob",
    summary: "List an archived run again",
    description: "The retention rule may remove it again. Idempotent.",
    body: Empty.optional(),
    responses: { 200: { description: "The job record.", schema: JobRecord } },
    errors: [...NO_JOB, "job_not_archivable"],
    handle: (call) => archived(call, false),
  }),
];
