// Resolves an order whose outcome is unknown. Only this file leads out of that state.

import type { MachineHandle, Provider } from "../../providers/provider.ts";
import { nodePrefix } from "../../domain/machine-names.ts";
import { ownedMachines } from "./list-owned.ts";
import { assertSameAccount } from "./account-check.ts";
import type { LedgerEntry, OrphanPorts } from "../ports.ts";

const LOOK_AGAIN_MS = 5_000;

export type FoundOrder =
  { is: "held"; handle: MachineHandle } | { is: "open"; afterMs: number; why: string } | { is: "absent" };

/** The answer to the order named another machine than the one that is proven gone: the next attempt finds that one in the ledger. */
export const ANOTHER_CAME: FoundOrder = {
  is: "open",
  afterMs: LOOK_AGAIN_MS,
  why: "the answer to the create call has just named a machine; looking at it",
};

/** Ends duplicates of the machine that is kept. A failed end is left to the next sweep. */
export async function endTwins(
  provider: Provider,
  twins: readonly MachineHandle[],
  signal: AbortSignal,
): Promise<void> {
  await Promise.allSettled(twins.map((twin) => provider.terminate(twin, signal)));
  signal.throwIfAborted();
}

/**
 * Looks an order up by its name. A found machine is held. Otherwise the order stays open until no request can land and
 * no listing can lag any more, and then until enough listings in a row were empty.
 */
export async function lookUp(
  ports: OrphanPorts,
  provider: Provider,
  entry: LedgerEntry,
  signal: AbortSignal,
): Promise<FoundOrder> {
  const { certainty } = provider;
  // A listing says nothing about events after its request, however long its answer takes.
  const askedAt = ports.now();
  const prefix = nodePrefix(ports.installationId, entry.jobId ?? "", entry.node);
  const { machines, missing } = await ownedMachines(provider, prefix, signal);
  // A lost create call may have made two of them.
  const [handle, ...twins] = machines.filter((m) => m.name === entry.name);
  if (handle) {
    await ports.ledger.held(entry.name, handle);
    await endTwins(provider, twins, signal);
    return { is: "held", handle };
  }
  // An incomplete listing may show a machine; it never proves that the machine does not exist.
  if (missing !== null) throw missing;
  await assertSameAccount(provider, entry, signal);
  const certainAt = entry.horizonAt + certainty.listingLagMs;
  const wait = certainAt - askedAt;
  if (wait > 0)
    return {
      is: "open",
      afterMs: Math.min(wait, LOOK_AGAIN_MS),
      why: "the answer to the create call was lost; looking for the machine by its name",
    };
  // Another step may have listed a moment ago: a retry, or the release that follows a kill.
  const gap = entry.lastLookAt === null ? 0 : entry.lastLookAt + certainty.lookGapMs - askedAt;
  const sure = "making sure that the lost create call made no machine";
  if (gap > 0) return { is: "open", afterMs: gap, why: sure };
  const looks = await ports.ledger.emptyLook(entry.name);
  if (looks < certainty.emptyLooks) return { is: "open", afterMs: certainty.lookGapMs, why: sure };
  const proof = `${looks} listings in a row without it, after any late request had landed`;
  // A machine that could have ended itself before the first of them would not be in any: its cost stays possible (ADR 0035).
  const firstAt = entry.emptyLooks > 0 ? (entry.lastLookAt ?? askedAt) : askedAt;
  const isLate = firstAt >= (entry.endsFrom ?? Infinity);
  const isClosed = isLate
    ? await ports.ledger.released(entry.name, `${proof}; its own guard may have ended it before the first of them`, {
        of: null,
        doubtAt: firstAt,
      })
    : await ports.ledger.released(entry.name, proof, { of: null });
  return isClosed ? { is: "absent" } : ANOTHER_CAME;
}
