import { shownInPart, type MachineHandle, type Provider } from "../providers/provider.ts";

/** Machines of ours, as a provider lists them. */
export interface Owned {
  machines: MachineHandle[];
  /** What a part of the provider failed with: there may be more. */
  missing: unknown;
}

/** The contract asks for ours alone; a listing that shows more must not cost somebody else's machine. Throws where nothing is told. */
export async function ownedMachines(provider: Provider, prefix: string, signal: AbortSignal): Promise<Owned> {
  const ours = (all: MachineHandle[]) => all.filter((machine) => machine.name.startsWith(prefix));
  try {
    return { machines: ours(await provider.listOwned(prefix, signal)), missing: null };
  } catch (e) {
    const shown = signal.aborted ? null : shownInPart(e);
    if (shown === null) throw e;
    return { machines: ours(shown), missing: e };
  }
}
