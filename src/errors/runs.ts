// Errors for the ways in which a run fails, and for reasons that keep it from starting on its machine.

import { entry } from "./entry.ts";
import { endedWith } from "./script-ended.ts";

/** Replaces the name of the signal that ended a script, if the kernel was seen to end processes for lack of memory. */
export const OUT_OF_MEMORY = "the system, which was out of memory";

/** What PyTorch, JAX, TensorFlow and CUDA itself say when a GPU has no memory left. */
const GPU_MEMORY = /CUDA.{0,20}out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|OOM when allocating/i;

/** The sentence about a rented machine in the hint of an ended run. The store removes it from the error of a local run, which has none. */
export const RELEASED = "svc releases any rented machine.";

/** Python's error for a missing module. Packages that test their own imports raise an ImportError with the same words. */
const NO_MODULE = /^(ModuleNotFoundError|ImportError): No module named/;

/** What pip, uv, conda and svc's installer say if no package index answered. */
const NO_INDEX =
  /package index cannot be reached|failed to establish a new connection|temporary failure in name resolution|name or service not known|nodename nor servname|network is unreachable|no route to host|connecttimeout|could not connect|dns error|error trying to connect|connection refused|connection (?:timed out|reset)|read timed out|HTTP 000 CONNECTION FAILED/i;
const INDEX_HINT =
  "The requirements are not the cause: the machine's network or the index is. Run it again later or on another machine (`retry` with install_failed does so), name an index that the machine can reach in the requirements, or use an image that contains the packages and set install.";

/** Says who installs a missing module. Empty if no module is missing, or if svc left out a file of the project. */
function packageHint(d: { why: string | null; left_out?: string | null; in_place?: boolean }): string {
  if (d.why === null || typeof d.left_out === "string" || !NO_MODULE.test(d.why)) return "";
  return d.in_place === true
    ? "A run on this computer uses the packages of its Python, and svc installs none: install it for the Python that starts the run, in a virtual environment for example, or name another one with `python`. "
    : "If it is a package, add it to requirements.txt or pyproject.toml: svc installs those on the machine. ";
}

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
    hint: "Set `python` to the path of an interpreter on this computer, for example .venv/bin/python, or leave it out. Nothing was started and nothing costs money.",
  }),
  runner_failed: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `The runner, which supervises the script, failed: ${d.why}.`,
    hint: `svc retries; if that does not help, the run ends, and everything downloaded so far is kept. ${RELEASED} \`svc timeline\` shows the step's details; \`svc doctor\` checks the usual causes.`,
  }),
  run_damaged: entry<{ path: string }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `The file ${d.path}, written by the run's supervisor, is damaged and cannot be read.`,
    hint: `svc retries for a while, then treats the run as lost. It downloads the log and checkpoints in either case. ${RELEASED} Usual causes: the machine's disk was full or failed; resume_from continues from the last complete checkpoint.`,
  }),
  run_lost: entry<{ why: string; never_started?: boolean }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The run ended without leaving an exit code: ${d.why}.`,
    hint: `Its log and checkpoints up to that point are kept. ${RELEASED} Usual causes: the machine rebooted or ran out of memory. Submit the run again, or continue with resume_from.`,
  }),
  /** `who` begins the sentence: it names rank and node if they are known. `why` is the uncaught exception. */
  script_failed: entry<{
    exit_code: number;
    signal: string | null;
    who: string;
    why: string | null;
    /** The last line of its log, if the line shows no failure. */
    last?: string | null;
    /** The file that it seems to lack because it was excluded from the code: a sentence. */
    left_out?: string | null;
    /** Whether its machine's disk was full when it ended. */
    disk_full?: boolean;
    /** Whether it ran on this computer, where svc installs nothing. */
    in_place?: boolean;
  }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => {
      const disk = d.disk_full === true ? " The disk of its machine was full." : "";
      if (d.signal) return `${d.who} was ended by ${d.signal} (exit code ${d.exit_code}).${disk}`;
      const why = d.why === null ? "" : `: ${d.why.replace(/\.$/, "")}`;
      const last = typeof d.last === "string" ? ` Its last line was: ${d.last}` : "";
      const lacks = typeof d.left_out === "string" ? ` ${d.left_out}` : "";
      return `${endedWith(d.who)}exit code ${d.exit_code}${why}.${disk}${lacks}${last}`;
    },
    hint: (d) =>
      d.signal === "SIGKILL" || d.signal === OUT_OF_MEMORY
        ? `No user requested this; most often the machine ran out of memory. Try smaller batches, fewer data loader workers or a machine with more memory; resume_from continues from the last complete checkpoint. ${RELEASED}`
        : d.why !== null && GPU_MEMORY.test(d.why)
          ? `Try a smaller batch, gradient checkpointing or a GPU with more memory; resume_from continues from the last complete checkpoint. ${RELEASED}`
          : `${packageHint(d)}\`svc logs JOB --tail 50\` shows the end of its log. ${RELEASED}`,
  }),
  launcher_missing: entry<{ launcher: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The launcher ${d.launcher} cannot be used: ${d.why}. The script was not started.`,
    hint: `Add it to the project's requirements, choose an image that includes it, or set launcher to single. ${RELEASED}`,
  }),
  resume_unavailable: entry<{ job: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The run cannot resume from run ${d.job}: ${d.why}.`,
    hint: `\`svc jobs --all\` lists the runs; each run's page lists its checkpoints. A file in checkpoint_dir() is complete once \`svc.atomic_save\` or \`svc.checkpoint\` has saved it. Leave resume_from out to start from the beginning. If svc had already accepted the run, the run ends with this error. ${RELEASED}`,
  }),
  install_refused: entry<{ what: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The project's dependencies cannot be installed on a machine: ${d.what} ${d.why}.`,
    hint: "Correct the file, or set `install` to `none` or to a command of your own. Nothing was rented and nothing costs money.",
  }),
  job_not_removable: entry<{ id: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The run ${d.id} cannot be removed: ${d.why}.`,
    hint: "Nothing was deleted. `svc kill` ends a run; `svc reconcile` terminates machines that are not confirmed gone.",
  }),
  job_not_archivable: entry<{ id: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The run ${d.id} cannot be archived: it has not ended.`,
    hint: "Nothing was changed. Wait until it has ended, or end it by `svc kill`.",
  }),
  checkpoint_not_removable: entry<{ id: string; name: string; why: string; remedy: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The checkpoint ${d.name} of the run ${d.id} cannot be removed: ${d.why}.`,
    hint: (d) => `Nothing was deleted. ${d.remedy}`,
  }),
  checkpoint_not_found: entry<{ id: string; name: string; there: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The run ${d.id} has no checkpoint \`${d.name}\`.`,
    hint: (d) => `Nothing was deleted. ${d.there}`,
  }),
  install_failed: entry<{ exit_code: number; last: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `Installing dependencies ended with exit code ${d.exit_code}: ${d.last}`,
    hint: (d) => `${NO_INDEX.test(d.last) ? INDEX_HINT : "Correct the requirements or set install."} ${RELEASED}`,
  }),
  step_timed_out: entry<{ step: string; seconds: number }>({
    status: 500,
    exit: 1,
    retry: "backoff",
    message: (d) => `The step ${d.step} timed out after ${d.seconds} s.`,
    hint: `${RELEASED} Try again, or use another provider or region.`,
  }),
  run_timed_out: entry<{ minutes: number }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The run reached max_runtime_minutes (${d.minutes}). svc downloads its checkpoints and ends it.`,
    hint: `${RELEASED} Raise max_runtime_minutes, or continue with resume_from.`,
  }),
  run_idle: entry<{ minutes: number; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The run was idle for ${d.minutes} minutes (${d.why}). svc downloads its checkpoints and ends it.`,
    hint: `${RELEASED} Raise idle_timeout_minutes, or set it to 0 to turn the watchdog off.`,
  }),
  /** `why`: the message of the repeated failure. */
  no_progress: entry<{ why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The run failed again in the same way without a new complete checkpoint, so svc did not use another machine. ${d.why}`,
    hint: `Correct the cause, or save checkpoints more often; resume_from continues from the last complete checkpoint. ${RELEASED}`,
  }),
  cancelled_by_user: entry({
    status: 200,
    exit: 1,
    retry: "never",
    message: () => "The run was killed on request.",
    hint: `Its log and checkpoints up to that point are kept. ${RELEASED} To continue it, submit it again with resume_from.`,
  }),
  stopped_by_rule: entry<{ rule: string }>({
    status: 200,
    exit: 1,
    retry: "never",
    message: (d) => `The run was ended by the rule \`${d.rule}\`.`,
    hint: `Its log and checkpoints up to that point are kept. ${RELEASED} \`svc notify rules\` shows and changes the rules of all runs; a run's own are in its spec.`,
  }),
  control_plane_ended: entry({
    status: 200,
    exit: 1,
    retry: "never",
    message: () => "The control plane ended before the run did. terminate_on_exit is on, so svc ends the run.",
    hint: `${RELEASED} Run \`svc serve\` in a terminal that stays open, or set terminate_on_exit to false.`,
  }),
};
