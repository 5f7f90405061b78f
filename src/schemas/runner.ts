// The wire between the control plane and the runner (runner/svc_runner), as files in one run directory. The same
// files serve a local run, read in place, and a rented machine, read over SSH. docs/internals/runner.md describes the
// whole protocol.

import { z } from "zod";

/** `spec.json`: written by the control plane before `start`; read once. */
export const RunnerSpec = z.object({
  job_id: z.string(),
  node: z.int(),
  attempt: z.int(),
  /** Random per launch; every process of the run carries it as SVC_RUN_NONCE, which is how leftovers are found. */
  nonce: z.string().regex(/^[a-z0-9]{16,64}$/),
  argv: z.array(z.string()).min(1),
  cwd: z.string(),
  /**
   * Added to the runner's own environment; null removes a name. Secrets travel in `env.json`, which the runner unlinks.
   */
  env: z.record(z.string(), z.string().nullable()),
  checkpoint_dir: z.string(),
  /** The script's umask; the runner's own files are private. Absent: the runner's. */
  umask: z.int().min(0).max(0o777).optional(),
  stop_grace_seconds: z.number(),
  /** Spool bytes that the control plane has not yet acknowledged before the script's writes block. */
  spool_cap_bytes: z.int(),
  sample_seconds: z.number(),
  /**
   * Ranks that a launcher starts on this node: each gets its own pipe, so that lines are whole and prefixed with their
   * rank.
   */
  ranks: z.object({ first: z.int(), count: z.int() }).optional(),
  /** On a guarded machine (docs/internals/guard.md): the file whose deadline the runner extends while its run works. */
  keep: z
    .object({
      file: z.string(),
      grace_seconds: z.number(),
      /** A run that did nothing for this long no longer holds the machine; 0: it always does. */
      idle_seconds: z.number(),
    })
    .optional(),
  /** On a machine that its provider may take back: the address that says when, asked once a second. */
  notice: z
    .object({
      host: z.string(),
      port: z.int(),
      path: z.string(),
      headers: z.record(z.string(), z.string()),
      /** The word of an answer that announces the end. */
      says: z.string(),
      /** Between TERM and KILL then: less than the notice, for what was saved must still be downloaded. */
      grace_seconds: z.number(),
    })
    .optional(),
});
export type RunnerSpec = z.infer<typeof RunnerSpec>;

/** `status.json`: replaced atomically by the runner. */
export const RunnerStatus = z.object({
  phase: z.enum(["running", "exited", "failed"]),
  nonce: z.string(),
  runner_pid: z.int(),
  /** Field 22 of /proc/PID/stat (clock ticks since boot), or 0 where it cannot be read: with boot_id it tells a reused pid. */
  runner_start: z.int(),
  boot_id: z.string(),
  pid: z.int().nullable(),
  started_at_ms: z.int(),
  ended_at_ms: z.int().nullable(),
  /** 0–255; 128+N for a signal. Null unless `phase` is `exited`. */
  exit_code: z.int().nullable(),
  signal: z.string().max(64).nullable(),
  /** Whether a stop was requested before the script ended. */
  stopped: z.boolean(),
  /** Whether the provider announced that it takes the machine back. The runner then asks the script to end. */
  preempted: z.boolean().default(false),
  /** Whether the kernel's out-of-memory killer ended it, as far as is known. */
  oom: z.boolean(),
  /** Size of the log at the end in bytes: the log is complete once this many have been downloaded. */
  log_bytes: z.int().nullable(),
  /** Why, when `phase` is `failed`. */
  error: z.string().nullable(),
  /** Whether the script itself could not be started. A runner of an older version does not say so. */
  not_runnable: z.boolean().default(false),
  /** Processes of the run that KILL did not end, of this start and earlier ones here; `start` as `runner_start`. */
  left: z.array(z.object({ pid: z.int(), start: z.int(), name: z.string() })).default([]),
});
export type RunnerStatus = z.infer<typeof RunnerStatus>;

/** One line of `samples.jsonl`. Unknown is null, never 0. */
export const RunnerSample = z.object({
  at_ms: z.int(),
  /** CPU seconds used by the run's processes since the last sample, divided by wall seconds: 1 is one core. */
  cpu_cores: z.number().nullable(),
  memory_bytes: z.number().nullable(),
  disk_bytes_per_s: z.number().nullable(),
  net_bytes_per_s: z.number().nullable(),
  processes: z.int().nullable(),
  /** Seconds since a key was pressed at a terminal of the machine; null if it has no terminal. */
  terminal_idle_seconds: z.number().nullable().default(null),
  gpus: z
    .array(
      z.object({
        index: z.int(),
        util_percent: z.number().nullable(),
        memory_used_mib: z.number().nullable(),
        memory_total_mib: z.number().nullable(),
        power_watts: z.number().nullable(),
        temperature_c: z.number().nullable(),
      }),
    )
    .nullable(),
});
export type RunnerSample = z.infer<typeof RunnerSample>;

/** The errors with which a disk may refuse a small file although its size says that it has room. */
export const DISK_FAULTS = ["ENOSPC", "EDQUOT", "EROFS", "EIO", "EFBIG"] as const;
export type DiskFault = (typeof DISK_FAULTS)[number];
