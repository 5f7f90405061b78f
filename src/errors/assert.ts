/**
 * Stops the current operation because the program itself is wrong: never for an action of a caller, a provider or a
 * disk.
 */
export function assert(holds: unknown, why: string): asserts holds {
  if (!holds) throw new TypeError(`a bug in svc: ${why}`);
}
