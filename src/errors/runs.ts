// How a run ends other than well, and what keeps it from starting on a machine that it has.

import { entry } from "./entry.ts";

/** Stands for the signal that ended a script, where the kernel was seen to end processes for want of memory. */
export const OUT_OF_MEMORY = "the system, which was out of memory";

export const RUNS = {
  python_missing: entry<{ tried: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `No Python 3.8 or newer was found (tried ${d.tried}); the run was not started.`,
    hint: "Install Python 3 or set SVC_PYTHON to its path. Nothing costs money.",
  }),
  python_refused: entry<{ python: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The Python ${d.python} cannot be used for this run: ${d.why}.`,
    hint: "Give `python` the path of an interpreter of this computer, for example .venv/bin/python, or leave it out. Nothing was started and nothing costs money.",
  }),
  runner_failed: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `The runner that supervises the script could not do its work: ${d.why}.`,
    hint: "See the step's detail in the timeline; `svc doctor` checks the usual causes.",
  }),
  run_damaged: entry<{ path: string }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `What the run's supervisor wrote cannot be read: ${d.path} is damaged.`,
    hint: "It is looked at again for a while; then the run counts as lost. Its log and checkpoints are brought home all the same.",
  }),
  run_lost: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The run ended without leaving an exit code: ${d.why}.`,
    hint: "Its log and checkpoints up to then are kept, and a rented machine is given back. Often it had rebooted or run out of memory.",
  }),
  /** `who` begins the sentence: it names rank and node where they are known. `why` is the exception that was not caught. */
  script_failed: entry<{
    exit_code: number;
    signal: string | null;
    who: string;
    why: string | null;
    /** The last line of its log, where that tells of no failure. */
    last?: string | null;
    /** Of its machine, when it ended. */
    disk_full?: boolean;
  }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => {
      const disk = d.disk_full === true ? " The disk of its machine was full." : "";
      if (d.signal) return `${d.who} was ended by ${d.signal} (exit code ${d.exit_code}).${disk}`;
      const why = d.why === null ? "" : `: ${d.why.replace(/\.$/, "")}`;
      const last = typeof d.last === "string" ? ` Its last line was: ${d.last}` : "";
      return `${d.who} ended with exit code ${d.exit_code}${why}.${disk}${last}`;
    },
    hint: (d) =>
      d.signal === "SIGKILL" || d.signal === OUT_OF_MEMORY
        ? "Nobody asked for that: most often the machine had no memory left. Try smaller batches, fewer data loader workers, or more memory; resume_from goes on from the last complete checkpoint. A rented machine is given back."
        : "`svc logs JOB --tail 50` shows its last words. A rented machine is given back.",
  }),
  launcher_missing: entry<{ launcher: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The launcher ${d.launcher} cannot be used: ${d.why}. The script was not started.`,
    hint: "Name it in the project's requirements, choose an image that has it, or set launcher to single. A rented machine is given back.",
  }),
  resume_unavailable: entry<{ job: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The run cannot go on from job ${d.job}: ${d.why}.`,
    hint: "`svc jobs --all` lists the jobs; each one's page lists its checkpoints. Leave resume_from out to begin anew.",
  }),
  install_refused: entry<{ what: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The project's dependencies could not be installed on a machine: ${d.what} ${d.why}.`,
    hint: "Correct the file, or set `install` to `none` or to a command of your own. Nothing was rented and nothing costs money.",
  }),
  job_not_removable: entry<{ id: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The run ${d.id} cannot be removed: ${d.why}.`,
    hint: "Nothing was deleted. `svc kill` ends a run; `svc reconcile` looks after machines that are not proven gone.",
  }),
  install_failed: entry<{ exit_code: number; last: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `Installing dependencies ended with exit code ${d.exit_code}: ${d.last}`,
    hint: "Correct the requirements or set install. A rented machine is given back.",
  }),
  step_timed_out: entry<{ step: string; seconds: number }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `The step ${d.step} was not done after ${d.seconds} s.`,
    hint: "A rented machine is given back. Try again, or another provider or region.",
  }),
  run_timed_out: entry<{ minutes: number }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The run reached max_runtime_minutes (${d.minutes}) and was ended; checkpoints were collected.`,
    hint: "A rented machine is given back. Raise max_runtime_minutes, or continue with resume_from.",
  }),
  run_idle: entry<{ minutes: number; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The run did nothing for ${d.minutes} minutes (${d.why}) and was ended; checkpoints were collected.`,
    hint: "A rented machine is given back. Raise idle_timeout_minutes, or set it to 0 to turn the watchdog off.",
  }),
  cancelled_by_user: entry({
    status: 200,
    exit: 1,
    retry: "never",
    message: () => "The job was killed on request.",
    hint: "Its log and checkpoints up to then are kept, and a rented machine is given back.",
  }),
  control_plane_ended: entry({
    status: 200,
    exit: 1,
    retry: "never",
    message: () =>
      "The control plane ended while the job ran (terminate_on_exit), so it was ended, and a rented machine given back.",
    hint: "Run `svc serve` in a terminal that stays open, or set terminate_on_exit to false.",
  }),
};
