import { findControlPlane } from "../../sdk/discover.ts";
import type { Io } from "./io.ts";

/** The warning above runs that are shown as active while no control plane follows them. */
export const AWAY_WORDS =
  "No control plane is running, so svc does not follow these runs, and rented machines keep costing money. `svc serve` resumes them.";

/** Whether runs that are not over have no control plane. */
export async function areLeftAlone(io: Io, jobs: readonly { ended_at: string | null }[]): Promise<boolean> {
  return jobs.some((job) => job.ended_at === null) && (await findControlPlane(io.home())).state === "none";
}
