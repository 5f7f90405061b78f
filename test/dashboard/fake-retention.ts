import type { HomeRetention, OldRuns, RetentionRule } from "../../src/schemas/retention.ts";
import { HOSTILE } from "./hostile.ts";

export const fakeOld: OldRuns = {
  count: 12,
  bytes: 48_300_000_000,
  unmeasured: 1,
  runs: Array.from({ length: 12 }, (_, i) => ({
    id: `old${i}`,
    label: i === 0 ? `${HOSTILE} ${"long ".repeat(40)}` : i === 1 ? null : `sweep, lr 0.${i}`,
    ended_at: new Date(Date.UTC(2026, 0, 1 + i)).toISOString(),
    disk_bytes: i === 2 ? null : 4_400_000_000,
  })),
  kept: { best: 3, newest: 0, archived: 2, in_use: 1 },
};

/** A home with a rule, or without one. */
export const fakeRetention = (rule: RetentionRule | null = null): HomeRetention => ({
  rule,
  set_at: rule && "2026-05-01T10:00:00.000Z",
  looked_at: null,
  doubt: null,
  due: rule && fakeOld,
  removed: [],
});
