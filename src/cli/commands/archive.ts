// `svc archive`: leaves ended runs out of lists and keeps them from removals by age; --undo lists them again.

import { safeField } from "../../domain/terminal-text.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import { withJobs } from "../store.ts";
import { printJson } from "../text.ts";

export const archive: Command = {
  name: "archive",
  args: "[...jobs]",
  summary: "Hide finished runs from lists and protect them from `svc prune`",
  options: [{ flags: "--undo", what: "List the runs again" }],
  exits: [
    ["3", "no such job (nothing was changed)"],
    ["5", "control plane not reachable"],
  ],
  examples: ["svc archive 4k2m 7f3q", "svc jobs --archived", "svc archive 4k2m --undo"],
  completes: () => "ended jobs",
  async run(input, io) {
    if (input.args.length === 0)
      throw usage("`svc archive` needs JOB.", "Write `svc archive JOB`; `svc jobs --archived` lists archived runs.");
    const isArchived = !input.flags.has("undo");
    const ids = await withJobs(io, input.args, (_, found) => found);
    const client = await runningClient(io);
    const all = async (one: (id: string) => Promise<JobRecord>): Promise<JobRecord[]> => {
      const records: JobRecord[] = [];
      for (const id of ids) records.push(await one(id));
      return records;
    };
    const jobs = client
      ? await all((id) => client.archive(id, isArchived))
      : await withOwnControlPlane(io, "look", (cp) => all((id) => cp.retention.archive(id, isArchived)));
    if (input.json) await printJson(io, { jobs });
    else
      for (const { id, label } of jobs)
        await io.out(`${id}\t${isArchived ? "archived" : "listed again"}\t${safeField(label ?? "-")}\n`);
    return 0;
  },
};
