// The one deadline of waits in tests, for vitest.config.ts, the harnesses and single tests. A wait ends when its
// condition holds; the deadline only ends a wait that hangs, so it is long enough for a busy computer.
// test/tidy.test.ts refuses shorter ones.

export const DEADLINE_MS = 60_000;
