// The table of `svc jobs`. A pipe gets the columns that it has always had first, and the newer ones before the reason.

import { bytes } from "../../../domain/bytes.ts";
import type { JobRecord } from "../../../schemas/job.ts";
import { hasEnded } from "../../../schemas/names.ts";
import { costCell, gpusCell, none, rateCell, tookCell } from "../../cells.ts";
import type { Io } from "../../io.ts";
import { instant, statusPaint, table } from "../../text.ts";

/** The place of each run's machines, by its id. */
export type Regions = ReadonlyMap<string, string>;

export function jobsTable(io: Io, list: readonly JobRecord[], regions: Regions): string {
  const where = { title: "REGION", leaves: 7 };
  const rate = { title: "$/H", right: true, leaves: 8 };
  const tags = { title: "TAGS", shrinks: true, leaves: 9 };
  // A terminal has no room for a column that says nothing.
  const placed = io.tty && list.some((job) => regions.has(job.id));
  const priced = io.tty && list.some((job) => (job.price_per_hour_usd ?? 0) !== 0);
  const tagged = io.tty && list.some((job) => job.tags.length > 0);
  return table(
    io,
    [
      { title: "JOB" },
      { title: "STATUS", paint: statusPaint },
      { title: "EXIT", right: true, leaves: 3 },
      { title: "PROVIDER", leaves: 5 },
      ...(placed ? [where] : []),
      { title: "GPUS", leaves: 4 },
      ...(priced ? [rate] : []),
      { title: "COST", right: true },
      { title: "CREATED", leaves: 2 },
      { title: "TOOK", right: true },
      { title: "LABEL", shrinks: true },
      { title: "ENTRYPOINT", shrinks: true, leaves: 1 },
      ...(tagged ? [tags] : []),
      { title: "SIZE", right: true, leaves: 6 },
      ...(io.tty ? [] : [where, rate, tags]),
    ],
    list.map((job) => {
      const region = regions.get(job.id) ?? none(io);
      const price = rateCell(io, job.price_per_hour_usd, (usd) => (usd === 0 ? "-" : usd.toFixed(2)));
      return [
        job.id,
        job.status,
        job.exit_code === null ? none(io) : String(job.exit_code),
        job.provider,
        ...(placed ? [region] : []),
        gpusCell(job),
        ...(priced ? [price] : []),
        costCell(io, job),
        instant(io, job.created_at),
        tookCell(io, tookMs(job)),
        job.label ?? none(io),
        job.entrypoint,
        ...(tagged ? [tagsCell(io, job)] : []),
        sizeCell(io, job),
        ...(io.tty ? [] : [region, price, tagsCell(io, job)]),
      ];
    }),
    list.map(reasonOf),
  );
}

const tagsCell = (io: Io, { tags }: JobRecord): string => (tags.length === 0 ? none(io) : tags.join(","));

/** Its disk usage here, once it has ended and was measured. */
function sizeCell(io: Io, { disk_bytes: size }: JobRecord): string {
  if (size === null) return none(io);
  return io.tty ? bytes(size) : String(size);
}

/** Why it ended in this way, or a note on its current state. */
export const reasonOf = (job: JobRecord): string | null => job.note?.message ?? job.error?.message ?? null;

/** From the submission to the end, including the release of the machine. */
function tookMs(job: JobRecord): number {
  const from = Date.parse(job.created_at);
  const to = job.ended_at ? Date.parse(job.ended_at) : hasEnded(job.status) ? from : Date.now();
  return to - from;
}
