/** Stops what is going on because the program itself is wrong: never for what a caller, a provider or a disk may do. */
export function assert(holds: unknown, why: string): asserts holds {
  if (!holds) throw new TypeError(`a bug in svc: ${why}`);
}
