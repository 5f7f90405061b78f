// Removes whole runs, for `svc rm` and `svc prune`, or says what that would delete.

import { bytes } from "../../../domain/bytes.ts";
import { hasEnded } from "../../../schemas/names.ts";
import type { Removed } from "../../../schemas/removal.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";
import type { OpenReads } from "../../store.ts";
import { printJson } from "../../text.ts";
import { asTold, type Told } from "../../told.ts";

interface NotRemoved {
  id: string;
  error: { code: string; message: string; hint: string };
}

/**
 * Removes one after the other, through the running control plane or in this process. A failure does not stop the
 * others.
 */
export async function removeAll(
  ids: readonly string[],
  io: Io,
): Promise<{ removed: Removed[]; failed: NotRemoved[]; first: Told | null }> {
  const removed: Removed[] = [];
  const failed: NotRemoved[] = [];
  let first: Told | null = null;
  const all = async (remove: (id: string) => Promise<Removed>): Promise<void> => {
    for (const id of ids) {
      if (io.interrupted.aborted) return;
      try {
        removed.push(await remove(id));
      } catch (e) {
        const error = asTold(e);
        // No control plane is left to remove the others.
        if (error.code === "unreachable") throw e;
        first ??= error;
        const { code, message, hint } = error;
        failed.push({ id, error: { code, message, hint } });
      }
    }
  };
  if (ids.length === 0) return { removed, failed, first };
  const client = await runningClient(io);
  if (client) await all((id) => client.remove(id));
  else await withOwnControlPlane(io, "look", (cp) => all((id) => cp.remove(id)));
  return { removed, failed, first };
}

/** The space that a run uses on the disk. */
export const sizeOf = (size: number | null): string => (size === null ? "size unknown" : bytes(size));

/** Prints what {@link removeAll} would delete. Returns 1 if one of the runs has not ended: it would be refused. */
export async function tellRemovable(reads: OpenReads, ids: readonly string[], json: boolean, io: Io): Promise<number> {
  const found = ids.flatMap((id) => reads.job(id) ?? []);
  const jobs = found.map(({ id, status, label, disk_bytes }) => ({
    id,
    status,
    label,
    disk_bytes,
    removable: hasEnded(status),
  }));
  if (json) await printJson(io, { dry_run: true, jobs });
  else
    for (const job of jobs)
      await io.out(
        `${job.id}\t${job.removable ? "would be removed" : "has not ended, so it would stay"}\t${sizeOf(job.disk_bytes)}\n`,
      );
  return jobs.every(({ removable }) => removable) ? 0 : 1;
}
