import { shownInPart, type MachineHandle, type PartialListing, type Provider } from "../../providers/provider.ts";

/** Machines of ours, as a provider lists them. */
export interface Owned {
  machines: MachineHandle[];
  /** Why there may be more of them; null for a complete listing. Only a complete listing proves that a machine does not exist. */
  missing: unknown;
  /** Where the others may be; null for a complete listing. */
  gap: PartialListing["gap"] | null;
}

/** The contract asks for ours alone; a listing that shows more must not cost somebody else's machine. Throws where nothing is told. */
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
