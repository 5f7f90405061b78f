import { once } from "node:events";
import type { ChildProcess } from "node:child_process";

/**
 * `await started(spawn(…))`: the child once it runs, before any output. Rejects with the system's error if it cannot be
 * started; such a child may lack its streams, whatever its type says, so no caller receives it.
 */
export async function started<C extends ChildProcess>(child: C): Promise<C> {
  // Keep this listener: a failed `kill()` also emits "error", and the child's exit reports the result.
  child.on("error", () => undefined);
  await once(child, "spawn");
  return child;
}
