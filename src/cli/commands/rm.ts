// Removes runs by name, with their log, metrics, local checkpoints and code. This cannot be undone.

import { bytes } from "../../domain/bytes.ts";
import { asSvcError, SvcError } from "../../errors/index.ts";
import type { Removed } from "../../schemas/removal.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { storeOfHome } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";

export const rm: Command = {
  name: "rm",
  args: "[...jobs]",
  summary: "Delete finished runs with their logs, metrics and checkpoints on this computer",
  options: [],
  exits: [
    ["3", "no such job (nothing was removed)"],
    ["5", "control plane not reachable"],
  ],
  examples: ["svc rm 4k2m", "svc rm 4k2m 7f3q --json"],
  completes: () => "ended jobs",
  async run(input, io) {
    if (input.args.length === 0)
      throw usage("`svc rm` needs JOB.", "Write `svc rm JOB`; `svc prune` removes old ones.");
    const reads = await storeOfHome(io);
    let ids: string[];
    try {
      ids = [
        ...new Set(
          input.args.map((prefix) => {
            if (!reads) throw new SvcError("job_not_found", { id: prefix });
            return reads.resolveJobId(prefix);
          }),
        ),
      ];
    } finally {
      reads?.close();
    }
    const { removed, failed, first } = await removeAll(ids, io);
    if (input.json) await printJson(io, { removed, failed });
    else for (const { id, freed_bytes } of removed) await io.out(`${id}\tremoved\t${bytes(freed_bytes)}\n`);
    if (!input.json) for (const { id, error } of failed.slice(1)) io.err(`${id}: ${safeField(error.message)}`);
    if (first) throw first;
    return 0;
  },
};

export interface NotRemoved {
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
): Promise<{ removed: Removed[]; failed: NotRemoved[]; first: SvcError | null }> {
  const removed: Removed[] = [];
  const failed: NotRemoved[] = [];
  let first: SvcError | null = null;
  const all = async (remove: (id: string) => Promise<Removed>): Promise<void> => {
    for (const id of ids) {
      if (io.interrupted.aborted) return;
      try {
        removed.push(await remove(id));
      } catch (e) {
        const error = asSvcError(e);
        // No control plane is left to remove the others.
        if (error.code === "unreachable") throw error;
        first ??= error;
        failed.push({ id, error: error.toJobError() });
      }
    }
  };
  if (ids.length === 0) return { removed, failed, first };
  const client = await runningClient(io);
  if (client) await all((id) => client.remove(id));
  else await withOwnControlPlane(io, "look", (cp) => all((id) => cp.remove(id)));
  return { removed, failed, first };
}
