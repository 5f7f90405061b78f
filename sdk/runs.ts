// Runs by their ids: the record, the list, changes, the end, removal. Without a running control plane the command `svc` reads the store,
// or makes the change (command.ts).

import { PROVIDER_NAMES } from "../src/providers/descriptors.ts";
import { GPU_CATALOGUE, listGpus as catalogue, vramFor as catalogueVram } from "../src/domain/gpus.ts";
import type { JobChange } from "../src/schemas/change.ts";
import type { Gpu, JobError, JobRecord, JobsPage, ReconcileReport } from "../src/schemas/job.ts";
import type { Placements } from "../src/schemas/placement.ts";
import type { CheckpointsRemoved, Removed } from "../src/schemas/removal.ts";
import type { ProviderName } from "../src/schemas/spec.ts";
import { call, checkId, checkOptions, refused } from "./calls.ts";
import type { JobsFilter } from "./client.ts";
import { asked } from "./command.ts";
import { isThere } from "./control-planes.ts";
import { SvcError } from "./errors.ts";
import { driven } from "./follow.ts";
import { seen } from "./interrupts.ts";
import { ownHome } from "./own-home.ts";

/** The current record of the job: status, cost, exit code. Rejects with `job_not_found`. Starts no control plane. */
export async function job(jobId: string): Promise<JobRecord> {
  checkId(jobId);
  return (await isThere(ownHome())) ? driven(jobId) : only(jobId, await asked(ownHome(), ["jobs", "--", jobId]));
}

export function only<T extends { id: string }>(jobId: string, { jobs: [record] }: { jobs: T[] }): T {
  // The command also accepts the beginning of an id.
  if (record?.id === jobId) return record;
  throw new SvcError({
    code: "job_not_found",
    message: `This home has no run ${jobId}.`,
    hint: "`svc jobs --all` lists them.",
    status: 404,
  });
}

/**
 * Recent jobs, newest first: at most `limit` (50 by default). Rejects with `invalid_request` for a limit below 1.
 * Starts no control plane.
 */
export async function jobs(filter: Omit<JobsFilter, "cursor"> = {}): Promise<JobRecord[]> {
  if (typeof filter !== "object" || filter === null) throw refused("filter", "must be an object");
  const want = filter.limit ?? 50;
  if (!Number.isInteger(want) || want < 1) throw refused("limit", "must be a whole number of at least 1");
  if (!(await isThere(ownHome()))) {
    const { limit: _, archived = false, tags, ...narrow } = filter;
    const words = Object.entries(narrow).flatMap(([name, of]) => (of === undefined ? [] : [`--${name}=${of}`]));
    words.push(...(tags ?? []).map((tag) => `--tag=${tag}`), ...(archived ? ["--archived"] : []));
    return (await asked<JobsPage>(ownHome(), ["jobs", `--limit=${want}`, ...words])).jobs;
  }
  const found: JobRecord[] = [];
  let cursor: string | null = null;
  do {
    const at: string | null = cursor;
    const page: JobsPage = await call((client) =>
      client.jobs({ ...filter, limit: Math.min(500, want - found.length), ...(at ? { cursor: at } : {}) }),
    );
    found.push(...page.jobs.map((record) => seen(record)));
    cursor = page.next_cursor;
  } while (cursor && found.length < want);
  return found;
}

const CHANGEABLE: ReadonlySet<string> = new Set<keyof JobChange>([
  "budget_usd",
  "max_runtime_minutes",
  "price_cap",
  "label",
  "tags",
]);

/**
 * Changes the limits, the label or the tags of a run. Fields that are left out stay; null removes one, and an empty list all tags. Throws `change_refused` for a limit that cannot be
 * held. Starts no control plane.
 */
export async function update(jobId: string, change: JobChange): Promise<JobRecord> {
  checkId(jobId);
  if (typeof change !== "object" || change === null) throw refused("change", "must be an object of fields to change");
  if (change.tags !== undefined && !Array.isArray(change.tags)) throw refused("tags", "must be a list");
  for (const [name, value] of Object.entries(change)) {
    if (!CHANGEABLE.has(name)) throw refused(name, "cannot be changed after the start of a run");
    // JSON has no NaN: it would become null, which removes a limit.
    if (typeof value === "number" && !Number.isFinite(value)) throw refused(name, "must be a finite number");
  }
  if (await isThere(ownHome())) return call((client) => client.update(jobId, change));
  await job(jobId);
  const { budget_usd: budget, max_runtime_minutes: minutes, price_cap: cap, label, tags } = change;
  const given = (name: string, value: number | string | null | undefined, none: string): string[] =>
    value === undefined ? [] : [`--${name}=${value ?? none}`];
  const words = [
    ...given("budget-usd", budget, "none"),
    ...given("max-runtime", minutes, "none"),
    ...given("price-cap", cap, "none"),
    ...given("label", label, ""),
    ...given("tags", tags?.join(","), ""),
  ];
  return (await asked(ownHome(), ["set", ...words, "--", jobId])) as JobRecord;
}

/**
 * Cancels the job and terminates its machine. Rejects with `job_not_found`. Resolves once the decision is final; `wait`
 * resolves when it is done. If no control plane runs, it resolves when the machine is gone.
 */
export async function kill(jobId: string): Promise<JobRecord> {
  checkId(jobId);
  if (await isThere(ownHome())) return call((client) => client.kill(jobId));
  await job(jobId);
  return only(jobId, await asked(ownHome(), ["kill", "--", jobId]));
}

/**
 * Removes an ended run: its log, metrics and checkpoints on this computer, and code that no other run uses. Fails with
 * `job_not_removable` if it has not ended, if its machine is not confirmed gone, or if another run resumes from it.
 * Starts no control plane.
 */
export async function remove(jobId: string): Promise<Removed> {
  checkId(jobId);
  if (await isThere(ownHome())) return call((client) => client.remove(jobId));
  await job(jobId);
  type Answer = { removed: Removed[]; failed: { error: JobError }[] };
  const { removed, failed } = await asked<Answer>(ownHome(), ["rm", "--", jobId]);
  if (failed[0]) throw new SvcError(failed[0].error);
  return only(jobId, { jobs: removed });
}

/**
 * Deletes checkpoints of an ended run on this computer, all of the named ones or none, and tells how much disk space that freed; with
 * `dryRun` only how much it would free. A checkpoint's name is its path in the checkpoint directory. Fails with `checkpoint_not_removable` while
 * the run is open, or another run or a copy needs one of them, and with `checkpoint_not_found`. Starts no control plane.
 */
export async function removeCheckpoints(
  jobId: string,
  names: readonly string[],
  options: { dryRun?: boolean } = {},
): Promise<CheckpointsRemoved> {
  checkId(jobId);
  if (!Array.isArray(names)) throw refused("names", "must be a list of names");
  checkOptions(options, ["dryRun"]);
  const dryRun = options.dryRun ?? false;
  if (await isThere(ownHome())) return call((client) => client.removeCheckpoints(jobId, names, dryRun));
  await job(jobId);
  // As a path, so that a name of digits is not read as a step.
  const words = names.map((name) => `--checkpoint=./${name}`);
  return asked(ownHome(), ["rm", ...words, ...(dryRun ? ["--dry-run"] : []), "--", jobId]);
}

/** The machines that the job has used, one after the other, and what it waits for now. Starts no control plane. */
export async function placements(jobId: string): Promise<Placements> {
  checkId(jobId);
  if (await isThere(ownHome())) return call((client) => client.placements(jobId));
  await job(jobId);
  const told = await asked<Placements>(ownHome(), ["timeline", "--", jobId]);
  return { placements: told.placements, waiting: told.waiting };
}

/**
 * Resumes jobs after a crash, and terminates machines of this installation that no live job owns; with `dryRun` it only
 * reports. `gone` is the name of a machine that the provider's console shows as gone, but whose end svc cannot check because
 * the provider's key was replaced. svc asks the provider once more and then closes the machine's record; with `dryRun` it only
 * checks. Rejects with `machine_not_found`; with `machine_not_closable` while a run uses the machine or the provider shows it,
 * or if svc can check its end itself; with errors of the provider.
 */
export async function reconcile(options: { dryRun?: boolean; gone?: string } = {}): Promise<ReconcileReport> {
  checkOptions(options, ["dryRun", "gone"]);
  const { dryRun = false, gone } = options;
  if (await isThere(ownHome())) return call((client) => client.reconcile({ dryRun, gone }));
  const flags = [...(dryRun ? ["--dry-run"] : []), ...(gone === undefined ? [] : ["--gone", gone])];
  return asked(ownHome(), ["reconcile", ...flags]);
}

/** The GPUs that a provider commonly offers, or the whole catalogue. A run may ask for other models as well. */
export function listGpus(provider?: ProviderName): Gpu[] {
  if (provider !== undefined && !PROVIDER_NAMES.includes(provider))
    throw refused("provider", `must be one of ${PROVIDER_NAMES.join(", ")}`);
  return catalogue(provider);
}

/** Typical memory per GPU of a model in GiB. Throws `unknown_gpu` for a model that the catalogue lacks. */
export function vramFor(model: string): number {
  const vram = catalogueVram(model);
  if (vram !== undefined) return vram;
  throw new SvcError({
    code: "unknown_gpu",
    message: `The catalogue has no GPU ${model}.`,
    hint: `It lists ${GPU_CATALOGUE.map((g) => g.model).join(", ")}. Runs can also ask for other models.`,
  });
}
