import { CostReport, CostsQuery, Receipt } from "../../schemas/costs.ts";
import { jobOf, NO_JOB, ok, route } from "../route.ts";

/** The costs of machines, from the ledger. */
export const COST_ROUTES = [
  route({
    method: "GET",
    path: "/v1/costs",
    id: "getCosts",
    summary: "Costs of machines, with the waste in fields of its own",
    description:
      "By day, month, provider, project, label or GPU, from the ledger. Days begin at midnight in the time zone of the control plane. A machine without a " +
      "reported price adds hours, and no dollars: `cost_usd` is null where no price is known.",
    query: CostsQuery,
    responses: { 200: { description: "The sums.", schema: CostReport } },
    errors: ["invalid_request"],
    handle: (call) => ok(call.cp.reads.costs(call.query)),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/receipt",
    id: "getReceipt",
    summary: "Cost of each machine of a job, and the proof of its end",
    responses: { 200: { description: "The receipt.", schema: Receipt } },
    errors: [...NO_JOB],
    handle: (call) => ok(call.cp.reads.receipt(jobOf(call).id)),
  }),
];
