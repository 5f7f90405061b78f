// `svc top`: the runs that have not ended, with GPUs and dollars per hour. Redrawn on a terminal until `q`; in a pipe
// printed once. It reads the store alone. top/screen.ts draws, top/table.ts makes the rows.

import { ACTIVE_STATUSES, JOB_FIELDS } from "../../schemas/names.ts";
import { areLeftAlone, AWAY_WORDS } from "../away.ts";
import type { Command } from "../command.ts";
import { redrawEachSecond } from "../redraw.ts";
import { everyJob, withStore, type OpenReads } from "../store.ts";
import { printList } from "../text.ts";
import { onScreen } from "./top/screen.ts";
import { headline, topTable, totalsOf } from "./top/table.ts";

export const top: Command = {
  name: "top",
  summary: "Show the runs that have not ended, with GPUs and dollars per hour, live; q quits",
  options: [],
  exits: [["130", "interrupted"]],
  fields: JOB_FIELDS,
  examples: ["svc top", "svc top --json id,status,price_per_hour_usd"],
  async run(input, io) {
    if (input.json || !io.tty) {
      const jobs = await withStore(io, active);
      if (input.json) await printList(io, input, { ...totalsOf(jobs), jobs }, jobs);
      else await io.out(jobs.length > 0 ? topTable(io, jobs) : "");
      return 0;
    }
    await onScreen(io, (screen) =>
      redrawEachSecond(io, screen.end, async (reads) => {
        const jobs = active(reads);
        const head = (await areLeftAlone(io, jobs)) ? `${headline(jobs)}\n${AWAY_WORDS}` : headline(jobs);
        await screen.draw(head, jobs.length > 0 ? topTable(io, jobs) : "No run is active.");
      }),
    );
    return io.interrupted.aborted ? 130 : 0;
  },
};

const active = (reads: OpenReads | null) =>
  reads === null ? [] : [...everyJob(reads, { status: [...ACTIVE_STATUSES] })];
