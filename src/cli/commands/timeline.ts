// `svc timeline`: the steps of a run with attempts and durations, its machines, and its copies in object stores.

import { spentText } from "../../domain/money.ts";
import { startParts } from "../../domain/start-times.ts";
import { runsHere } from "../../providers/descriptors.ts";
import { lanesOf } from "../../domain/placement-words.ts";
import { dollarParts, exactDollars, hourly } from "../../errors/dollars.ts";
import type { JobRecord } from "../../schemas/job.ts";
import type { Command } from "../command.ts";
import { haveLanes, placementTable, waitingTable, waitingWords } from "../placement-lanes.ts";
import { withJob } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { duration, printJson } from "../text.ts";
import { sinkTable, startWords, stepTable } from "./timeline/tables.ts";

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
      const start = job && !runsHere(job.provider) ? startParts(told, job) : null;
      if (input.json) {
        await printJson(io, { job_id: id, status: job?.status ?? null, ...told, ...placed, start, sinks });
        return 0;
      }
      const lanes = haveLanes(placed);
      // A pipe gets the rows of steps first, because scripts rely on that order.
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
      if (io.tty && start !== null) io.err(startWords(start));
      if (sinks.length > 0) await io.out(sinkTable(io, sinks));
      if (io.tty && job) {
        io.err(
          `${id}: ${job.status}${job.exit_code === null ? "" : `, exit code ${job.exit_code}`}${job.note ? ` (${safeField(job.note.message)})` : ""}`,
        );
        const budget = budgetWords(job);
        if (budget !== null) io.err(budget);
        if (placed.waiting !== null) io.err(waitingWords(io, placed.waiting));
        if (job.error) io.err(`${safeField(job.error.message)}\n${safeField(job.error.hint)}`);
      }
      return 0;
    }),
};

/** The sums of the budget and the time until it ends the run; null without one. */
function budgetWords(job: JobRecord): string | null {
  const { budget_usd: budget, budget_kept_usd: kept, budget_left_usd: left, budget_stops_at: at } = job;
  if (budget === null) return null;
  const [spentWords, keptWords, leftWords] = dollarParts(budget, [job.spent_usd ?? 0, kept ?? 0, left ?? 0]);
  const parts = [
    `Budget: ${job.spent_usd === null ? spentText(job) : `${spentWords} of ${exactDollars(budget)}`} spent`,
    ...(kept === null || kept === 0 ? [] : [`${keptWords} kept for the end`]),
    ...(left === null ? [] : [`${leftWords} left`]),
  ];
  const inMs = at === null ? 0 : Date.parse(at) - Date.now();
  const stop =
    inMs > 0 ? ` At ${hourly(job.rate_usd_per_hour ?? 0)} the script is asked to stop in ${duration(inMs)}.` : "";
  return `${parts.join(", ")}.${stop}`;
}
