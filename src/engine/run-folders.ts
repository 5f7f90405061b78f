// Run directories contain raw output, secrets included. They are removed once everything was downloaded.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { messageOf } from "../errors/index.ts";
import type { EngineStore } from "../store/engine-store.ts";
import { homeLayout } from "../platform/home-layout.ts";

/**
 * Removes the run directory of an ended job if everything was downloaded; otherwise leaves all of it. A script's
 * leftovers may resist (a folder without permissions, a mount): that is reported, and never makes the control plane
 * fail.
 */
export function removeRunFolder(store: EngineStore, home: string, jobId: string, report: (line: string) => void): void {
  const folder = homeLayout.run(home, jobId);
  if (store.job(jobId)?.state !== "terminal" || !store.collected(jobId) || !existsSync(folder)) return;
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (e) {
    report(`The folder ${folder} of a run that is over could not be removed: ${messageOf(e)}`);
  }
}

/** The same for all runs, at start: a crash may have come between the end of a job and the removal. */
export function removeRunFolders(store: EngineStore, home: string, report: (line: string) => void): void {
  for (const jobId of readdirSync(homeLayout.runs(home))) removeRunFolder(store, home, jobId, report);
}
