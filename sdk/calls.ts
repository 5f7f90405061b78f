// Calls of the control plane of this SVC_HOME. If none runs, one is started that runs as long as this process.

import pRetry from "p-retry";
import type { Client } from "./client.ts";
import { clientOf, forget } from "./control-planes.ts";
import { tellConfigured } from "./configure.ts";
import { SvcError } from "./errors.ts";
import { ownHome } from "./own-home.ts";

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

export const isUnreachable = (e: unknown): boolean => e instanceof SvcError && e.code === "unreachable";

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

/** A job instead of its id would be asked for as "[object Object]". */
export function checkId(jobId: unknown): asserts jobId is string {
  if (typeof jobId !== "string" || jobId === "") throw refused("jobId", "must be the id of a job, as job.id is");
}

/** A misspelt `dryRun` would be passed over, and the call would end machines or delete files. */
export function checkOptions(options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null)
    throw refused("options", `must be an object; the options are ${known.join(" and ")}`);
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) throw refused(name, `is not known; the options are ${known.join(" and ")}`);
    if (name === "dryRun" && value !== undefined && typeof value !== "boolean")
      throw refused(name, "must be true or false");
  }
}
