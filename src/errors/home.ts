// Errors about the home of a control plane, the store in it, and whether a control plane answers.

import { entry } from "./entry.ts";

export const HOME = {
  home_unusable: entry<{ home: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The home ${d.home} ${d.why}.`,
    hint: "Set SVC_HOME to a folder that you own and may write. Nothing was changed.",
  }),
  home_locked: entry<{ home: string; holder: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `Another control plane already drives ${d.home}: ${d.holder}.`,
    hint: "Use that one, or stop it first. Nothing was changed.",
  }),
  store_newer: entry<{ file: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `${d.file} was written by a newer version of svc.`,
    hint: "Upgrade svc, or restore the backup that was made before the upgrade. The file was not touched.",
  }),
  store_corrupt: entry<{ file: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The store ${d.file} cannot be trusted: ${d.why}. It may list machines that still cost money.`,
    hint: "Nothing was changed. Restore a copy from the folder `backups` beside it, then run `svc reconcile`.",
  }),
  store_missing: entry<{ file: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The store ${d.file} is gone, though this home has been used. It may have listed machines that still cost money.`,
    hint: "Restore a copy from the folder `backups`; or, if you are sure, remove the file `installation.json` to begin anew.",
  }),
  store_failing: entry<{ file: string; why: string }>({
    status: 503,
    exit: 1,
    retry: "backoff",
    message: (d) => `The disk failed while ${d.file} was written or read (${d.why}).`,
    hint: "What was accepted before is safe and is tried again until it succeeds. Look after the disk: machines cannot be ended surely without it.",
  }),
  disk_full: entry<{ path: string }>({
    status: 507,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      `The disk that holds ${d.path} is full. What was already accepted is safe; machines are still being terminated.`,
    hint: "Free some space: the control plane goes on by itself.",
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
    message: (d) => `Nothing can listen on ${d.host} port ${d.port} here: ${d.why}.`,
    hint: "Leave --host out for 127.0.0.1, or name an address of this computer; ports below 1024 need rights. No run was started.",
  }),
  stale_writer: entry<{ epoch: number }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `A newer control plane (epoch ${d.epoch}) has taken over this home; this one writes nothing any more.`,
    hint: "End this process. The newer one drives every job.",
  }),
  log_moved_on: entry<{ job_id: string }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      `The log of job ${d.job_id} was moved on by another step at the same time; nothing was written twice.`,
    hint: "Nothing to do: it is read again from where it stands.",
  }),
  unreachable: entry<{ url: string; why: string }>({
    status: 503,
    exit: 5,
    retry: "backoff",
    message: (d) => `No control plane answers at ${d.url}: ${d.why}.`,
    hint: "Start one with `svc serve`.",
  }),
  start_failed: entry<{ why: string }>({
    status: 500,
    exit: 5,
    retry: "never",
    message: (d) => `A control plane could not be started: ${d.why}.`,
    hint: "Run `svc doctor`, which says what this computer lacks.",
  }),
};
