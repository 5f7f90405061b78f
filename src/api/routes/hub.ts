import { z } from "zod";
import { HubAdoptBody, HubAdopted, HubModel, HubPull, HubPullBody, HubPulled, ModelId } from "../../schemas/hub.ts";
import { invalid } from "../field-errors.ts";
import { ok, route, type Call } from "../route.ts";

const OnePull = z.object({ pull: HubPull }).meta({ id: "HubPullAnswer" });
const Empty = z.strictObject({});
/** What a pull may end with. */
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

/** Pulling models, and the models that are here. */
export const HUB_ROUTES = [
  route({
    method: "POST",
    path: "/v1/hub/pull",
    id: "pullModel",
    summary: "Download a model",
    description:
      "Whoever asks for the same while it runs joins it. It goes on without the caller, over lost connections, and after a crash of the " +
      "control plane. `wait=true` answers when the model lies there whole. Progress: `pull.progress` hints on the feed.",
    query: z.strictObject({
      wait: z
        .enum(["true", "false", "1", "0"])
        .transform((w) => w === "true" || w === "1")
        .optional(),
    }),
    body: HubPullBody,
    responses: {
      200: { description: "With `wait`: the model is there.", schema: HubPulled },
      202: { description: "The pull goes on by itself.", schema: OnePull },
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
        description: "The recent ones, those that run among them.",
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
    responses: { 200: { description: "How it stands.", schema: OnePull } },
    errors: ["hub_pull_not_found"],
    handle: (call) => ok({ pull: call.cp.hub.get(pullId(call)) }),
  }),
  route({
    method: "POST",
    path: "/v1/hub/pulls/{id}/cancel",
    id: "cancelPull",
    summary: "Cancel a pull",
    description:
      "What had come is kept: the next pull of the same goes on from there. One that has ended stays as it is.",
    body: Empty.optional(),
    responses: { 200: { description: "How it ended.", schema: OnePull } },
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
        description: "Pulled, in the cache, and adopted.",
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
    summary: "Use a model that lies on the disk",
    description: "The folder is checked and listed from then on. Nothing is copied.",
    body: HubAdoptBody,
    responses: { 200: { description: "What it is.", schema: HubAdopted } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type", "hub_model_unusable"],
    handle: async (call) => ok(await call.cp.hub.adopt(call.body.path)),
  }),
  route({
    method: "DELETE",
    path: "/v1/hub/models/{path}",
    id: "removeModel",
    summary: "Remove a model",
    description:
      "The path is the model's id, `owner/name`. Its folder in the home and its part of the cache go; a folder of your own choice stays.",
    responses: {
      200: {
        description: "What is gone.",
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
