// Removes runs by name, with their log, metrics, local checkpoints and code; or only some checkpoints of one run. This cannot be undone.

import { bytes } from "../../domain/bytes.ts";
import { asSvcError, SvcError } from "../../errors/index.ts";
import { stepInName } from "../../domain/step-in-name.ts";
import type { CheckpointsRemoved, Removed } from "../../schemas/removal.ts";
import type { ResumePoint } from "../../schemas/job.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { storeOfHome } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";

/** The most names that an error lists. */
const NAMED_MAX = 8;

export const rm: Command = {
  name: "rm",
  args: "[...jobs]",
  summary: "Delete finished runs with their logs, metrics and checkpoints on this computer",
  options: [
    {
      flags: "--checkpoint <name>",
      what: "Delete only this checkpoint of a run, by its name or its step; may be repeated",
      many: true,
    },
    { flags: "--dry-run", what: "With --checkpoint: only say how much space it would free" },
  ],
  exits: [
    ["3", "no such job or checkpoint (nothing was removed)"],
    ["5", "control plane not reachable"],
  ],
  examples: ["svc rm 4k2m", "svc rm 4k2m 7f3q --json", "svc rm 4k2m --checkpoint 500 --checkpoint 1000"],
  completes: () => "ended jobs",
  async run(input, io) {
    if (input.args.length === 0)
      throw usage("`svc rm` needs JOB.", "Write `svc rm JOB`; `svc prune` removes old ones.");
    const dryRun = input.flags.has("dry-run");
    if (dryRun && !input.values.has("checkpoint"))
      throw usage(
        "`svc rm --dry-run` needs --checkpoint.",
        "`svc prune --dry-run` lists the runs that it would remove.",
      );
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
    const checkpoints = input.values.get("checkpoint") ?? [];
    if (checkpoints.length > 0) return removeCheckpoints(ids, { checkpoints, dryRun, json: input.json }, io);
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

interface Chosen {
  checkpoints: readonly string[];
  dryRun: boolean;
  json: boolean;
}

async function removeCheckpoints(ids: readonly string[], chosen: Chosen, io: Io): Promise<number> {
  const [id, another] = ids;
  if (id === undefined || another !== undefined)
    throw usage("--checkpoint needs exactly one JOB.", "Write `svc rm JOB --checkpoint NAME`.");
  const { dryRun } = chosen;
  const client = await runningClient(io);
  const act = async (
    points: Promise<ResumePoint[]>,
    remove: (names: string[]) => Promise<CheckpointsRemoved>,
  ): Promise<CheckpointsRemoved> => remove(namesOf(await points, chosen.checkpoints));
  const removed = client
    ? await act(client.resumePoints(id), (names) => client.removeCheckpoints(id, names, dryRun))
    : await withOwnControlPlane(io, "look", (cp) =>
        act(cp.resumePoints(id), (names) => cp.removeCheckpoints(id, { names, dry_run: dryRun })),
      );
  if (chosen.json) {
    await printJson(io, removed);
    return 0;
  }
  for (const { name, files, bytes: size } of removed.checkpoints) {
    const outcome = files === 0 ? "removed before" : dryRun ? "would be removed" : "removed";
    await io.out(`${safeField(name)}\t${outcome}\t${bytes(size)}\n`);
  }
  io.err(spaceWords(removed));
  return 0;
}

/** The names that were asked for: a number that is not a name is the step of one complete checkpoint. */
function namesOf(points: readonly ResumePoint[], asked: readonly string[]): string[] {
  return asked.map((word) => {
    if (!/^[0-9]{1,15}$/.test(word) || points.some(({ name }) => name === word)) return word;
    const found = points.filter(({ name, step }) => (step ?? stepInName(name)) === Number(word));
    const [only] = found;
    if (only && found.length === 1) return only.name;
    const names = (found.length > 0 ? found : points).slice(0, NAMED_MAX).map(({ name }) => safeField(name));
    throw usage(
      found.length > 1 ? `Several checkpoints have step ${word}.` : `No complete checkpoint has step ${word}.`,
      names.length > 0 ? `Give its name: ${names.join(", ")}.` : "The run has no complete checkpoint on this computer.",
    );
  });
}

function spaceWords({ dry_run, freed_bytes, linked_bytes, left_bytes }: CheckpointsRemoved): string {
  const parts = [`${dry_run ? "Would free" : "Freed"} ${bytes(freed_bytes)} on the disk.`];
  if (linked_bytes > 0)
    parts.push(`${bytes(linked_bytes)} stay in use: other files are hard links to the same content.`);
  if (left_bytes > 0) parts.push(`${bytes(left_bytes)} could not be deleted yet; svc retries.`);
  return parts.join(" ");
}
