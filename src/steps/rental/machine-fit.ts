// Whether the machine that was delivered is the one that was ordered, from what it told when it was greeted: no call of its own.
//
// D1. A tool of the GPU driver that is there and fails is a machine that does not work, not a machine without GPUs.
// D2. One failed look proves nothing: the driver may be starting. The verdict takes several looks, and on a machine whose image
//     installs its driver after the first boot, minutes.
// D3. Of a machine that svc does not own, which was not ordered, only warnings are told.

import { DESCRIPTORS } from "../../providers/descriptors.ts";
import { compareGpus, type Fit, type GpuOrder } from "../../domain/gpu-fit.ts";
import { parseGpus, vramFor } from "../../domain/gpus.ts";
import { dollars, hourly } from "../../errors/dollars.ts";
import { allGpuIds } from "../../providers/gpu-names.ts";
import type { MachineFacts } from "../../providers/host.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { costOver, usdOf } from "../../domain/money.ts";

/** Looks that see the driver's tool fail until the machine counts as unfit. */
const FAULTS_MAX = 2;
/** A tool that hangs gets one more: each of its looks takes long already. */
const HANGS_MAX = 3;
/** How long a driver that is installed after the first boot may take. */
const DRIVER_MS = 10 * 60_000;
/** A failure that an unfinished installation does not explain is believed sooner there, too. */
const BROKEN_MS = 60_000;
/** `nvidia-smi` ends with 9 where the driver is not loaded, 12 where its library is missing (source: `man nvidia-smi`, 2026). */
const NOT_LOADED: ReadonlySet<number | null> = new Set([9, 12]);

/** By effect: when a look first saw the driver's tool fail, and how many looks in a row did. */
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

/** `wait`: why the machine is looked at again. */
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
  const words = `The machine has neither nvidia-smi nor rocm-smi: whether it has the GPUs that were ordered (${wish}) is not known.`;
  return { ...none, warnings: [words] };
}

/** What a machine has cost so far, for the end of a sentence. */
export function costSoFar(priceMicro: number | null, heldMs: number): string {
  if (priceMicro === null || priceMicro === 0) return "";
  return `; it has cost about ${dollars(costOver(priceMicro, heldMs))} so far, at ${hourly(usdOf(priceMicro))}`;
}
