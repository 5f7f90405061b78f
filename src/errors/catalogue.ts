// The one catalogue of error codes. A code carries what a program needs (status, exit, retry) and what a person needs
// (message: what happened and what it means for the machine and the money; hint: what to do). docs/reference/errors.md is generated.

import { DESCRIPTORS, PROVIDER_NAMES, THIS_COMPUTER } from "../providers/descriptors.ts";
import { BUDGET } from "./budget.ts";
import { entry } from "./entry.ts";
import { FILES } from "./files.ts";
import { HOME } from "./home.ts";
import { HUB } from "./hub.ts";
import { HOME_LIMITS } from "./limits.ts";
import { NOTIFY } from "./notify.ts";
import { RENTED } from "./rented.ts";
import { RELEASED, RUNS } from "./runs.ts";
import { SECRETS } from "./secrets.ts";
import { SINKS } from "./sinks.ts";

export type { Retry } from "./entry.ts";

/** The providers that can run several nodes, for a person. */
const SEVERAL_NODES = PROVIDER_NAMES.filter((name) => DESCRIPTORS[name].capabilities.nodes_max > 1).join(" and ");
/** Those with spot machines. */
const WITH_SPOT = PROVIDER_NAMES.filter((name) => DESCRIPTORS[name].capabilities.spot).join(" or ");

/** How many of the runs that a prefix may mean an error lists. A query reads one more, to know whether it must add "…". */
export const MATCHES_SHOWN = 4;

export const CATALOGUE = {
  // Invalid requests
  invalid_request: entry<{ summary: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => d.summary,
    hint: "Correct the fields listed. Nothing was started or changed.",
  }),
  invalid_json: entry<{ reason: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The request body is not valid JSON: ${d.reason}.`,
    hint: "Send one JSON object in UTF-8. Nothing was started.",
  }),
  body_too_large: entry<{ max: number }>({
    status: 413,
    exit: 2,
    retry: "never",
    message: (d) => `The request body is larger than ${d.max} bytes.`,
    hint: "Put large data into files of the project directory instead. Nothing was started.",
  }),
  unsupported_media_type: entry({
    status: 415,
    exit: 2,
    retry: "never",
    message: () => "Request bodies must be sent with Content-Type: application/json.",
    hint: "Set the header `Content-Type: application/json`. Nothing was started.",
  }),
  method_not_allowed: entry<{ allow: string }>({
    status: 405,
    exit: 2,
    retry: "never",
    message: (d) => `This path accepts only ${d.allow}.`,
    hint: "/v1/openapi.json lists every path and method.",
  }),
  entrypoint_not_found: entry<{ entrypoint: string; project_dir: string; near?: string | null }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `There is no file ${d.entrypoint} in ${d.project_dir}.`,
    hint: (d) =>
      `${d.near ? `Did you mean ${d.near}? ` : ""}Give a path inside project_dir, or \`-m package.module\`. Nothing was started and nothing costs money.`,
  }),
  entrypoint_outside_project: entry<{ entrypoint: string; project_dir: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The entrypoint ${d.entrypoint} is outside ${d.project_dir}.`,
    hint: "svc sends only the files in project_dir to the machine: move the script there, or set project_dir (`svc plan --project-dir`) to the folder that contains it. Nothing was started and nothing costs money.",
  }),
  entrypoint_not_runnable: entry<{ entrypoint: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The entrypoint ${d.entrypoint} ${d.why}.`,
    hint: `Use a .py or .sh file, an executable file (\`chmod +x\`), or \`-m package.module\`. The script was not started. ${RELEASED}`,
  }),
  project_dir_refused: entry<{ project_dir: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `project_dir ${d.project_dir} ${d.why}.`,
    hint: "Set project_dir to the folder that contains only your project. Nothing was sent anywhere.",
  }),
  nodes_unsupported: entry<{ provider: string; nodes: number; nodes_max: number }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) =>
      `${d.provider} runs at most ${d.nodes_max} ${d.nodes_max === 1 ? "node" : "nodes"} per run; this one asks for ${d.nodes}.`,
    hint: `Ask for fewer nodes; ${SEVERAL_NODES} run several. Nothing was rented.`,
  }),
  spot_unsupported: entry<{ provider: string; spot: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.provider} has no spot machines, and the run asks for them (spot: ${d.spot}).`,
    hint: `Leave spot out, or choose ${WITH_SPOT}. Nothing was rented.`,
  }),
  gpus_unsupported: entry<{ provider: string; gpus: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.provider} does not offer ${d.gpus}.`,
    hint: `\`svc gpus\` lists what each provider usually offers; for ${THIS_COMPUTER}, use gpus=cpu. Nothing was rented.`,
  }),
  idempotency_conflict: entry<{ job_id: string }>({
    status: 409,
    exit: 2,
    retry: "never",
    message: (d) => `This Idempotency-Key was already used to start job ${d.job_id}, with a different request body.`,
    hint: "Use a new key for a new run. No second run was started.",
  }),
  feature_unavailable: entry<{ what: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.what} is not available: ${d.why}.`,
    hint: "Leave the field out. Nothing was started and nothing costs money.",
  }),
  extra_missing: entry<{ extra: string }>({
    status: 501,
    exit: 2,
    retry: "never",
    message: (d) => `This needs the Python extra ${d.extra}, which is not installed. Nothing was started.`,
    hint: (d) =>
      `Run \`pip install 'svc[${d.extra}]'\` in the Python environment that svc is installed in, then restart svc.`,
  }),

  // Things that do not exist
  job_not_found: entry<{ id: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => (d.id === "last" ? "No run has the id last." : `This home has no run ${d.id}.`),
    hint: (d) =>
      d.id === "last"
        ? "On the command line `last` is the newest run, once the home has one. Over HTTP and in the SDKs, give the id of a run; GET /jobs?limit=1 has that of the newest."
        : "`svc jobs --all` lists the runs. If you expected to find it, check SVC_HOME.",
  }),
  job_removed: entry<{ id: string; at: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The run ${d.id} was removed on ${d.at}, with its log and its checkpoints.`,
    hint: "It cannot be restored; its cost stays counted. `svc jobs --all` lists the remaining runs.",
  }),
  job_ambiguous: entry<{ id: string; matches: string[] }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) =>
      `${d.id} matches several runs: ${d.matches.slice(0, MATCHES_SHOWN).join(", ")}${d.matches.length > MATCHES_SHOWN ? ", …" : ""}.`,
    hint: "Give more characters of the id. `svc jobs --all` lists all runs.",
  }),
  machine_not_held: entry<{ job: string; node: number; status: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `Node ${d.node} of job ${d.job} has no machine right now (the job is ${d.status}).`,
    hint: (d) =>
      `\`svc timeline ${d.job}\` shows its progress; a job has a machine from the end of provisioning until the end of terminating.`,
  }),
  file_not_found: entry<{ path: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The run has no file ${d.path}.`,
    hint: "`GET /jobs/{id}/checkpoints` lists the files.",
  }),
  not_found: entry<{ path: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `There is nothing at ${d.path}.`,
    hint: "/v1/openapi.json lists every path.",
  }),

  // Access control
  host_refused: entry<{ host: string }>({
    status: 403,
    exit: 1,
    retry: "never",
    message: (d) => `This server does not accept the host name ${d.host}.`,
    hint: "Use the address that `svc serve` printed.",
  }),
  origin_refused: entry<{ origin: string }>({
    status: 403,
    exit: 1,
    retry: "never",
    message: (d) => `Web pages from ${d.origin} are not allowed to call this server.`,
    hint: "Open the dashboard from the address that `svc serve` printed.",
  }),
  unauthorized: entry({
    status: 401,
    exit: 4,
    retry: "never",
    message: () => "This server requires a token.",
    hint: "Send `Authorization: Bearer <token>`; `svc serve` prints the path of the token file. For a browser, `svc open` prints a link that works once.",
  }),
  too_many_connections: entry({
    status: 503,
    exit: 1,
    retry: "backoff",
    message: () => "Too many connections are open.",
    hint: "Close some dashboard pages and try again. Runs are not affected.",
  }),
  range_not_satisfiable: entry<{ size: number }>({
    status: 416,
    exit: 2,
    retry: "never",
    message: (d) => `The requested range is outside the file, which has ${d.size} bytes.`,
    hint: "Request a range within the file.",
  }),

  // Requests that the server could not parse
  malformed_request: entry<{ why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The request is malformed: ${d.why}.`,
    hint: "/v1/openapi.json lists every path. Nothing was started.",
  }),
  headers_too_large: entry({
    status: 431,
    exit: 2,
    retry: "never",
    message: () => "The request headers are too large.",
    hint: "Send fewer or shorter headers, for example by clearing the cookies of this address.",
  }),
  request_timeout: entry({
    status: 408,
    exit: 1,
    retry: "backoff",
    message: () => "The request did not arrive completely before the timeout.",
    hint: "Send the whole request without pauses. Nothing was started.",
  }),
  upgrade_required: entry({
    status: 426,
    exit: 2,
    retry: "never",
    message: () => "This path accepts only WebSocket connections.",
    hint: "Connect with a WebSocket client: ws://<address>/v1/events.",
  }),

  shutting_down: entry({
    status: 503,
    exit: 5,
    retry: "backoff",
    message: () => "The control plane is shutting down and accepts no new runs.",
    hint: "Start it again with `svc serve`, then resubmit. Nothing was started.",
  }),

  // Errors without a kind of their own
  provider_unavailable: entry<{ provider: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `The provider ${d.provider} cannot be used here: ${d.why}.`,
    hint: "Use provider=local, or connect the provider first. Nothing costs money.",
  }),
  needs_attention: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `svc cannot continue this run from its stored state: ${d.why}. The run is parked; its machine may still cost money.`,
    hint: "Upgrade svc, or run `svc kill`, which ends the run and releases its machine.",
  }),
  usage: entry<{ what: string; instead: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => d.what,
    hint: (d) => d.instead,
  }),
  command_unavailable: entry<{ what: string; instead: string }>({
    status: 400,
    exit: 1,
    retry: "never",
    message: (d) => d.what,
    hint: (d) => d.instead,
  }),
  internal_error: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `An internal error occurred in the control plane: ${d.why}.`,
    hint: "Recorded state is safe, and svc still terminates machines: `svc jobs` shows what may still cost money. Please report this with the log of `svc serve`.",
  }),

  ...HOME,
  ...RUNS,
  ...SECRETS,
  ...HUB,
  ...RENTED,
  ...FILES,
  ...SINKS,
  ...BUDGET,
  ...HOME_LIMITS,
  ...NOTIFY,
} as const;

export type ErrorCode = keyof typeof CATALOGUE;
export type ErrorData<C extends ErrorCode> = Parameters<(typeof CATALOGUE)[C]["message"]>[0];
