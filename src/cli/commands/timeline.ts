// `svc timeline`: the steps of a run with attempts and durations, its machines, and its copies in object stores.

import { lanesOf } from "../../domain/placement-words.ts";
import type { Command } from "../command.ts";
import { haveLanes, placementTable, waitingTable, waitingWords } from "../placement-lanes.ts";
import { withJob } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { hintFor, printJson } from "../text.ts";
import { sinkTable, stepTable } from "./timeline/tables.ts";

export const timeline: Command = {
  name: "timeline",
  args: "<job>",
  summary: "Show the machines and steps of a run, with attempts and durations",
  options: [],
  exits: [["3", "no such job"]],
  examples: ["svc timeline 4k2m", "svc timeline 4k2m --json"],
  run: (input, io) =>
    withJob(io, input.args[0] ?? "", async (reads, id) => {
      const told = reads.timeline(id);
      const job = reads.job(id);
      const sinks = reads.sinks(id);
      const placed = reads.placements(id);
      if (input.json) {
        await printJson(io, { job_id: id, status: job?.status ?? null, ...told, ...placed, sinks });
        return 0;
      }
      const lanes = haveLanes(placed);
      // A pipe gets the rows of steps first, as ever.
      if (lanes && io.tty) {
        await io.out(`${placementTable(io, placed.placements)}\n`);
        for (const lane of lanesOf(told.steps)) {
          const what = lane.placement === null ? "Search for a machine" : `Placement ${lane.placement}`;
          await io.out(`${what}\n${stepTable(io, lane.steps)}\n`);
        }
        if (placed.waiting !== null && placed.waiting.tried.length > 0) await io.out(waitingTable(io, placed.waiting));
      } else {
        await io.out(stepTable(io, told.steps));
        if (lanes) await io.out(placementTable(io, placed.placements));
        if (placed.waiting !== null) await io.out(waitingTable(io, placed.waiting));
      }
      if (sinks.length > 0) await io.out(sinkTable(io, sinks));
      if (io.tty && job) {
        io.err(
          `${id}: ${job.status}${job.exit_code === null ? "" : `, exit code ${job.exit_code}`}${job.note ? ` (${safeField(job.note.message)})` : ""}`,
        );
        if (placed.waiting !== null) io.err(waitingWords(io, placed.waiting));
        if (job.error) io.err(`${safeField(job.error.message)}\n${hintFor(id, job.error.hint)}`);
      }
      return 0;
    }),
};
