// The meaning of a poll that misses a machine, by the rules S1 to S4 of src/providers/sightings.ts.

import { describe, expect, it, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { Sightings } from "../../src/providers/sightings.ts";

const LAG_MS = 120_000;
const MINUTE_MS = 60_000;
const HERE = { address: null };
const NOT_YET = "does not show it yet";
const NOT_ANY_MORE = "does not show it any more";

interface Case {
  rule: string;
  /** Age of the machine at the first poll that misses it; null if unknown. */
  ageMs: number | null;
  seen?:
    | "by this process"
    | "by another process, which left its address"
    | "by another process, which left its SSH endpoint";
  ending?: boolean;
  /** For how long consecutive polls have missed it. */
  missedMs?: number;
  doubt: string | null;
}

const CASES: Case[] = [
  { rule: "S1", ageMs: LAG_MS, doubt: null },
  { rule: "S1", ageMs: LAG_MS, seen: "by this process", doubt: null },
  { rule: "S1", ageMs: null, doubt: null },
  { rule: "S1 not yet", ageMs: LAG_MS - 1, doubt: NOT_YET },
  { rule: "S2", ageMs: 1_000, seen: "by this process", ending: true, doubt: null },
  { rule: "S2", ageMs: 1_000, seen: "by another process, which left its address", ending: true, doubt: null },
  { rule: "S3", ageMs: 1_000, seen: "by this process", doubt: NOT_ANY_MORE },
  { rule: "S3", ageMs: 1_000, seen: "by another process, which left its address", doubt: NOT_ANY_MORE },
  { rule: "S3", ageMs: 1_000, seen: "by another process, which left its SSH endpoint", doubt: NOT_ANY_MORE },
  { rule: "S3", ageMs: 1_000, ending: true, doubt: NOT_ANY_MORE },
  { rule: "S3 not yet", ageMs: 1_000, ending: true, missedMs: MINUTE_MS - 1, doubt: NOT_ANY_MORE },
  { rule: "S3 after a minute", ageMs: 1_000, seen: "by this process", missedMs: MINUTE_MS, doubt: null },
  { rule: "S3 after a minute", ageMs: 1_000, ending: true, missedMs: MINUTE_MS, doubt: null },
  { rule: "S4", ageMs: 0, doubt: NOT_YET },
  { rule: "S4, however often it is missed", ageMs: 1_000, missedMs: MINUTE_MS + 1, doubt: NOT_YET },
];

function words({ rule, ageMs, seen, ending, missedMs = 0, doubt }: Case): string {
  const age = ageMs === null ? "of unknown age" : `${ageMs / 1000} s old`;
  const known = [seen ? `seen ${seen}` : "never seen", ending ? "asked to end" : "not asked to end"].join(", ");
  return `${rule}: a machine ${age}, ${known}, missed for ${missedMs / 1000} s ${doubt === null ? "is gone" : "is not proven gone"}`;
}

test.each(CASES.map((one) => [words(one), one] as const))("%s", (_, { ageMs, seen, ending, missedMs = 0, doubt }) => {
  let now = 1_000_000;
  const sightings = new Sightings(LAG_MS, () => now);
  const madeAt = ageMs === null ? null : now - ageMs;
  if (seen === "by this process") sightings.seen("m");
  if (ending) sightings.ending("m", true);
  const handle = seen?.includes("address")
    ? { address: "10.0.0.1" }
    : seen?.includes("endpoint")
      ? { address: null, ssh: [{}] }
      : HERE;
  let said = sightings.doubt("m", madeAt, handle);
  if (missedMs > 0) {
    now += missedMs;
    said = sightings.doubt("m", madeAt, handle);
  }
  if (doubt === null) expect(said).toBeNull();
  else expect(said).toContain(doubt);
});

describe("Sightings", () => {
  /** Polls that miss a young machine, one every five seconds; true in `silent` where svc's connection failed just before. */
  function missed(silent: readonly boolean[], wasSeen = true): (string | null)[] {
    let now = 0;
    const sightings = new Sightings(LAG_MS * 10, () => now);
    if (wasSeen) sightings.seen("m");
    return silent.map((failed) => {
      if (failed) sightings.silent("m");
      const doubt = sightings.doubt("m", 0, HERE);
      now += 5_000;
      return doubt;
    });
  }
  const times = (n: number, failed: boolean): boolean[] => Array.from({ length: n }, () => failed);

  it("S5: A young machine that svc cannot reach any more is gone after 20 s of misses", () => {
    const doubts = missed(times(5, true));
    expect(doubts.slice(0, 4).every((doubt) => doubt?.includes(NOT_ANY_MORE))).toBe(true);
    expect(doubts[4]).toBeNull();
  });

  it("S5: The 20 s count from when the connection failed, and not for a machine that no poll has shown", () => {
    expect(missed([...times(6, false), ...times(4, true)]).every((doubt) => doubt !== null)).toBe(true);
    expect(missed([...times(6, false), ...times(5, true)])[10]).toBeNull();
    expect(missed(times(10, true), false).every((doubt) => doubt?.includes(NOT_YET))).toBe(true);
  });

  it("S5: Neither two polls nor a failure of long ago are enough", () => {
    let now = 0;
    const sightings = new Sightings(LAG_MS * 10, () => now);
    const poll = (atMs: number, failed: boolean): string | null => {
      now = atMs;
      if (failed) sightings.silent("m");
      return sightings.doubt("m", 0, HERE);
    };
    sightings.seen("m");
    expect(poll(0, true)).toContain(NOT_ANY_MORE);
    expect(poll(30_000, true)).toContain(NOT_ANY_MORE);
    // While the provider could not be asked, the connection may have worked again.
    sightings.seen("m");
    sightings.silent("m");
    for (const atMs of [100_000, 101_000, 102_000]) expect(poll(atMs, true)).toContain(NOT_ANY_MORE);
  });

  it("A machine that appears again restarts its minute of misses", () => {
    let now = 0;
    const sightings = new Sightings(LAG_MS * 10, () => now);
    sightings.seen("m");
    sightings.doubt("m", 0, HERE);
    now = MINUTE_MS - 1;
    sightings.seen("m");
    now = MINUTE_MS;
    expect(sightings.doubt("m", 0, HERE)).toContain(NOT_ANY_MORE);
    now = 2 * MINUTE_MS;
    expect(sightings.doubt("m", 0, HERE)).toBeNull();
  });

  it("A clock that is set back does not shorten the minute of misses", () => {
    let now = 10 * MINUTE_MS;
    const sightings = new Sightings(LAG_MS * 100, () => now);
    sightings.seen("m");
    sightings.doubt("m", now, HERE);
    now -= 5 * MINUTE_MS;
    expect(sightings.doubt("m", now, HERE)).toContain(NOT_ANY_MORE);
    now += MINUTE_MS;
    expect(sightings.doubt("m", now, HERE)).toBeNull();
  });

  it("One machine's sightings do not count for another", () => {
    const sightings = new Sightings(LAG_MS, () => 0);
    sightings.seen("a");
    sightings.ending("a", true);
    expect(sightings.wasSeen("b")).toBe(false);
    expect(sightings.doubt("b", 0, HERE)).toContain(NOT_YET);
  });

  it("A termination that was never sent is forgotten", () => {
    const sightings = new Sightings(LAG_MS, () => 0);
    sightings.seen("m");
    sightings.ending("m", true);
    sightings.ending("m", false);
    expect(sightings.doubt("m", 0, HERE)).toContain(NOT_ANY_MORE);
  });

  it.each([
    ["An end that the provider accepted counts", () => Promise.resolve(true), null],
    ["An end that the provider did not accept does not count", () => Promise.resolve(false), NOT_ANY_MORE],
    [
      "An end whose answer was lost counts, since it may have been accepted",
      () => Promise.reject(new SvcError("provider_unreachable", { provider: "podhost", why: "the answer was lost" })),
      null,
    ],
    [
      "An end that the provider refused does not count",
      () => Promise.reject(new SvcError("provider_error", { provider: "podhost", why: "refused" })),
      NOT_ANY_MORE,
    ],
  ] as const)("%s", async (_, ask, doubt) => {
    const sightings = new Sightings(LAG_MS, () => 0);
    sightings.seen("m");
    await sightings.endingBy("m", ask).catch((error: unknown) => expect(error).toBeInstanceOf(SvcError));
    const said = sightings.doubt("m", 0, HERE);
    if (doubt === null) expect(said).toBeNull();
    else expect(said).toContain(doubt);
  });
});
