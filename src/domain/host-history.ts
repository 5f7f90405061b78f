// The rules of the memory of hosts: how long a verdict counts, and its words for people. Store, plan and commands use them.

import type { HostHistory, HostStats } from "../schemas/hosts.ts";
import { GPU_CATALOGUE, parseGpus } from "./gpus.ts";
import { gpuKey } from "./gpu-name.ts";

const HOUR_MS = 3_600_000;
/** A host that was bad so recently is left out: the next order of the same run would get it again. */
export const LEFT_OUT_MS = HOUR_MS;
/** After LEFT_OUT_MS, and up to this age of the failure, its offers are tried last. */
export const AVOIDED_MS = 7 * 24 * HOUR_MS;
/** Statistics are kept for this long. */
export const KEPT_MS = 90 * 24 * HOUR_MS;

/** The GPU model of a request in one spelling: the catalogue's where it has it. `cpu` without GPUs. */
export function gpuModelOf(request: string): string {
  const model = parseGpus(request)?.model.trim();
  if (model === undefined) return "cpu";
  const key = gpuKey(model);
  return GPU_CATALOGUE.find((entry) => gpuKey(entry.model) === key)?.model ?? model;
}

export function historyOf(
  { stats }: HostStats,
  { provider, gpus }: { provider: string; gpus: string },
): HostHistory | null {
  const gpu = gpuModelOf(gpus);
  const found = stats.find((each) => each.provider === provider && each.gpu === gpu);
  if (found === undefined) return null;
  const { good, of, seconds_to_ssh_p50 } = found;
  return { good, of, seconds_to_ssh_p50 };
}

/** `41 of 43 good, 74 s to SSH`. */
export function historyWords({ good, of, seconds_to_ssh_p50: seconds }: HostHistory): string {
  return `${good} of ${of} good${seconds === null ? "" : `, ${Math.round(seconds)} s to SSH`}`;
}

/** `12 min`, `5 h`, `3 days`. */
export function agoWords(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000));
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
