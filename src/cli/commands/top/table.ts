// What `svc top` shows: a line of sums, and a row for each run.

import { gpuCount } from "../../../domain/gpus.ts";
import { costText } from "../../../domain/money.ts";
import { hourly } from "../../../errors/dollars.ts";
import type { JobRecord } from "../../../schemas/job.ts";
import { costCell, gpusCell, none, rateCell, tookCell } from "../../cells.ts";
import type { Io } from "../../io.ts";
import { statusPaint, table } from "../../text.ts";

export function totalsOf(jobs: readonly JobRecord[]) {
  const sum = (of: (job: JobRecord) => number): number => jobs.reduce((total, job) => total + of(job), 0);
  return {
    runs: jobs.length,
    gpus: sum((job) => gpuCount(job.gpus) * job.nodes),
    price_per_hour_usd: sum((job) => job.price_per_hour_usd ?? 0),
    cost_usd: sum((job) => job.cost_usd),
  };
}

export function headline(jobs: readonly JobRecord[]): string {
  const { runs, gpus, price_per_hour_usd: price, cost_usd } = totalsOf(jobs);
  const unknown = jobs.some(
    (job) => job.price_per_hour_usd === null && job.machines.some(({ state }) => state !== "released"),
  );
  const parts = [
    runs === 1 ? "1 run" : `${runs} runs`,
    gpus === 1 ? "1 GPU" : `${gpus} GPUs`,
    `${hourly(price)}${unknown ? " and machines of unknown price" : ""}`,
    `${costText({ cost_usd, machines: jobs.flatMap(({ machines }) => machines) })} so far`,
    "q quits",
  ];
  return parts.join("  ·  ");
}

export const topTable = (io: Io, jobs: readonly JobRecord[]): string =>
  table(
    io,
    [
      { title: "JOB" },
      { title: "STATUS", paint: statusPaint },
      { title: "PROVIDER", leaves: 3 },
      { title: "GPUS", leaves: 2 },
      { title: "$/H", right: true },
      { title: "COST", right: true },
      { title: "TOOK", right: true },
      { title: "LABEL", shrinks: true },
      { title: "ENTRYPOINT", shrinks: true, leaves: 1 },
    ],
    jobs.map((job) => [
      job.id,
      job.status,
      job.provider,
      gpusCell(job),
      rateCell(io, job.price_per_hour_usd, (usd) => usd.toFixed(2)),
      costCell(io, job),
      tookCell(io, Date.now() - Date.parse(job.created_at)),
      job.label ?? none(io),
      job.entrypoint,
    ]),
    jobs.map((job) => job.note?.message ?? null),
  );
