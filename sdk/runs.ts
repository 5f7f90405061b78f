// Runs, for callers. Every call goes to the control plane of this SVC_HOME; if none runs, one is started that runs as
// long as this process. Reading, killing and reconciling start none (command.ts).

import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import pRetry from "p-retry";
import { PROVIDER_NAMES } from "../src/providers/descriptors.ts";
import { GPU_CATALOGUE, listGpus as catalogue, vramFor as catalogueVram } from "../src/domain/gpus.ts";
import { withoutTilde } from "../src/platform/user-home.ts";
import type { JobChange } from "../src/schemas/change.ts";
import type { Gpu, JobError, JobRecord, JobsPage, ReconcileReport } from "../src/schemas/job.ts";
import { hasEnded } from "../src/schemas/names.ts";
import type { Placements } from "../src/schemas/placement.ts";
import type { Plan } from "../src/schemas/plan.ts";
import type { CheckpointsRemoved, Removed } from "../src/schemas/removal.ts";
import type { ProviderName, RunSpecInput } from "../src/schemas/spec.ts";
import type { Client, JobsFilter } from "./client.ts";
import { asked } from "./command.ts";
import { clientOf, forget, isThere, keeps, leave } from "./control-planes.ts";
import { tellConfigured } from "./configure.ts";
import { SvcError } from "./errors.ts";
import { ownHome } from "./own-home.ts";
import { progressOf } from "./progress.ts";

export interface Task {
  entrypoint: string;
  args?: string[];
}

/** The parameters of a run: `task`, the fields of the run spec, and call options. An unknown name is refused. */
export type RunParameters = Omit<RunSpecInput, "entrypoint" | "args"> & {
  task: Task;
  label?: string | null;
  tags?: string[];
  /** Resolve only when the run has ended and its machine is proven gone. */
  wait?: boolean;
  /** The same key and parameters give the same job, for any number of calls. */
  idempotency_key?: string;
};

const LOST_MS_MAX = 60_000;

/**
 * Starts a run and resolves with its record at once, or with `wait` when it has ended. Rejects with an `SvcError`
 * before anything is rented when a parameter is wrong. A failed run does not reject: see `status` and `error`.
 */
export async function run(parameters: RunParameters): Promise<JobRecord> {
  const { body, wait: waits, key } = bodyOf("run", parameters);
  // Chosen once: a call whose answer was lost is repeated.
  const once = key ?? `ts-${randomUUID()}`;
  watchInterrupt(SUBMITTED);
  const started = await call((client) => client.submit(body, once)).finally(() => unwatchInterrupt(SUBMITTED));
  watchInterrupt(started.id);
  return waits ? wait(started.id) : started;
}

/**
 * What `run` with the same parameters would rent, send and cost: the offers of all candidates, why a candidate is refused, and the
 * order in which svc would try them. Rents, starts and stores nothing.
 */
export function plan(parameters: RunParameters): Promise<Plan> {
  const { body } = bodyOf("plan", parameters);
  return call((client) => client.plan(body));
}

/** The body of a submission, with the caller's paths. */
function bodyOf(name: "run" | "plan", parameters: RunParameters) {
  if (typeof parameters !== "object" || parameters === null) throw refused(name, "takes one object of parameters");
  const { task, label, tags, wait: waits, idempotency_key: key, ...rest } = parameters;
  if (typeof task !== "object" || task === null) throw refused("task", "must be { entrypoint, args }");
  for (const field of Object.keys(task))
    if (field !== "entrypoint" && field !== "args") throw refused(`task.${field}`, "is not known");
  if ("entrypoint" in rest || "args" in rest)
    throw refused("entrypoint" in rest ? "entrypoint" : "args", "belongs in task");
  if (key !== undefined && !(typeof key === "string" && /^[!-~]{1,200}$/.test(key)))
    throw refused("idempotency_key", "must be 1 to 200 visible ASCII characters without spaces");
  finite("", rest);
  const folder: unknown = rest.project_dir ?? ".";
  if (typeof folder !== "string") throw refused("project_dir", "must be text");
  // An unset variable, for example: the current folder may hold much that was never meant to be sent.
  if (folder === "") throw refused("project_dir", "must not be empty; leave it out for the current directory");
  // The control plane has another working directory, so the caller's is always sent.
  const spec: RunSpecInput = { ...rest, ...task, project_dir: resolve(withoutTilde(folder)) };
  if (typeof spec.python === "string" && spec.python.includes("/") && !spec.python.startsWith("~"))
    spec.python = resolve(spec.python);
  return {
    body: { ...(label === undefined ? {} : { label }), ...(tags === undefined ? {} : { tags }), spec },
    wait: waits ?? false,
    key,
  };
}

/**
 * Resolves with the last record when the job has ended and its machines are proven gone; a terminal shows the steps
 * meanwhile. Rejects with `job_not_found`, with `unreachable` if no control plane answers, and with `wait_timeout` after
 * `timeoutSeconds`; then the run continues.
 */
export async function wait(jobId: string, timeoutSeconds?: number | null): Promise<JobRecord> {
  checkId(jobId);
  const seconds: unknown = timeoutSeconds ?? Infinity;
  if (typeof seconds !== "number" || Number.isNaN(seconds))
    throw refused("timeoutSeconds", "must be a number of seconds; leave it out to wait without limit");
  const until = performance.now() + 1_000 * seconds;
  watchInterrupt(jobId);
  const progress = progressOf((id) => call((client) => client.timeline(id)));
  try {
    for (let pauseMs = 50; ; pauseMs = Math.min(1_000, pauseMs * 1.5)) {
      const record = await driven(jobId);
      const ended = hasEnded(record.status);
      await progress.saw(record, ended);
      if (ended) {
        unwatchInterrupt(record.id, jobId);
        return record;
      }
      const leftMs = until - performance.now();
      if (leftMs <= 0) throw waitTimeout(record, seconds);
      await new Promise((r) => setTimeout(r, Math.min(pauseMs, leftMs)));
    }
  } finally {
    progress.close();
  }
}

const waitTimeout = ({ id, status }: JobRecord, seconds: number): SvcError =>
  new SvcError({
    code: "wait_timeout",
    message: `Job ${id} is still ${status} after ${seconds} s.`,
    hint: "The job continues; wait again, or end it with kill().",
  });

/** The current record of the job: status, cost, exit code. Rejects with `job_not_found`. Starts no control plane. */
export async function job(jobId: string): Promise<JobRecord> {
  checkId(jobId);
  return (await isThere(ownHome())) ? driven(jobId) : only(jobId, await asked(ownHome(), ["jobs", "--", jobId]));
}

/** Like `job`, for a job that a caller waits for: a control plane must be running, so that it makes progress. */
function driven(jobId: string): Promise<JobRecord> {
  checkId(jobId);
  return call((client) => client.job(jobId));
}

/** A job instead of its id would be asked for as "[object Object]". */
export function checkId(jobId: unknown): asserts jobId is string {
  if (typeof jobId !== "string" || jobId === "") throw refused("jobId", "must be the id of a job, as job.id is");
}

export function only<T extends { id: string }>(jobId: string, { jobs: [record] }: { jobs: T[] }): T {
  // The command also accepts the beginning of an id.
  if (record?.id === jobId) return record;
  throw new SvcError({
    code: "job_not_found",
    message: `This home has no job ${jobId}.`,
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
    found.push(...page.jobs);
    cursor = page.next_cursor;
  } while (cursor && found.length < want);
  return found;
}

/**
 * Changes the limits, the label or the tags of a run. Fields that are left out stay; null removes one, and an empty list all tags. Throws `change_refused` for a limit that cannot be
 * held. Starts no control plane.
 */
export async function update(jobId: string, change: JobChange): Promise<JobRecord> {
  checkId(jobId);
  if (typeof change !== "object" || change === null) throw refused("change", "must be an object of fields to change");
  if (change.tags !== undefined && !Array.isArray(change.tags)) throw refused("tags", "must be a list");
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
 * reports.
 */
export async function reconcile(options: { dryRun?: boolean } = {}): Promise<ReconcileReport> {
  const dryRun = options.dryRun ?? false;
  if (await isThere(ownHome())) return call((client) => client.reconcile(dryRun));
  return asked(ownHome(), ["reconcile", ...(dryRun ? ["--dry-run"] : [])]);
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

/**
 * Yields the lines of the job's log from its beginning, as they arrive, without line ends, until the job ends. A lost
 * connection is resumed at the byte where it broke. Rejects with `job_not_found` at once, and with `unreachable` if no
 * control plane answers for a minute.
 *
 * While a run shows a progress bar, it also yields the current state of that unfinished line, at most twice a second.
 * Such a text ends with `\r`, which no line does. The whole line follows when it ends.
 */
export async function* stream(jobId: string): AsyncGenerator<string, void, undefined> {
  const quit = new AbortController();
  const lines = new LineReader();
  let offset = 0;
  let lostAt: number | null = null;
  let isLive = true;
  try {
    isLive = !hasEnded((await driven(jobId)).status);
    for (;;) {
      try {
        const client = await clientOf(ownHome());
        const parts = client.followLog(jobId, offset, quit.signal)[Symbol.asyncIterator]();
        for (let dueAt: number | null = null, next = ask(parts); ;) {
          if (dueAt !== null && (await isLate(next, dueAt - performance.now()))) {
            dueAt = null;
            yield `${lines.state}\r`;
            continue;
          }
          const { value: bytes, done } = await next;
          if (done === true) break;
          lostAt = null;
          offset += bytes.byteLength;
          const whole = lines.take(bytes);
          if (whole.length > 0) dueAt = null;
          yield* whole;
          if (isLive && lines.state !== "") dueAt ??= performance.now() + STATE_MS;
          next = ask(parts);
        }
        // The answer ended with the job, or with its control plane.
        if (hasEnded((await driven(jobId)).status)) break;
      } catch (e) {
        if (!isUnreachable(e)) throw e;
        lostAt ??= performance.now();
        if (performance.now() - lostAt > LOST_MS_MAX) throw e;
        forget(ownHome());
      }
      await new Promise((r) => setTimeout(r, 200));
    }
    yield* lines.end();
  } finally {
    quit.abort();
  }
}

/** A failure counts when it is awaited; a caller that stops reading never awaits it. */
function ask<T>(parts: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const next = parts.next();
  next.catch(() => undefined);
  return next;
}

/** Whether `next` takes longer than `ms`. */
async function isLate(next: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((done) => (timer = setTimeout(() => done(true), Math.max(0, ms))));
  try {
    return await Promise.race([next.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Makes lines from bytes in pieces of any size. */
class LineReader {
  readonly #decoder = new TextDecoder();
  #rest = "";

  take(bytes: Uint8Array): string[] {
    const parts = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = parts.pop() ?? "";
    const lines = parts.map(withoutReturn);
    for (; this.#rest.length > LINE_MAX; this.#rest = this.#rest.slice(LINE_MAX))
      lines.push(this.#rest.slice(0, LINE_MAX));
    return lines;
  }

  /** The current state of an unfinished line that is being overwritten; empty for other lines. */
  get state(): string {
    const tail = this.#rest.slice(-STATE_MAX);
    return /[\r\b]/.test(tail) ? (tail.split(/[\r\b]+/).findLast((part) => part !== "") ?? "") : "";
  }

  end(): string[] {
    const last = this.#rest + this.#decoder.decode();
    return last === "" ? [] : [withoutReturn(last)];
  }
}

const withoutReturn = (line: string): string => line.replace(/\r+$/, "");
/** Minimum time between two states of an unfinished line. */
const STATE_MS = 500;
const STATE_MAX = 4_096;
const LINE_MAX = 1024 * 1024;
/** In the place of an id during the submission. */
const SUBMITTED = "";
const isUnreachable = (e: unknown): boolean => e instanceof SvcError && e.code === "unreachable";

/** The client of this home's control plane, after sending it the registry of `configure`. */
async function configuredClient(at: string): Promise<Client> {
  const client = await clientOf(at);
  await tellConfigured(at, client);
  return client;
}

/** Calls the control plane, and looks for another one if it is gone. Retries only `unreachable`. */
export function call<T>(ask: (client: Client) => Promise<T>): Promise<T> {
  const at = ownHome();
  return pRetry(async () => ask(await configuredClient(at)), {
    retries: 4,
    minTimeout: 50,
    maxTimeout: 1_000,
    shouldRetry: ({ error }) => isUnreachable(error),
    onFailedAttempt: ({ error }) => {
      if (isUnreachable(error)) forget(at);
    },
  });
}

/** The error for a wrong argument. */
export function refused(field: string, message: string): SvcError {
  return new SvcError({
    code: "invalid_request",
    message: `${field} ${message}.`,
    hint: "Correct it and call again. Nothing was started.",
    status: 400,
    errors: [{ field, message }],
  });
}

/** JSON would turn NaN and infinities into null, and a price cap of null means no cap. */
function finite(at: string, value: unknown, depth = 0): void {
  if (depth > 32) throw refused(at.split(".")[0] ?? at, "contains itself, or is nested too deeply");
  if (typeof value === "number" && !Number.isFinite(value)) throw refused(at, "must be a finite number");
  if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol")
    throw refused(at, `cannot be a ${typeof value}`);
  if (typeof value === "object" && value !== null)
    for (const [k, v] of Object.entries(value)) finite(at ? `${at}.${k}` : k, v, depth + 1);
}

// Handles Ctrl-C. If no other caller holds the control plane, it and its runs shut down gracefully; the script prints
// what happens to machine and money. A script with its own SIGINT listener decides by itself.
const watched = new Set<string>();
let listening = false;

function watchInterrupt(jobId: string): void {
  watched.add(jobId);
  if (listening) return;
  listening = true;
  process.on("SIGINT", onInterrupt);
}

function unwatchInterrupt(...jobIds: string[]): void {
  for (const id of jobIds) watched.delete(id);
}

let interruptedBefore = false;
function onInterrupt(): void {
  if (process.listenerCount("SIGINT") > 1) return;
  // Below the terminal's ^C, and the line that shows the step.
  if (process.stderr.isTTY) process.stderr.write("\n");
  if (interruptedBefore) {
    process.stderr.write(
      "svc: not waiting; the control plane keeps shutting down by itself. `svc jobs` lists the unfinished runs.\n",
    );
    process.exit(130);
  }
  interruptedBefore = true;
  if (!keeps(ownHome())) {
    const known = [...watched].filter((id) => id !== SUBMITTED);
    if (watched.has(SUBMITTED))
      process.stderr.write(
        "svc: interrupted during the submission of a run: if it was accepted, it continues, and its machine may cost money. `svc kill last` ends it.\n",
      );
    if (known.length > 0)
      process.stderr.write(
        `svc: interrupted; ${known.join(", ")} continues, and its machine may cost money. \`svc kill\` ends it.\n`,
      );
    process.exit(130);
  }
  process.stderr.write(
    `svc: interrupted; ending ${watched.size === 1 ? "the run" : `${watched.size} runs`} and releasing its machines. Press Ctrl-C again to stop waiting.\n`,
  );
  void leave().then(({ shared, unwell }) => {
    const how =
      unwell.length > 0
        ? `not everything has ended: ${unwell.join("; ")}`
        : shared > 0
          ? "other programs use the control plane; the run may continue, and cost money, until the last of them ends. `svc kill` ends it now"
          : "everything has ended; no machine of these runs costs money any more";
    process.stderr.write(`svc: ${how}.\n`);
    process.exit(130);
  });
}
