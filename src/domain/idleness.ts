// Decides when a run counts as idle. A working run must never be ended, so every doubt counts as work.
//
// I1. Idle means: for the whole window no log byte and no metric arrived, no checkpoint changed, and every readable
//     signal stayed near zero. Downloads, tokenising and evaluation on the CPU all show 0 % GPU: one signal is not
//     enough.
// I2. A signal that cannot be read is left out, never taken for zero. A sample without CPU and GPU values proves
//     nothing and counts as use.
// I3. The window must be full of samples, up to its end. After a gap (the laptop slept, the sampler died) the window
//     starts again.
// I4. All instants are of one clock, the one that stamps the samples.
// I5. Text alone is weak proof of work (a heartbeat prints for ever): it holds the rule off for HEARTBEAT_WINDOWS at most.
// I6. Keystrokes at a terminal of the machine (`svc ssh`) count as work. A shell that is merely open or prints by
//     itself does not, nor does a waiting debugger. On the user's own computer every terminal belongs to the user, and
//     none counts.
// I7. A GPU at 100 % with neither log, metric nor checkpoint for a window may be a hung collective or a long epoch. The
//     two look alike, so svc reports a stall and only warns.

import type { RunnerSample } from "../schemas/runner.ts";

export const GPU_BUSY_PERCENT = 5;
/** 5 % of one core. */
export const CPU_BUSY_CORES = 0.05;
export const DISK_BUSY_BYTES_PER_S = 1_000_000;
export const NET_BUSY_BYTES_PER_S = 100_000;
/** The run counts as idle after this many windows in which text was the only sign of work. */
export const HEARTBEAT_WINDOWS = 4;
export const GPU_STALLED_PERCENT = 99;

export interface IdleInput {
  nowMs: number;
  /** When the script was launched: other phases have their own time-outs. */
  launchedAtMs: number;
  /** `idle_timeout_minutes`; 0 turns the rule off. */
  windowMs: number;
  /** The sampling interval set for the runner. */
  sampleMs: number;
  /** Ascending; samples older than HEARTBEAT_WINDOWS windows may be omitted. */
  samples: readonly RunnerSample[];
  /** When the last log byte, metric or checkpoint change arrived; null for never. */
  lastLogAtMs: number | null;
  lastMetricAtMs: number | null;
  lastCheckpointAtMs: number | null;
}

export interface IdleVerdict {
  idle: boolean;
  /** How long the run has done nothing. */
  quietForMs: number;
  /** Set from half of the window on: the numbers so far. */
  warning: string | null;
  /** The numbers behind it, for a person: why the run is idle, or what it did last. */
  reason: string;
}

/** Whether the run has done nothing for the whole window. */
export function judgeIdle(input: IdleInput): IdleVerdict {
  const { nowMs, windowMs, sampleMs } = input;
  if (windowMs <= 0) return { idle: false, quietForMs: 0, warning: null, reason: "the idle watchdog is off" };
  const gapMs = Math.max(3 * sampleMs, 60_000);
  let since = input.launchedAtMs;
  let last = "the run was launched";
  const busy = (atMs: number | null, what: string): void => {
    if (atMs === null || atMs <= since) return;
    since = atMs;
    last = what;
  };

  busy(input.lastMetricAtMs, "a metric was logged");
  busy(input.lastCheckpointAtMs, "a checkpoint changed");
  let before = input.launchedAtMs;
  for (const sample of input.samples) {
    if (sample.at_ms - before > gapMs) busy(sample.at_ms, "samples began again after a gap");
    const use = useOf(sample);
    if (use !== null) busy(sample.at_ms, use);
    if (sample.terminal_idle_seconds !== null)
      busy(sample.at_ms - sample.terminal_idle_seconds * 1000, "a key was pressed at a terminal of the machine");
    before = sample.at_ms;
  }
  if (nowMs - before > gapMs) busy(nowMs, "no sample has come since");

  const workedAtMs = since;
  busy(input.lastLogAtMs, "the script wrote to its log");
  const heartbeat = since > workedAtMs + (HEARTBEAT_WINDOWS - 1) * windowMs;
  if (heartbeat) since = workedAtMs + (HEARTBEAT_WINDOWS - 1) * windowMs;

  const quietForMs = Math.max(0, nowMs - since);
  const quiet = input.samples.filter((sample) => sample.at_ms > since);
  const nothing = heartbeat ? "nothing but lines in its log" : "no log, metric or checkpoint";
  const numbers = `for ${minutes(heartbeat ? nowMs - workedAtMs : quietForMs)} ${nothing}, and at most ${peaks(quiet)}`;
  // Only the time that samples cover is known to be quiet; the time since the last sample is unknown.
  if (quietForMs < windowMs || before - since < windowMs) {
    const half = Math.min(quietForMs, before - since) >= windowMs / 2;
    return {
      idle: false,
      quietForMs,
      warning: half ? numbers : null,
      reason: `${minutes(quietForMs)} ago ${last}`,
    };
  }
  return { idle: true, quietForMs, warning: numbers, reason: numbers };
}

/** Describes a stall (I7): every known GPU was fully busy for the whole window without any result. */
export function judgeStall(input: IdleInput): string | null {
  const { nowMs, windowMs, sampleMs } = input;
  if (windowMs <= 0) return null;
  const since = Math.max(
    input.launchedAtMs,
    ...[input.lastLogAtMs, input.lastMetricAtMs, input.lastCheckpointAtMs].filter((at) => at !== null),
  );
  if (nowMs - since < windowMs) return null;
  const gapMs = Math.max(3 * sampleMs, 60_000);
  let before = nowMs - windowMs;
  for (const sample of input.samples) {
    if (sample.at_ms < nowMs - windowMs) continue;
    const known = sample.gpus?.map((g) => g.util_percent).filter((util) => util !== null) ?? [];
    if (known.length === 0 || known.some((util) => util < GPU_STALLED_PERCENT)) return null;
    if (sample.at_ms - before > gapMs) return null;
    before = sample.at_ms;
  }
  if (nowMs - before > gapMs || before === nowMs - windowMs) return null;
  return `for ${minutes(nowMs - since)} every GPU was at 100 %, and neither log, metric nor checkpoint came`;
}

/** Describes the work that the sample shows; null if all known values stayed near zero. */
function useOf(sample: RunnerSample): string | null {
  const gpu = peak(sample.gpus?.map((g) => g.util_percent) ?? []);
  if (gpu === null && sample.cpu_cores === null) return "the use of CPU and GPU could not be read";
  if (gpu !== null && gpu >= GPU_BUSY_PERCENT) return `a GPU was at ${gpu} %`;
  if ((sample.cpu_cores ?? 0) >= CPU_BUSY_CORES) return `the CPU was at ${percent(sample.cpu_cores!)} of one core`;
  if ((sample.disk_bytes_per_s ?? 0) >= DISK_BUSY_BYTES_PER_S)
    return `the disk moved ${rate(sample.disk_bytes_per_s!)}`;
  if ((sample.net_bytes_per_s ?? 0) >= NET_BUSY_BYTES_PER_S)
    return `the network moved ${rate(sample.net_bytes_per_s!)}`;
  return null;
}

function peaks(samples: readonly RunnerSample[]): string {
  const gpu = peak(samples.flatMap((s) => s.gpus?.map((g) => g.util_percent) ?? []));
  const cpu = peak(samples.map((s) => s.cpu_cores));
  const disk = peak(samples.map((s) => s.disk_bytes_per_s));
  const net = peak(samples.map((s) => s.net_bytes_per_s));
  return [
    gpu === null ? null : `GPU ${gpu} %`,
    cpu === null ? null : `CPU ${percent(cpu)} of one core`,
    disk === null ? null : `disk ${rate(disk)}`,
    net === null ? null : `network ${rate(net)}`,
  ]
    .filter((words) => words !== null)
    .join(", ");
}

/** The greatest of the known values; null when none is known. */
function peak(values: readonly (number | null)[]): number | null {
  let greatest: number | null = null;
  for (const value of values) if (value !== null && (greatest === null || value > greatest)) greatest = value;
  return greatest;
}

const percent = (cores: number): string => `${(cores * 100).toFixed(1)} %`;
const rate = (bytes: number): string =>
  bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB/s` : `${(bytes / 1e6).toFixed(1)} MB/s`;
const minutes = (ms: number): string =>
  ms < 120_000 ? `${Math.round(ms / 1_000)} s` : `${Math.floor(ms / 60_000)} min`;
