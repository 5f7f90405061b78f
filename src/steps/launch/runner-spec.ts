// Builds the exact start of a job: argument vector, environment, secrets. Pure, except for the lookup of secrets.

import { DESCRIPTORS } from "../../providers/descriptors.ts";
import type { Entrypoint } from "../../files/entrypoint.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { CREDENTIAL_FIELDS, CREDENTIAL_NAMES } from "../../schemas/credential-blocks.ts";
import type { RunnerSpec } from "../../schemas/runner.ts";
import { gpuCount } from "../../domain/gpus.ts";
import { stopGraceSeconds } from "../../domain/stop-grace.ts";
import { launchArgv, launchMode, ranksOf } from "./launcher-argv.ts";
import { holdsSecret, isReference } from "../../domain/secret-names.ts";

/**
 * Names that must not leak from the control plane's own environment into a run: options of its launcher, and the keys
 * that rent machines or open stores, which a script does not need and could print.
 */
const OURS: ReadonlySet<string> = new Set(
  // The run needs those of the hub and the tracker.
  CREDENTIAL_NAMES.filter((name) => name !== "hub" && name !== "tracker")
    .flatMap((name) => CREDENTIAL_FIELDS[name])
    .flatMap((field) => (field.secret ? field.variables : [])),
);
const isDropped = (name: string): boolean => name.startsWith("PET_") || OURS.has(name);

export interface PlanInput {
  jobId: string;
  node: number;
  /** Number of the placement, from 1. */
  placement: number;
  spec: RunSpec;
  entry: Entrypoint;
  python: string;
  /** Variables that make subprocesses use the same Python; null removes one. The job's own values win. */
  pythonEnv?: Record<string, string | null>;
  projectDir: string;
  checkpointDir: string;
  dataDir: string;
  packageDir: string;
  /** Whether the run works in place, on the user's own computer. */
  inPlace: boolean;
  /** The user's own umask, if the script runs on this computer. */
  umask?: number;
  /** Whether the install step created an environment with `python`. */
  installed: boolean;
  /** The path of the checkpoint from which the run resumes. */
  resumeFrom: string | null;
  /** Lets the nodes of one Ray recognise each other. */
  rayToken: string;
  /** The address of each node k, by its number; ranks meet at the first. */
  addresses: readonly string[];
  /** Set if the machine is guarded: see `RunnerSpec`. */
  keep?: RunnerSpec["keep"];
  /** On a machine that its provider may take back: see `RunnerSpec`. */
  notice?: RunnerSpec["notice"];
  mark: string;
  nonce: string;
  /** The environment that the run inherits: this computer's, for a local run. */
  inherited: NodeJS.ProcessEnv;
  /** Looks up `env://NAME` and `store://path`. */
  secret: (reference: string) => string;
  /** Hub and tracker variables, when configured. */
  injected: { secrets: Record<string, string>; plain: Record<string, string> };
}

export interface RunPlan {
  runner: RunnerSpec;
  secretEnv: Record<string, string>;
}

/** Bytes of log by which a run may be ahead of the control plane before its writes block. */
export const SPOOL_CAP_BYTES = 8 * 1024 ** 3;
/** Interval of samples of CPU, memory and GPU. */
const SAMPLE_SECONDS_MAX = 10;

/** The window of the idle watchdog, in milliseconds; 0 turns it off. */
export function idleWindowMs(spec: RunSpec): number {
  return (spec.idle_timeout_minutes ?? DESCRIPTORS[spec.provider].idleTimeoutMinutes) * 60_000;
}

/** A short window needs samples that are closer together: without samples, nothing is known about it. */
export function sampleSeconds(spec: RunSpec): number {
  const window = idleWindowMs(spec);
  return window === 0 ? SAMPLE_SECONDS_MAX : Math.min(SAMPLE_SECONDS_MAX, Math.max(1, window / 4_000));
}

export function planRunner(input: PlanInput): RunPlan {
  const { spec, inherited } = input;
  const secretEnv: Record<string, string> = { ...input.injected.secrets, SVC_METRICS_MARK: input.mark };
  const plainEnv: Record<string, string> = {};
  for (const [name, value] of Object.entries(spec.env)) {
    if (isReference(value)) secretEnv[name] = input.secret(value);
    else if (holdsSecret(name, value)) secretEnv[name] = value;
    else plainEnv[name] = value;
  }
  const given = (name: string): string | undefined => plainEnv[name] ?? secretEnv[name] ?? inherited[name];
  const pythonPath = [given("PYTHONPATH"), input.packageDir].filter((s) => s !== undefined && s !== "").join(":");
  const defaults: Record<string, string> = { PYTHONUNBUFFERED: "1", TQDM_MININTERVAL: "5", ...input.injected.plain };
  // A script's own run at the tracker continues on the next machine, as the one of svc.log does, under the job's id.
  if (!input.inPlace && input.node === 0 && input.injected.secrets["WANDB_API_KEY"] !== undefined)
    Object.assign(defaults, { WANDB_RUN_ID: input.jobId, WANDB_RESUME: "allow" });
  // Ray would merge lines of workers that differ only in digits, metrics among them.
  if (spec.launcher === "ray") defaults["RAY_DEDUP_LOGS"] = "0";
  if (launchMode(input) === "ray") {
    defaults["RAY_AUTH_MODE"] = "token";
    if (given("RAY_AUTH_TOKEN") === undefined) secretEnv["RAY_AUTH_TOKEN"] = input.rayToken;
  }
  // If the job set it as a secret, it stays secret.
  const secretPath = secretEnv["PYTHONPATH"] !== undefined;
  if (secretPath) secretEnv["PYTHONPATH"] = pythonPath;
  const env: Record<string, string | null> = {
    ...Object.fromEntries(
      Object.keys(inherited)
        .filter(isDropped)
        .map((name) => [name, null]),
    ),
    ...Object.fromEntries(
      Object.entries(input.pythonEnv ?? {}).filter(([name]) => !(name in plainEnv) && !(name in secretEnv)),
    ),
    ...Object.fromEntries(Object.entries(defaults).filter(([name]) => given(name) === undefined)),
    // As a shell does that changes to the folder; that of this computer or of the login belongs to another one.
    ...(secretEnv["PWD"] === undefined ? { PWD: input.projectDir } : {}),
    ...("OLDPWD" in inherited && secretEnv["OLDPWD"] === undefined ? { OLDPWD: null } : {}),
    ...plainEnv,
    ...(secretPath ? {} : { PYTHONPATH: pythonPath }),
    SVC_PYTHON: input.python,
    SVC_JOB_ID: input.jobId,
    SVC_CHECKPOINT_DIR: input.checkpointDir,
    SVC_DATA_DIR: input.dataDir,
    SVC_ATTEMPT: String(input.placement),
    SVC_PLACEMENT: String(input.placement),
    SVC_NODE_RANK: String(input.node),
    SVC_NUM_NODES: String(spec.nodes),
    SVC_NODE_IPS: input.addresses.join(","),
    SVC_MASTER_ADDR: input.addresses[0] ?? "127.0.0.1",
    SVC_STOP_GRACE_SECONDS: String(stopGraceSeconds(spec)),
    SVC_GPUS_PER_NODE: String(gpuCount(spec.gpus)),
    // Null: a value from this computer would belong to another run.
    SVC_RESUME_FROM: input.resumeFrom,
  };
  const ranks = ranksOf(input);
  return {
    secretEnv,
    runner: {
      job_id: input.jobId,
      node: input.node,
      attempt: input.placement,
      nonce: input.nonce,
      argv: launchArgv({ ...input, masterAddress: input.addresses[0] ?? "127.0.0.1" }),
      cwd: input.projectDir,
      env,
      checkpoint_dir: input.checkpointDir,
      ...(input.umask === undefined ? {} : { umask: input.umask }),
      stop_grace_seconds: stopGraceSeconds(spec),
      spool_cap_bytes: SPOOL_CAP_BYTES,
      sample_seconds: sampleSeconds(spec),
      ...(ranks ? { ranks } : {}),
      ...(input.keep ? { keep: input.keep } : {}),
      ...(input.notice ? { notice: input.notice } : {}),
    },
  };
}
