// When a run counts as idle. A run that works is never ended, so every doubt speaks for it.
//
// I1. Idle means: for the whole window nothing was logged, no metric came, no checkpoint changed, and every signal that
//     could be read stayed near zero. Downloads, tokenising and evaluation on the CPU all show 0 % GPU: one signal is not enough.
// I2. A signal that cannot be read is left out, never taken for zero. A sample that tells neither CPU nor GPU proves nothing
//     and counts as use.
// I3. The window must be full of samples, up to its end. A gap (the laptop slept, the sampler died) begins it anew.
// I4. All instants are of one clock, the one that stamps the samples.
// I5. Text alone is weak proof of work (a heartbeat prints for ever): it holds the rule off for HEARTBEAT_WINDOWS at most.
// I6. Somebody who types at a terminal of the machine (`svc ssh`) is at work there. A shell that is merely open, or prints by itself, is
//     nobody; neither is a debugger that waits. On the user's own computer every terminal is his, and none counts.
// I7. A GPU at 100 % with neither log, metric nor checkpoint for a window may be a collective that hangs, or a long epoch: nobody
//     can tell, so that is a stall, of which is only warned.

import type { RunnerSample } from "../schemas/runner.ts";

export const GPU_BUSY_PERCENT = 5;
/** 5 % of one core. */
export const CPU_BUSY_CORES = 0.05;
export const DISK_BUSY_BYTES_PER_S = 1_000_000;
export const NET_BUSY_BYTES_PER_S = 100_000;
/** Windows without any work but text after which the run is idle all the same. */
export const HEARTBEAT_WINDOWS = 4;
export const GPU_STALLED_PERCENT = 99;

export interface IdleInput {
  nowMs: number;
  /** When the script was launched: other phases have their own time-outs. */
  launchedAtMs: number;
  /** `idle_timeout_minutes`; 0 turns the rule off. */
  windowMs: number;
  /** What the runner was told: a sample each so many milliseconds. */
  sampleMs: number;
  /** Ascending; those older than HEARTBEAT_WINDOWS windows may be left out. */
  samples: readonly RunnerSample[];
  /** When the last log byte, the last metric, the last change of a checkpoint came; null for never. */
  lastLogAtMs: number | null;
  lastMetricAtMs: number | null;
  lastCheckpointAtMs: number | null;
}

export interface IdleVerdict {
  idle: boolean;
  /** For how long nothing was done. */
  quietForMs: number;
  /** At half of the window and beyond: the numbers so far. */
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
      busy(sample.at_ms - sample.terminal_idle_seconds * 1000, "somebody typed at a terminal of the machine");
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
  // Only what a sample covers is known to have been quiet: what the run did since the last one, nobody has seen yet.
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

/** Words about a stall (I7): every GPU that is known busy to the brim for the whole window, and nothing comes of it. */
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

/** What the sample shows of work, in words; null when all that is known stayed near zero. */
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
