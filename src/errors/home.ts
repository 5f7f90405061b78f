// Errors about the home of a control plane, the store in it, and whether a control plane answers.

import { entry } from "./entry.ts";

const RESTORE =
  "Stop svc. Move `svc.db`, `svc.db-wal` and `svc.db-shm` out of the home, then copy the file of `backups` with the latest time in its name (not the last name) to `svc.db`. Then run `svc reconcile --dry-run` before anything else: it only lists the machines that were rented after the copy. If `backups` is empty, `svc reconcile --new-store --dry-run` makes an empty store for the same installation and lists every machine. Every other start of svc ends the listed ones. `svc docs troubleshooting` says how to save what is on them. Keep `installation.json`: without it svc never finds these machines again.";

export const HOME = {
  home_unusable: entry<{ home: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The home ${d.home} ${d.why}.`,
    hint: (d) =>
      d.why === "is not a folder"
        ? "Nothing was changed. Set SVC_HOME to a folder, which svc makes if it does not exist; without SVC_HOME, the home is ~/.svc."
        : "Nothing was changed. Machines of this home may still cost money. If the home is yours, mend what the message names: remove a file of another user or take it over with `chown`, and close the home to others (`chmod 700`). Otherwise set SVC_HOME to a folder that you own and can write to.",
  }),
  user_home_unknown: entry<{ uid: number | null }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The home folder of this user${d.uid === null ? "" : ` (uid ${d.uid})`} is unknown: HOME is not set, and the system's list of users has no entry for it.`,
    hint: "Set HOME to a folder of this user, or SVC_HOME to the folder where svc keeps its state. Nothing was changed.",
  }),
  home_locked: entry<{ home: string; holder: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `Another control plane is already running for ${d.home}: ${d.holder}.`,
    hint: "Use that one. To stop it ends its runs and releases their machines, unless terminate_on_exit is off. Nothing was changed.",
  }),
  store_newer: entry<{ file: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `${d.file} was written by a newer version of svc.`,
    hint: "Upgrade svc: that is safe for every run. The backup that was made before the upgrade does not know later machines: after restoring it, run `svc reconcile --dry-run` first, because svc ends them. The file was not touched.",
  }),
  store_corrupt: entry<{ file: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The store ${d.file} cannot be trusted: ${d.why}. It may list machines that still cost money.`,
    hint: `Nothing was changed. ${RESTORE}`,
  }),
  store_missing: entry<{ file: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The store ${d.file} is missing, although this home has been used. It may have listed machines that still cost money.`,
    hint: RESTORE,
  }),
  store_failing: entry<{ file: string; why: string }>({
    status: 503,
    exit: 1,
    retry: "backoff",
    message: (d) => `The disk failed while svc was reading or writing ${d.file} (${d.why}).`,
    hint: "Check the disk. svc retries accepted writes until they succeed; rented machines continue, and are billed. svc cannot reliably release machines until the disk works.",
  }),
  /** `starting`: no control plane runs, and this one cannot start. */
  disk_full: entry<{ path: string; starting?: boolean }>({
    status: 507,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      d.starting === true
        ? `The disk that holds ${d.path} is full, and svc cannot start. Everything accepted so far is safe; rented machines continue, and cost money: svc cannot end them now.`
        : `The disk that holds ${d.path} is full. Everything accepted so far is safe, and svc still terminates machines.`,
    hint: (d) =>
      d.starting === true
        ? "Free some space, then run the command again. Without that, the provider's console ends a machine."
        : "Free some space; the control plane then continues by itself. A run that you kill meanwhile waits up to 10 minutes for room for the rest of its log, then its machine is released.",
  }),
  port_taken: entry<{ host: string; port: number; holder: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `Port ${d.port} on ${d.host} is in use${d.holder}.`,
    hint: "Stop the other program or choose another port with `--port`.",
  }),
  address_unusable: entry<{ host: string; port: number; why: string }>({
    status: 500,
    exit: 2,
    retry: "never",
    message: (d) => `Cannot listen on ${d.host} port ${d.port}: ${d.why}.`,
    hint: "Leave --host out for 127.0.0.1, or use an address of this computer; ports below 1024 require root. No run was started.",
  }),
  stale_writer: entry<{ epoch: number }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `A newer control plane (epoch ${d.epoch}) has taken over this home; this one no longer writes.`,
    hint: "Stop this process. The newer control plane manages every run.",
  }),
  log_moved_on: entry<{ job_id: string }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) => `Another step updated the log of job ${d.job_id} concurrently; nothing was duplicated.`,
    hint: "No action is needed: svc continues reading from the updated position.",
  }),
  /** `pid`: of a control plane that is running, and does not answer. */
  unreachable: entry<{ url: string; why: string; pid?: number }>({
    status: 503,
    exit: 5,
    retry: "backoff",
    message: (d) => `No control plane answers at ${d.url}: ${d.why}.`,
    hint: (d) =>
      d.pid === undefined
        ? "Runs that were started may continue and cost money. `svc serve` starts a control plane, which resumes them."
        : `Its runs may continue and cost money. Wait, and read its output. If it stays so, end it with \`kill -9 ${d.pid}\`: \`svc serve\` then resumes the runs.`,
  }),
  start_failed: entry<{ why: string }>({
    status: 500,
    exit: 5,
    retry: "never",
    message: (d) => `The control plane could not start: ${d.why}.`,
    hint: "Run `svc doctor`: it lists what is missing on this computer.",
  }),
};
