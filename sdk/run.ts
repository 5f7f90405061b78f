// Starting a run, and planning one. Both send the same body, with the paths of the caller.

import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { withoutTilde } from "../src/platform/user-home.ts";
import type { JobRecord } from "../src/schemas/job.ts";
import type { Plan } from "../src/schemas/plan.ts";
import type { RunSpecInput } from "../src/schemas/spec.ts";
import { call, refused } from "./calls.ts";
import { wait } from "./follow.ts";
import { seen, SUBMITTED, unwatchInterrupt, watchInterrupt } from "./interrupts.ts";

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
  return waits ? wait(started.id) : seen(started);
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
    if (field !== "entrypoint" && field !== "args")
      throw refused(`task.${field}`, "is not known; a task has entrypoint and args");
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

/** JSON would turn NaN and infinities into null, and a price cap of null means no cap. */
function finite(at: string, value: unknown, depth = 0): void {
  if (depth > 32) throw refused(at.split(".")[0] ?? at, "contains itself, or is nested too deeply");
  if (typeof value === "number" && !Number.isFinite(value)) throw refused(at, "must be a finite number");
  if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol")
    throw refused(at, `cannot be a ${typeof value}`);
  if (typeof value === "object" && value !== null)
    for (const [k, v] of Object.entries(value)) finite(at ? `${at}.${k}` : k, v, depth + 1);
}
