// `svc kill`: ends runs and waits until their machines are gone, through the control plane or, if none runs, in this
// process.

import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { everyJob, withJobs, withStore } from "../store.ts";
import { asTold } from "../told.ts";
import { ACTIVE_STATUSES } from "../../schemas/names.ts";
import { printJson } from "../text.ts";
import { type KillOptions, type Killer, killThrough } from "./kill/kill-through.ts";

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
    ["130", "interrupted; the kill is recorded, and the control plane finishes it, or the next `svc reconcile`"],
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

/** Full ids. An unknown id stops the command before anything is killed, and the error says so: the other runs cost money. */
async function targets({ all, jobs }: KillOptions, io: Io): Promise<string[]> {
  if (!all)
    return withJobs(io, jobs, (_, ids) => ids).catch((thrown: unknown) => {
      const { hint } = asTold(thrown);
      if (jobs.length > 1 && thrown instanceof Error)
        Object.assign(thrown, {
          hint: `svc killed no run: those that have not ended continue and may cost money. ${hint}`,
        });
      throw thrown;
    });
  return withStore(io, (reads) => {
    const active = reads ? [...everyJob(reads, { status: [...ACTIVE_STATUSES] })] : [];
    return [...new Set(active.map(({ id }) => id))].sort();
  });
}
