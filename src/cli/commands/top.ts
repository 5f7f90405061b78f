// `svc top`: the runs that have not ended, with GPUs and dollars per hour. Redrawn on a terminal until `q`; in a pipe
// printed once. It reads the store alone.

import { costText, spentText } from "../../domain/money.ts";
import { gpuCount } from "../../domain/gpus.ts";
import { hourly } from "../../errors/dollars.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { ACTIVE_STATUSES, JOB_FIELDS } from "../../schemas/names.ts";
import type { Command } from "../command.ts";
import { sleep, type Io } from "../io.ts";
import { everyJob, storeOfHome, type OpenReads } from "../store.ts";
import { duration, printList, statusPaint, table } from "../text.ts";

const DRAW_MS = 1_000;
/** The alternate screen without a cursor, so that the terminal looks as before at the end. */
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";

export const top: Command = {
  name: "top",
  summary: "Show the runs that have not ended, with GPUs and dollars per hour, live; q quits",
  options: [],
  exits: [["130", "interrupted"]],
  fields: JOB_FIELDS,
  examples: ["svc top", "svc top --json id,status,price_per_hour_usd"],
  async run(input, io) {
    let reads = await storeOfHome(io);
    try {
      if (input.json || !io.tty) {
        const jobs = active(reads);
        if (input.json) await printList(io, input, { ...totalsOf(jobs), jobs }, jobs);
        else await io.out(jobs.length > 0 ? topTable(io, jobs) : "");
        return 0;
      }
      const quit = new AbortController();
      const ends = AbortSignal.any([quit.signal, io.interrupted]);
      const restore = onKeys((keys) => /[qQ]|^\u001b$/.test(keys) && quit.abort());
      await io.out(ENTER);
      try {
        while (!ends.aborted) {
          reads ??= await storeOfHome(io);
          const jobs = active(reads);
          const rows = topTable(io, jobs).split("\n");
          const shown = rows.slice(0, Math.max(5, (process.stdout.rows || 24) - 3)).join("\n");
          await io.out(`\u001b[H\u001b[2J${headline(jobs)}\n\n${jobs.length > 0 ? shown : "No run is active."}`);
          await sleep(DRAW_MS, ends);
        }
      } finally {
        restore();
        await io.out(LEAVE);
      }
      return io.interrupted.aborted ? 130 : 0;
    } finally {
      reads?.close();
    }
  },
};

const active = (reads: OpenReads | null): JobRecord[] =>
  reads === null ? [] : [...everyJob(reads, { status: [...ACTIVE_STATUSES] })];

function totalsOf(jobs: readonly JobRecord[]) {
  const sum = (of: (job: JobRecord) => number): number => jobs.reduce((total, job) => total + of(job), 0);
  return {
    runs: jobs.length,
    gpus: sum((job) => gpuCount(job.gpus) * job.nodes),
    price_per_hour_usd: sum((job) => job.price_per_hour_usd ?? 0),
    cost_usd: sum((job) => job.cost_usd),
  };
}

function headline(jobs: readonly JobRecord[]): string {
  const { runs, gpus, price_per_hour_usd: price, cost_usd } = totalsOf(jobs);
  const unknown = jobs.some(
    (job) => job.price_per_hour_usd === null && job.machines.some(({ state }) => state !== "released"),
  );
  const parts = [
    runs === 1 ? "1 run" : `${runs} runs`,
    gpus === 1 ? "1 GPU" : `${gpus} GPUs`,
    `${hourly(price)}${unknown ? " and machines of unknown price" : ""}`,
    `${costText({ cost_usd, machines: [] })} so far`,
    "q quits",
  ];
  return parts.join("  ·  ");
}

const topTable = (io: Io, jobs: readonly JobRecord[]): string =>
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
      job.nodes > 1 ? `${job.nodes}x ${job.gpus}` : job.gpus,
      job.price_per_hour_usd === null
        ? io.tty
          ? "-"
          : ""
        : io.tty
          ? job.price_per_hour_usd.toFixed(2)
          : String(job.price_per_hour_usd),
      io.tty ? spentText(job) : String(job.cost_usd),
      io.tty
        ? duration(Date.now() - Date.parse(job.created_at))
        : ((Date.now() - Date.parse(job.created_at)) / 1_000).toFixed(1),
      job.label ?? (io.tty ? "-" : ""),
      job.entrypoint,
    ]),
    jobs.map((job) => job.note?.message ?? null),
  );

/** Calls the listener with the keys that are pressed, and returns the function that gives the terminal back. */
function onKeys(listener: (keys: string) => unknown): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => {};
  const heard = (keys: Buffer): void => {
    // In raw mode, Ctrl-C is an ordinary key.
    if (keys.includes(3)) process.kill(process.pid, "SIGINT");
    listener(keys.toString("latin1"));
  };
  stdin.setRawMode(true).on("data", heard).resume();
  return () => {
    stdin.off("data", heard).setRawMode(false).pause();
  };
}
