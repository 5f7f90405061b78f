// `svc jobs`: the list of runs, once or until Ctrl-C. jobs/list-jobs.ts does the work.

import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { JOB_FIELDS, JOB_STATUSES } from "../../schemas/names.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import { listJobs, watchJobs } from "./jobs/list-jobs.ts";
import type { ChosenJobs } from "./jobs/chosen-jobs.ts";

/** Without --limit and --all. */
const MOST = 50;

export const jobs: Command = {
  name: "jobs",
  args: "[...jobs]",
  summary: "List runs, newest first, or only the given ones",
  options: [
    {
      flags: "--status <status>",
      what: `Only runs with this status: ${JOB_STATUSES.join(", ")}`,
      values: JOB_STATUSES,
    },
    { flags: "--provider <provider>", what: "Only runs at this provider", values: PROVIDER_NAMES },
    { flags: "--label <label>", what: "Only runs with this label" },
    { flags: "--archived", what: "Only archived runs, which other lists leave out" },
    { flags: "--tag <tag>", what: "Only runs with this tag; may be repeated: runs with all of them", many: true },
    { flags: "--limit <n>", what: "At most this many (default 50)" },
    { flags: "--all", what: "List all runs" },
    { flags: "--watch", what: "Keep showing changes until Ctrl-C" },
  ],
  exits: [
    ["3", "no such job"],
    ["130", "interrupted (how --watch ends)"],
  ],
  fields: [...JOB_FIELDS, "region"],
  examples: ["svc jobs", "svc jobs --status running --json id,label,cost_usd", "svc jobs --archived", "svc jobs 4k2m"],
  run(input, io) {
    const filters = {
      provider: oneOf(input, "provider", PROVIDER_NAMES),
      label: value(input, "label"),
      tag: input.values.get("tag"),
      status: oneOf(input, "status", JOB_STATUSES),
    };
    const archived = input.flags.has("archived");
    const limit = whole(input, "limit", { min: 1, max: 1_000_000 });
    const all = input.flags.has("all");
    if (all && limit !== undefined) throw usage("--all and --limit contradict each other.", "Give one of them.");
    const narrowed = all || archived || [...Object.values(filters), limit].some((given) => given !== undefined);
    if (input.args.length > 0 && narrowed)
      throw usage("Filters and --all do not apply to runs given by id.", "Leave out the other options, or the ids.");
    const chosen: ChosenJobs = { ids: input.args, ...filters, archived, most: all ? Infinity : (limit ?? MOST) };
    return input.flags.has("watch") ? watchJobs(chosen, input, io) : listJobs(chosen, input, io);
  },
};
