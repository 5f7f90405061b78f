// Routes for models: pulls with their progress, and models on this computer.

import { z } from "zod";
import { HubAdoptBody, HubAdopted, HubModel, HubPull, HubPullBody, HubPulled, ModelId } from "../../schemas/hub.ts";
import { invalid } from "../field-errors.ts";
import { ok, route, type Call } from "../route.ts";

const OnePull = z.object({ pull: HubPull }).meta({ id: "HubPullAnswer" });
const Empty = z.strictObject({});
/** The errors with which a pull may end. */
const PULL_ERRORS = [
  "hub_model_not_found",
  "hub_revision_not_found",
  "hub_gated",
  "hub_token_refused",
  "hub_refused",
  "hub_rate_limited",
  "hub_unreachable",
  "hub_bad_answer",
  "hub_file_corrupt",
  "hub_path_refused",
  "hub_nothing_matches",
  "hub_no_room",
  "hub_folder_refused",
  "hub_pull_ended",
  "disk_full",
] as const;

const pullId = (call: Call): string => call.params["id"] ?? "";

/** Routes for pulling models, and for the models on this computer. */
export const HUB_ROUTES = [
  route({
    method: "POST",
    path: "/v1/hub/pull",
    id: "pullModel",
    summary: "Download a model",
    description:
      "A second request for the same model joins the active pull. The pull continues without the caller, after lost connections, and after a crash of the " +
      "control plane. `wait=true` answers when the download is complete. Progress: `pull.progress` hints on the feed.",
    query: z.strictObject({
      wait: z
        .enum(["true", "false", "1", "0"])
        .transform((w) => w === "true" || w === "1")
        .optional(),
    }),
    body: HubPullBody,
    responses: {
      200: { description: "With `wait`: the downloaded model.", schema: HubPulled },
      202: { description: "The download continues in the background.", schema: OnePull },
    },
    errors: [
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "extra_missing",
      "credential_missing",
      "shutting_down",
      ...PULL_ERRORS,
    ],
    async handle(call) {
      const pull = call.cp.hub.pull(call.body);
      if (call.query.wait) return ok(await call.cp.hub.wait(pull.id));
      return { status: 202, body: { pull }, headers: { location: `/v1/hub/pulls/${pull.id}` } };
    },
  }),
  route({
    method: "GET",
    path: "/v1/hub/pulls",
    id: "listPulls",
    summary: "Pulls, newest first",
    responses: {
      200: {
        description: "Recent and active pulls.",
        schema: z.object({ pulls: z.array(HubPull) }).meta({ id: "HubPulls" }),
      },
    },
    errors: [],
    handle: (call) => ok({ pulls: call.cp.hub.list() }),
  }),
  route({
    method: "GET",
    path: "/v1/hub/pulls/{id}",
    id: "getPull",
    summary: "One pull",
    responses: { 200: { description: "The state of the pull.", schema: OnePull } },
    errors: ["hub_pull_not_found"],
    handle: (call) => ok({ pull: call.cp.hub.get(pullId(call)) }),
  }),
  route({
    method: "POST",
    path: "/v1/hub/pulls/{id}/cancel",
    id: "cancelPull",
    summary: "Cancel a pull",
    description:
      "The downloaded part is kept: the next pull of the same model resumes from it. A pull that has ended is not changed.",
    body: Empty.optional(),
    responses: { 200: { description: "The state of the pull after the call.", schema: OnePull } },
    errors: ["hub_pull_not_found"],
    handle: async (call) => ok({ pull: await call.cp.hub.cancel(pullId(call)) }),
  }),
  route({
    method: "GET",
    path: "/v1/hub/models",
    id: "listModels",
    summary: "Models on this computer",
    responses: {
      200: {
        description: "Downloaded, cached and adopted models.",
        schema: z.object({ models: z.array(HubModel) }).meta({ id: "HubModels" }),
      },
    },
    errors: ["credential_missing"],
    handle: async (call) => ok({ models: await call.cp.hub.models() }),
  }),
  route({
    method: "POST",
    path: "/v1/hub/models",
    id: "adoptModel",
    summary: "Register a model that is on this computer",
    description: "svc checks the folder and lists it from then on. Nothing is copied.",
    body: HubAdoptBody,
    responses: { 200: { description: "The registered model.", schema: HubAdopted } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type", "hub_model_unusable"],
    handle: async (call) => ok(await call.cp.hub.adopt(call.body.path)),
  }),
  route({
    method: "DELETE",
    path: "/v1/hub/models/{path}",
    id: "removeModel",
    summary: "Remove a model",
    description:
      "The path is the model's id, `owner/name`. Deletes its folder in the home and its part of the cache; a folder that you chose yourself stays.",
    responses: {
      200: {
        description: "The removed model.",
        schema: z.object({ removed: z.array(z.string()) }).meta({ id: "HubRemoved" }),
      },
    },
    errors: ["invalid_request", "hub_model_not_here", "hub_model_in_use", "credential_missing"],
    async handle(call) {
      const id = ModelId.safeParse(call.params["path"] ?? "");
      if (!id.success) throw invalid([{ field: "model_id", message: "must be owner/name" }]);
      return ok({ removed: await call.cp.hub.remove(id.data) });
    },
  }),
];
