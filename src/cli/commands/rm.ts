// Removes runs by name, with their log, metrics, local checkpoints and code; or only some checkpoints of one run. This cannot be undone.

import { bytes } from "../../domain/bytes.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { withJobs } from "../store.ts";
import { printJson } from "../text.ts";
import { removeCheckpoints } from "./rm/remove-checkpoints.ts";
import { removeAll, tellRemovable } from "./rm/remove-runs.ts";

export const rm: Command = {
  name: "rm",
  args: "[...jobs]",
  summary: "Delete finished runs for good, with their logs, metrics, checkpoints and code on this computer",
  options: [
    {
      flags: "--checkpoint <name>",
      what: "Delete only this checkpoint of a run, by its name or its step; may be repeated",
      many: true,
    },
    { flags: "--dry-run", what: "Only say what would be deleted, and how much space that would free" },
  ],
  exits: [
    ["3", "no such job or checkpoint (nothing was removed)"],
    ["5", "control plane not reachable"],
  ],
  examples: [
    "svc rm 4k2m",
    "svc rm 4k2m --dry-run",
    "svc rm 4k2m 7f3q --json",
    "svc rm 4k2m --checkpoint 500 --checkpoint 1000",
  ],
  completes: () => "ended jobs",
  async run(input, io) {
    if (input.args.length === 0)
      throw usage("`svc rm` needs JOB.", "Write `svc rm JOB`; `svc prune` removes old ones.");
    const dryRun = input.flags.has("dry-run");
    const checkpoints = input.values.get("checkpoint") ?? [];
    if (dryRun && checkpoints.length === 0)
      return withJobs(io, input.args, (reads, found) => tellRemovable(reads, found, input.json, io));
    const ids = await withJobs(io, input.args, (_, found) => found);
    if (checkpoints.length > 0) return removeCheckpoints(ids, { checkpoints, dryRun, json: input.json }, io);
    const { removed, failed, first } = await removeAll(ids, io);
    if (input.json) await printJson(io, { removed, failed });
    else for (const { id, freed_bytes } of removed) await io.out(`${id}\tremoved\t${bytes(freed_bytes)}\n`);
    if (!input.json) for (const { id, error } of failed.slice(1)) io.err(`${id}: ${safeField(error.message)}`);
    if (first) throw first;
    return 0;
  },
};
