// Models of the hub, for callers. The control plane does the work: see docs/reference/models.md.

import { resolve } from "node:path";
import { oneLine } from "../src/domain/terminal-text.ts";
import type { HubModel, HubPull } from "../src/schemas/hub.ts";
import { SvcError } from "./errors.ts";
import { call } from "./calls.ts";
import { withoutTilde } from "../src/platform/user-home.ts";

export interface PullOptions {
  /** A branch, a tag or a commit; by default the main branch. */
  revision?: string | null;
  /** The folder of the model; by default the configured cache directory, or `models/<model_id>` in the home. */
  local_dir?: string | null;
  /** Shell patterns on whole paths; `*` crosses `/`. Files that match any pattern are downloaded. */
  allow_patterns?: string[] | string | null;
  /** Replaces the configured token for this pull. It is not stored. */
  token?: string | null;
}

const POLL_MS_MAX = 500;

export const hub = {
  /**
   * Downloads a model; resolves with its folder when it is complete. Existing files are not downloaded again. Rejects
   * with an `SvcError`: `hub_model_not_found` (also for a private one), `hub_gated`, `hub_token_refused`,
   * `extra_missing` and others.
   */
  async pull(modelId: string, options: PullOptions = {}): Promise<string> {
    const { local_dir, ...rest } = options;
    const body = { model_id: modelId, ...rest, ...(local_dir ? { local_dir: absolute(local_dir) } : {}) };
    let pull = await call((client) => client.pull(body));
    const tell = troubleTeller();
    for (let pauseMs = 50; pull.status === "running"; pauseMs = Math.min(POLL_MS_MAX, pauseMs * 1.5)) {
      await new Promise((r) => setTimeout(r, pauseMs));
      const { id } = pull;
      pull = await call((client) => client.pullOf(id));
      tell(pull);
    }
    if (pull.path !== null) return pull.path;
    throw new SvcError({
      code: pull.error?.code ?? "hub_pull_ended",
      message: pull.error?.message ?? `The pull of ${modelId} ended as ${pull.status}.`,
      hint: pull.error?.hint ?? "Pull it again: the downloaded part is kept.",
    });
  },

  /**
   * Adopts a model on this computer's disk; resolves with its folder, absolute and with symlinks resolved. Rejects with
   * `hub_model_unusable`, which names everything that is missing. Nothing is copied or changed.
   */
  async fromLocal(path: string): Promise<string> {
    return (await call((client) => client.adopt(absolute(path)))).path;
  },

  /** The models on this computer: downloaded, cached and adopted. */
  models: (): Promise<HubModel[]> => call((client) => client.models()),

  /**
   * Removes svc's copies of a model; resolves with the removed folders. A folder of your own choice stays. Rejects with
   * `hub_model_not_here`, or with `hub_model_in_use` during a pull.
   */
  remove: (modelId: string): Promise<string[]> => call((client) => client.removeModel(modelId)),
};

/**
 * Prints on stderr, once each, why a pull makes no progress, such as a hub that refuses the connection.
 * `SVC_PROGRESS=0` turns it off.
 */
function troubleTeller(): (pull: HubPull) => void {
  const off = /^(0|off|no|false)$/i.test(process.env["SVC_PROGRESS"] ?? "");
  let told = "";
  return ({ model_id: model, note }) => {
    if (off || note === null || note.message === told) return;
    told = note.message;
    const next = note.retry_in_seconds === null ? "" : ` Retrying in ${note.retry_in_seconds} s.`;
    process.stderr.write(`svc: ${oneLine(`${model}: ${note.message}${next}`)}\n`);
  };
}

/** The control plane's working directory is not the caller's. */
function absolute(path: string): string {
  return resolve(withoutTilde(path));
}
