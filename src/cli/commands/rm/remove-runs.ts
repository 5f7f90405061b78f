// Removes whole runs, for `svc rm` and `svc prune`.

import type { Removed } from "../../../schemas/removal.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";
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
