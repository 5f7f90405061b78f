// A machine that its owner keeps is cleaned up. If it cannot be reached at the end, that is reported, and the next run
// on it ends the leftovers.

import type { MachineFacts } from "../../providers/host.ts";
import type { MachineHandle, Provider } from "../../providers/provider.ts";
import { installationPrefix } from "../../domain/machine-names.ts";
import type { StepPorts } from "../ports.ts";
import type { Note } from "../../schemas/job.ts";

export const NOT_LEFT: Note = {
  kind: "left_running",
  message:
    "svc could not reach the runtime when the run ended. The script may still be running, and its files and secrets are still on the " +
    "runtime. Shut the notebook down, or start another run on it to clean up.",
};

/** Less than an attempt of the step that waits for it. */
const LEFTOVERS_MS = 45_000;

/**
 * Ends the run's processes there and removes its files. Returns whether that is done; also true if nothing was put
 * there.
 */
export async function leave(provider: Provider, handle: MachineHandle, signal: AbortSignal): Promise<boolean> {
  if (handle.extra?.["home"] === undefined) return true;
  const access = provider.access(handle);
  try {
    await Promise.all((["install", "run"] as const).map((purpose) => access.host(purpose).stop(0, signal)));
    await access.leave?.(signal);
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/**
 * Ends leftovers of ended jobs on a machine that one of them could not reach at its end. Returns the names; leftovers
 * that do not end within LEFTOVERS_MS do not prevent the use of the machine.
 */
export async function endLeftovers(
  { ledger, installationId, gone }: Pick<StepPorts, "ledger" | "installationId" | "gone">,
  { provider, handle }: { provider: Provider; handle: MachineHandle },
  { home, beside }: Pick<MachineFacts, "home" | "beside">,
  signal: AbortSignal,
): Promise<string[]> {
  const prefix = installationPrefix(installationId);
  const soon = AbortSignal.any([signal, AbortSignal.timeout(LEFTOVERS_MS)]);
  const ended: string[] = [];
  for (const name of beside ?? []) {
    if (soon.aborted || !name.startsWith(prefix) || !ledger.isClosed(name)) continue;
    const then: MachineHandle = { ...handle, name, extra: { ...handle.extra, home } };
    if (await leave(provider, then, soon).catch(() => false)) {
      await ledger.note(name, null);
      ended.push(name);
    }
    gone?.(name);
  }
  signal.throwIfAborted();
  return ended;
}
