// A provider's own records: the machines that it made, their prices, and their ends. Tests read facts about money here.

import type { LedgerLine, SimLedger } from "./parts.ts";

export type LedgerListener = (event: "made" | "ended", line: LedgerLine) => void;

/** `PREFIX-3` and `PREFIX-` both belong to `PREFIX`. */
const prefixOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("-")));

export function makeLedger(listener?: LedgerListener): SimLedger {
  const lines = new Map<string, LedgerLine>();
  const calls: string[] = [];
  return {
    calls,
    made(line) {
      if (lines.has(line.id)) throw new Error(`the simulator made ${line.id} twice`);
      const entry: LedgerLine = { ...line, prices: [], endedAtMs: null, endedBy: null };
      lines.set(line.id, entry);
      listener?.("made", entry);
    },
    priced(id, usdPerHour, sinceMs) {
      const entry = lines.get(id);
      if (!entry || entry.endedAtMs !== null) return;
      entry.prices = [...entry.prices, { sinceMs, usdPerHour }];
    },
    ended(id, by, atMs) {
      const entry = lines.get(id);
      if (!entry || entry.endedAtMs !== null) return;
      entry.endedAtMs = atMs;
      entry.endedBy = by;
      listener?.("ended", entry);
    },
    all: () => [...lines.values()].map((line) => ({ ...line })),
    alive: () => [...lines.values()].filter((l) => l.endedAtMs === null && !l.foreign).map((line) => ({ ...line })),
    mostAtOnce(namePrefix) {
      const wanted = namePrefix.endsWith("-") ? namePrefix.slice(0, -1) : namePrefix;
      const own = [...lines.values()].filter((l) => !l.foreign && prefixOf(l.name) === wanted);
      // The maximum can only occur at an instant when a machine was made.
      return own.reduce(
        (most, { madeAtMs: at }) =>
          Math.max(most, own.filter((l) => l.madeAtMs <= at && (l.endedAtMs ?? Infinity) > at).length),
        0,
      );
    },
  };
}

/** The cost of a machine in dollars by `nowMs`, without the disk of one that is halted. */
export function costUsd(line: LedgerLine, nowMs: number): number {
  const endMs = line.endedAtMs ?? nowMs;
  const parts = [{ sinceMs: line.madeAtMs, usdPerHour: line.usdPerHour }, ...line.prices];
  return parts.reduce(
    (sum, { sinceMs, usdPerHour }, n) =>
      sum + (usdPerHour * Math.max(0, (parts[n + 1]?.sinceMs ?? endMs) - sinceMs)) / 3_600_000,
    0,
  );
}

/** Whether the provider bills more than a disk for it now. */
export const isBilled = ({ usdPerHour, prices, endedAtMs }: LedgerLine): boolean =>
  endedAtMs === null && (prices.at(-1)?.usdPerHour ?? usdPerHour) > 0;
