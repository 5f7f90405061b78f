import { shownInPart, type MachineHandle, type PartialListing, type Provider } from "../../providers/provider.ts";

/** The machines of this installation in a provider's listing. */
export interface Owned {
  machines: MachineHandle[];
  /** Why there may be more of them; null for a complete listing. Only a complete listing proves that a machine does not exist. */
  missing: unknown;
  /** The possible place of missing machines; null for a complete listing. */
  gap: PartialListing["gap"] | null;
}

/**
 * Filters by prefix again: a provider that returns foreign machines must not cause their end. Throws if the listing
 * fails entirely.
 */
export async function ownedMachines(provider: Provider, prefix: string, signal: AbortSignal): Promise<Owned> {
  const ours = (all: MachineHandle[]) => all.filter((machine) => machine.name.startsWith(prefix));
  try {
    return { machines: ours(await provider.listOwned(prefix, signal)), missing: null, gap: null };
  } catch (e) {
    const shown = signal.aborted ? null : shownInPart(e);
    if (shown === null) throw e;
    return { machines: ours(shown.machines), missing: e, gap: shown.gap };
  }
}
