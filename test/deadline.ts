// The one deadline of waits in tests, for vitest.config.ts, the harnesses and single tests. A wait ends when its condition holds; the
// deadline only ends what hangs, so it is long enough for a computer that does ten other things. test/tidy.test.ts refuses shorter ones.

export const DEADLINE_MS = 60_000;
