import { once } from "node:events";
import type { ChildProcess } from "node:child_process";

/**
 * `await started(spawn(…))`: the child once it runs, before it has said a word. Rejects with the system's error where it cannot be
 * started; such a child may have no streams, whatever its type says, so nobody else may have it.
 */
export async function started<C extends ChildProcess>(child: C): Promise<C> {
  // For life: a signal that could not be sent has nobody else to hear of it, and how the child ends tells.
  child.on("error", () => undefined);
  await once(child, "spawn");
  return child;
}
