// The error of the SDK: the control plane's answer, or why it could not be reached.

import { oneLine } from "../src/domain/terminal-text.ts";
import type { Problem } from "../src/schemas/job.ts";

export interface ErrorWords {
  code: string;
  message: string;
  hint: string;
  /** HTTP status, or 0 without an answer. */
  status?: number;
  errors?: { field: string; message: string }[];
  cause?: unknown;
}

/** Why a call is unreachable whose answer did not come in time. */
export const LATE = "no answer in time";

const NO_JOB = new Set(["job_not_found", "job_removed"]);
/** Codes with exit code 4 in the catalogue; a test compares the two. */
const OF_CREDENTIALS =
  /^(credential_|credentials_|secret_|ssh_key_|ssh_refused$|provider_unavailable$|account_unproven$|no_funds$|no_quota$|hub_gated$|hub_token_|sink_credentials$|notify_secret$|sink_refused$)/;

/** `code` is for programs and stable; `message` says what happened, `hint` what to do. */
export class SvcError extends Error {
  static {
    // Bundlers rename classes of one name, and Node prints the class's own name with an error.
    Object.defineProperty(this, "name", { value: "SvcError" });
  }
  override readonly name = "SvcError";
  readonly code: string;
  readonly hint: string;
  readonly status: number;
  /** The refused fields of a request, and why. */
  readonly errors: { field: string; message: string }[] | undefined;

  constructor(words: ErrorWords) {
    super(oneLine(words.message), words.cause === undefined ? undefined : { cause: words.cause });
    this.code = words.code;
    this.hint = words.hint;
    this.status = words.status ?? 0;
    this.errors = words.errors;
  }

  /** Exit code for a command line tool: 2 usage, 3 not found, 4 credential, 5 not reachable, else 1. */
  get exit(): number {
    if (this.status === 0)
      return this.code === "unreachable" || this.code === "start_failed" ? 5 : NO_JOB.has(this.code) ? 3 : 1;
    if (this.status === 404) return 3;
    if (this.status === 401 || OF_CREDENTIALS.test(this.code)) return 4;
    if (this.code === "provider_unreachable") return 5;
    return this.status === 400 ||
      this.status === 405 ||
      this.status === 409 ||
      this.status === 413 ||
      this.status === 415
      ? 2
      : 1;
  }

  /** From an `application/problem+json` answer; any other answer becomes `unexpected_answer`. */
  static fromAnswer(status: number, body: unknown): SvcError {
    const p = body as Partial<Problem> | null;
    if (p && typeof p === "object" && typeof p.code === "string" && typeof p.hint === "string")
      return new SvcError({
        code: p.code,
        message: p.detail ?? p.title ?? p.code,
        hint: p.hint,
        status,
        ...(p.errors ? { errors: p.errors } : {}),
      });
    return new SvcError({
      code: "unexpected_answer",
      message: `The control plane answered with status ${status} and no reason.`,
      hint: "Check the output of `svc serve`; the client and the control plane may be of different versions.",
      status,
    });
  }

  static unreachable(url: string, why: string, cause?: unknown): SvcError {
    return new SvcError({
      code: "unreachable",
      message: `No control plane answers at ${url}: ${why}.`,
      hint:
        why === LATE
          ? "It may only be slow, and still do what was asked: look with `svc jobs` before you call again."
          : "Runs that were started may continue and cost money. `svc serve` starts a control plane, which resumes them.",
      cause,
    });
  }
}
