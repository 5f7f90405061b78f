// Run directories hold raw output, secrets in it included. Once the story is home they go.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { EngineStore } from "../store/engine-store.ts";

/** Removes the run directory of a job that is over and of which everything came home; else leaves all of it. */
export function removeRunFolder(store: EngineStore, home: string, jobId: string): boolean {
  const folder = join(home, "runs", jobId);
  if (store.job(jobId)?.state !== "terminal" || !store.collected(jobId) || !existsSync(folder)) return false;
  rmSync(folder, { recursive: true, force: true });
  return true;
}

/** The same for all, at start: a crash may have come between the end of a job and the removal. */
export function removeRunFolders(store: EngineStore, home: string): void {
  for (const jobId of readdirSync(join(home, "runs"))) removeRunFolder(store, home, jobId);
}
