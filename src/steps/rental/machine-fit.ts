// Checks whether the delivered machine is the ordered one, from the facts in its greeting: without a further call.
//
// D1. An existing but failing GPU driver tool means a broken machine, not a machine without GPUs.
// D2. One failed poll proves nothing: the driver may be starting. The verdict takes several polls, and minutes on a
//     machine whose image installs its driver after the first boot.
// D3. A machine that svc does not own was not ordered, so it only gets warnings.

import { DESCRIPTORS } from "../../providers/descriptors.ts";
import { compareGpus, type Fit, type GpuOrder } from "../../domain/gpu-fit.ts";
import { parseGpus, vramFor } from "../../domain/gpus.ts";
import { dollars, hourly } from "../../errors/dollars.ts";
import { allGpuIds } from "../../providers/gpu-names.ts";
import type { MachineFacts } from "../../providers/host.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { costOver, usdOf } from "../../domain/money.ts";

/** Failing polls of the driver's tool after which the machine counts as unfit. */
const FAULTS_MAX = 2;
/** A hanging tool gets one more: each of its polls already takes long. */
const HANGS_MAX = 3;
/** How long a driver that is installed after the first boot may take. */
const DRIVER_MS = 10 * 60_000;
/** The shorter limit for a failure that an unfinished driver installation does not explain. */
const BROKEN_MS = 60_000;
/**
 * `nvidia-smi` exits with 9 if the driver is not loaded, 12 if its library is missing (source: `man nvidia-smi`, 2026).
 */
const NOT_LOADED: ReadonlySet<number | null> = new Set([9, 12]);

/** By effect: when a poll first saw the driver's tool fail, and how many polls in a row did. */
export type Faults = Map<number, { since: number; looks: number }>;

export function orderOf(spec: RunSpec): GpuOrder | null {
  const wish = parseGpus(spec.gpus);
  if (wish === null || wish.count === 0) return null;
  const model = wish.model.trim();
  return {
    model,
    count: wish.count,
    alsoNamed: allGpuIds(model),
    minVramGb: spec.min_vram_gb ?? null,
    usualVramGb: DESCRIPTORS[spec.provider].fixedGpus ? null : (vramFor(model) ?? null),
    image: spec.image ?? null,
  };
}

/** `wait`: why the machine is polled again. */
export function judgeMachine(
  spec: RunSpec,
  facts: MachineFacts,
  memory: { faults: Faults; effectId: number; now: number },
): Fit & { wait: string | null } {
  const order = orderOf(spec);
  const none = { unfit: null, warnings: [], wait: null };
  if (order === null) return none;
  const { gpus, gpu_fault: fault } = facts;
  const { faults, effectId, now } = memory;
  const installs = facts.driver_pending === true && DESCRIPTORS[spec.provider].installsDriver;
  if (!fault) faults.delete(effectId);
  if (fault) {
    const seen = faults.get(effectId) ?? { since: now, looks: 0 };
    seen.looks += 1;
    faults.set(effectId, seen);
    const said = fault.words === "" ? "without a word" : `and says: ${fault.words}`;
    const what = fault.exit === null ? `${fault.tool} gives no answer` : `${fault.tool} exits ${fault.exit} ${said}`;
    const waited = now - seen.since;
    const again = installs
      ? waited < (NOT_LOADED.has(fault.exit) ? DRIVER_MS : BROKEN_MS)
      : seen.looks < (fault.exit === null ? HANGS_MAX : FAULTS_MAX);
    if (again) return { ...none, wait: installs ? `the GPU driver is being installed (${what})` : what };
    faults.delete(effectId);
    return { ...none, unfit: `its GPUs do not work: ${what}` };
  }
  if (gpus === null && facts.driver_pending) return { ...none, wait: "the GPU driver is being installed" };
  if (gpus !== null) return { ...compareGpus(order, { gpus, driver: facts.gpu_driver ?? null }), wait: null };
  const wish = `${order.count} × ${order.model}`;
  const words = `The machine has neither nvidia-smi nor rocm-smi: svc cannot tell whether it has the ordered GPUs (${wish}).`;
  return { ...none, warnings: [words] };
}

/** The cost of a machine so far, for the end of a sentence. */
export function costSoFar(priceMicro: number | null, heldMs: number): string {
  if (priceMicro === null || priceMicro === 0) return "";
  return `; it has cost about ${dollars(costOver(priceMicro, heldMs))} so far, at ${hourly(usdOf(priceMicro))}`;
}
