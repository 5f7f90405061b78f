// Prints the list of `svc jobs`: as a table, as JSON, or again each second with --watch.

import { toJson } from "../../../domain/terminal-text.ts";
import { areLeftAlone, AWAY_WORDS } from "../../away.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { redrawEachSecond } from "../../redraw.ts";
import { withStore, withStoreQuietly, type OpenReads } from "../../store.ts";
import { picked, printJson } from "../../text.ts";
import { readChosen, type ChosenJobs, type JobList } from "./chosen-jobs.ts";
import { jobsTable, reasonOf, type Regions } from "./table.ts";

const CLEAR = "\u001b[H\u001b[2J";

export const listJobs = (chosen: ChosenJobs, input: Input, io: Io): Promise<number> =>
  (chosen.ids.length > 0 ? withStoreQuietly : withStore)(io, async (reads) => {
    const list = readChosen(reads, chosen, io);
    if (input.json) {
      await printJson(io, asJson(reads, input.fields, list));
      return 0;
    }
    await io.out(list.jobs.length > 0 ? jobsTable(io, list.jobs, regionsOf(reads, list)) : "");
    if (!io.tty) return 0;
    if (list.jobs.length === 0) io.err(emptyWords(chosen));
    if (await areLeftAlone(io, list.jobs)) io.err(AWAY_WORDS);
    if (list.next !== null) io.err("More runs exist: use --limit N or --all.");
    return 0;
  });

function emptyWords({ status, label, provider, tag, archived }: ChosenJobs): string {
  if (status) return `No run is ${status}.`;
  return label !== undefined || provider !== undefined || tag !== undefined || archived
    ? "No run matches. `svc jobs --all` lists all runs."
    : "No runs yet. `svc run` shows how to start one.";
}

/** Until the command is interrupted. */
export async function watchJobs(chosen: ChosenJobs, input: Input, io: Io): Promise<number> {
  let before = "";
  await redrawEachSecond(io, io.interrupted, async (reads) => {
    const list = readChosen(reads, chosen, io);
    const shown = input.json
      ? `${toJson(asJson(reads, input.fields, list))}\n`
      : jobsTable(io, list.jobs, regionsOf(reads, list));
    // On a terminal the durations change, so every poll is drawn; a pipe gets a new block only when a run changed.
    const key = io.tty
      ? shown
      : JSON.stringify(list.jobs.map((j) => [j.id, j.status, j.exit_code, j.cost_usd, reasonOf(j)]));
    if (key !== before) {
      const start = input.json ? "" : io.tty ? CLEAR : before ? "\n" : "";
      await io.out(start + (shown || (io.tty ? `${emptyWords(chosen)}\n` : "")));
    }
    before = key;
  });
  return 130;
}

const regionsOf = (reads: OpenReads | null, { jobs }: JobList): Regions =>
  reads?.regions(jobs.map(({ id }) => id)) ?? new Map();

function asJson(reads: OpenReads | null, fields: Input["fields"], list: JobList): object {
  if (fields === null) return { jobs: list.jobs, next_cursor: list.next };
  const regions: Regions = fields.includes("region") ? regionsOf(reads, list) : new Map();
  return picked(
    list.jobs.map((job) => ({ ...job, region: regions.get(job.id) ?? null })),
    fields,
  );
}
