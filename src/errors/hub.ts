// Errors between svc and the hub, and errors about a model on the disk.

import { entry } from "./entry.ts";

const NO_MONEY = "No machine was rented and nothing costs money.";

export const HUB = {
  hub_model_not_found: entry<{ model: string; token: boolean }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) =>
      d.token
        ? `The hub has no model ${d.model} for this token: it does not exist, or it is private and the token has no access to it.`
        : `The hub has no public model ${d.model}: it does not exist, or it is private and no token was sent.`,
    hint: (d) =>
      d.token
        ? `Check the spelling (owner/name) and that the token's account has access to it. ${NO_MONEY}`
        : `Check the spelling (owner/name). For a private model, set HUB_TOKEN or pass the token as \`token\`. ${NO_MONEY}`,
  }),
  hub_revision_not_found: entry<{ model: string; revision: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The model ${d.model} has no branch, tag or commit ${d.revision}.`,
    hint: `Leave revision out for the main branch, or use one listed on the model's page. ${NO_MONEY}`,
  }),
  hub_gated: entry<{ model: string; page: string; token: boolean }>({
    status: 403,
    exit: 4,
    retry: "never",
    message: (d) =>
      d.token
        ? `The model ${d.model} is gated: this token's account has no access yet, or the token lacks the permission to read gated models.`
        : `The model ${d.model} is gated: only accounts with granted access may download it, and no token was sent.`,
    hint: (d) =>
      d.token
        ? `Ask for access at ${d.page}; a fine-grained token also needs permission to read public gated repositories.`
        : `Ask for access at ${d.page}, then set HUB_TOKEN or pass the token as \`token\`.`,
  }),
  hub_token_refused: entry<{ why: string }>({
    status: 403,
    exit: 4,
    retry: "never",
    message: (d) => `The hub rejects the token: ${d.why}.`,
    hint: `Create a new token at the hub and set HUB_TOKEN; public models need no token. ${NO_MONEY}`,
  }),
  hub_refused: entry<{ what: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The hub refused ${d.what}: ${d.why}.`,
    hint: `Check the model's page. The downloaded part is kept; a new pull resumes from it. ${NO_MONEY}`,
  }),
  hub_rate_limited: entry<{ /** Whole. */ wait_seconds: number; token: boolean }>({
    status: 503,
    exit: 1,
    retry: "backoff",
    message: (d) => `The hub limits the request rate and asks to wait ${d.wait_seconds} s.`,
    hint: (d) =>
      d.token
        ? "Pull again later: the download resumes where it stopped."
        : "Without a token the limit is low and shared by every user behind the same address: set HUB_TOKEN. A new pull resumes where this one stopped.",
  }),
  /** `goes_on`: the pull keeps retrying. */
  hub_unreachable: entry<{ host: string; why: string; goes_on?: boolean }>({
    status: 502,
    exit: 5,
    retry: "backoff",
    message: (d) =>
      `${d.host} cannot be reached: ${d.why}.${d.goes_on ? " svc keeps trying for about a minute in the background." : ""}`,
    hint: `Check the network of this computer, and SVC_HUB_URL if it is set. A new pull resumes where this one stopped. ${NO_MONEY}`,
  }),
  hub_bad_answer: entry<{ what: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The hub's answer for ${d.what} cannot be used: ${d.why}.`,
    hint: "If SVC_HUB_URL points to a mirror, check the mirror. Nothing from that answer was kept.",
  }),
  hub_file_corrupt: entry<{ path: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The download of ${d.path} does not match the file that the hub lists: ${d.why}.`,
    hint: "A proxy or mirror may be modifying files. The bad download was discarded; the other files are kept for a new pull.",
  }),
  hub_path_refused: entry<{ model: string; path: string; why: string }>({
    status: 400,
    exit: 1,
    retry: "never",
    message: (d) => `The model ${d.model} has a file that cannot be stored under its name (${d.path}): ${d.why}.`,
    hint: "Leave it out with allow_patterns. Nothing was downloaded.",
  }),
  hub_nothing_matches: entry<{ model: string; patterns: string; files: number }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `None of the ${d.files} files of ${d.model} matches allow_patterns (${d.patterns}).`,
    hint: "Patterns are matched against the whole path, case-sensitively, and `*` crosses `/`. Nothing was downloaded.",
  }),
  hub_no_room: entry<{ path: string; needed: string; free: string }>({
    status: 507,
    exit: 1,
    retry: "never",
    message: (d) => `The download needs ${d.needed} more on the disk of ${d.path}, which has ${d.free} left.`,
    hint: "Free some space, delete a model you no longer need (DELETE /v1/hub/models/{id}), download fewer files with allow_patterns, or choose another local_dir.",
  }),
  hub_folder_refused: entry<{ path: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `A model cannot be stored in ${d.path}: it ${d.why}.`,
    hint: "Choose another local_dir. Nothing was changed.",
  }),
  hub_pull_not_found: entry<{ id: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `There is no pull ${d.id} in this home.`,
    hint: "GET /v1/hub/pulls lists the recent ones.",
  }),
  hub_pull_ended: entry<{ model: string; how: "cancelled" | "interrupted" }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      d.how === "cancelled"
        ? `The pull of ${d.model} was cancelled.`
        : `The pull of ${d.model} was interrupted because the control plane ended.`,
    hint: "Pull it again: the downloaded part is kept, and only the rest is downloaded.",
  }),
  hub_model_not_here: entry<{ model: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `svc has not downloaded ${d.model} to this computer.`,
    hint: "`svc.hub.models()`, GET /v1/hub/models and the page *Models* of the dashboard list those that it has downloaded.",
  }),
  hub_model_in_use: entry<{ model: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `${d.model} is being downloaded.`,
    hint: "Cancel the pull first, or wait for it. Nothing was removed.",
  }),
  hub_model_unusable: entry<{ path: string; missing: string[] }>({
    status: 400,
    exit: 1,
    retry: "never",
    message: (d) => `${d.path} is not usable as a model: ${d.missing.join("; ")}.`,
    hint: "Fix the problems listed and try again. Nothing was changed.",
  }),
};
