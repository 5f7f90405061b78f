// `svc kill`: ends runs and waits until their machines are gone, through the control plane or, if none runs, in this
// process.

import { SvcError } from "../../errors/index.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import { sleep, type Io } from "../io.ts";
import { everyJob, storeOfHome } from "../store.ts";
import { ACTIVE_STATUSES, hasEnded } from "../../schemas/names.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";

export interface KillOptions {
  jobs: string[];
  all: boolean;
  wait: boolean;
  json: boolean;
}

const LOOK_MS = 150;
/** A control plane limits its connections. */
const AT_ONCE = 32;

/** The operations of a kill, over HTTP or in this process. */
export interface Killer {
  kill(id: string): Promise<JobRecord>;
  job(id: string): Promise<JobRecord | null>;
}

export const kill: Command = {
  name: "kill",
  args: "[...jobs]",
  summary: "End runs and terminate their machines; return when the machines are gone",
  options: [
    { flags: "--all", what: "Every run that has not ended" },
    { flags: "--no-wait", what: "Return once the kill is recorded, without waiting for termination" },
  ],
  exits: [
    ["3", "no such job (nothing was killed)"],
    ["5", "control plane not reachable"],
    ["130", "interrupted; the kill still takes effect"],
  ],
  examples: ["svc kill 4k2m", "svc kill --all"],
  completes: () => "active jobs",
  async run(input, io) {
    const options: KillOptions = {
      jobs: input.args,
      all: input.flags.has("all"),
      wait: !input.flags.has("no-wait"),
      json: input.json,
    };
    if (options.all && options.jobs.length > 0)
      throw usage("--all and job ids contradict each other.", "Give one of them.");
    if (!options.all && options.jobs.length === 0)
      throw usage("`svc kill` needs JOB or --all.", "Write `svc kill JOB` or `svc kill --all`.");
    return killJobs(options, io);
  },
};

async function killJobs(options: KillOptions, io: Io): Promise<number> {
  const ids = await targets(options, io);
  if (ids.length === 0) {
    if (options.json) await printJson(io, { jobs: [] });
    else io.err("No run is active: there is nothing to kill.");
    return 0;
  }
  const client = await runningClient(io);
  if (client) return killThrough({ kill: (id) => client.kill(id), job: (id) => client.job(id) }, ids, options, io);
  return withOwnControlPlane(io, "kill", (cp) => {
    const killer: Killer = { kill: async (id) => (await cp.kill(id)).record, job: async (id) => cp.reads.job(id) };
    // No other process would finish the kill, so this one stays until it is done, even with --no-wait.
    if (!options.wait) io.err("No control plane is running, so this command waits until the machines are gone.");
    return killThrough(killer, ids, { ...options, wait: true }, io);
  });
}

/** Full ids. An unknown id stops the command before anything is killed. */
async function targets(options: KillOptions, io: Io): Promise<string[]> {
  const reads = await storeOfHome(io);
  try {
    if (!options.all) {
      if (!reads) throw new SvcError("job_not_found", { id: options.jobs[0] ?? "" });
      return [...new Set(options.jobs.map((prefix) => reads.resolveJobId(prefix)))];
    }
    const ids = reads ? [...everyJob(reads, { status: [...ACTIVE_STATUSES] })].map((job) => job.id) : [];
    return [...new Set(ids)].sort();
  } finally {
    reads?.close();
  }
}

export async function killThrough(
  killer: Killer,
  ids: string[],
  options: KillOptions,
  io: Io,
  lookMs = LOOK_MS,
): Promise<number> {
  const records: JobRecord[] = [];
  const answers: PromiseSettledResult<JobRecord>[] = [];
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = await Promise.allSettled(ids.slice(i, i + AT_ONCE).map((id) => killer.kill(id)));
    answers.push(...some);
    // No control plane answers.
    if (some.every(({ status }) => status === "rejected")) break;
  }
  const failed = answers.find((answer) => answer.status === "rejected");
  for (const { value: first } of answers.filter((answer) => answer.status === "fulfilled")) {
    let record = first;
    if (!options.json)
      io.err(
        hasEnded(record.status)
          ? `${record.id}: had already ended; nothing was killed`
          : `${record.id}: ending it${options.wait ? "" : "; `svc jobs` shows when it is done"}`,
      );
    let message = record.note?.message;
    while (options.wait && !hasEnded(record.status) && !io.interrupted.aborted) {
      await sleep(lookMs, io.interrupted);
      record = (await killer.job(record.id)) ?? record;
      const before = message;
      message = record.note?.message;
      if (!options.json && message !== undefined && message !== before) io.err(`${record.id}: ${safeField(message)}`);
    }
    records.push(record);
    if (!options.json) await io.out(`${record.id}\t${record.status}\n`);
  }
  if (options.json) await printJson(io, { jobs: records });
  const left = records.filter((r) => !hasEnded(r.status));
  if (io.interrupted.aborted && left.length > 0)
    io.err(
      `Not waiting for ${left.map((r) => r.id).join(", ")}: the kill is recorded, but a machine may still cost money.\n\`svc jobs\` lists the unfinished runs; \`svc reconcile\` finishes them.`,
    );
  // A failed kill request must not prevent the others.
  if (failed) throw failed.reason;
  return io.interrupted.aborted ? 130 : 0;
}
