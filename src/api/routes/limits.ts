import { HomeLimits, LimitsChange } from "../../schemas/limits.ts";
import { ok, route } from "../route.ts";

/** The limits of all runs together. */
export const LIMIT_ROUTES = [
  route({
    method: "GET",
    path: "/v1/limits",
    id: "getLimits",
    summary: "The limits of this home, what counts under them, and the runs that wait for them",
    description:
      "Dollars of a day and a month are the ledger's costs since midnight or since the first, and what open runs may still cost at most. Runs on this computer and in notebooks count under no limit.",
    responses: { 200: { description: "The limits.", schema: HomeLimits } },
    errors: [],
    handle: (call) => ok(call.cp.reads.limits()),
  }),
  route({
    method: "PUT",
    path: "/v1/limits",
    id: "setLimits",
    summary: "Set or remove limits of this home",
    description:
      "A limit below what is used or reserved ends no run: nothing new starts until there is room. Runs that fit under higher limits start at once.",
    body: LimitsChange,
    responses: { 200: { description: "All limits after the change.", schema: HomeLimits } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type"],
    handle: async (call) => ok(await call.cp.setLimits(call.body)),
  }),
];
