// Cuts of a machine's time by day and activity (ADR 0031): the pieces always sum to the cost of the row.

import { afterEach, describe, expect, it } from "vitest";
import { localCalendar } from "../../src/domain/calendar.ts";
import { cellsOf, idleOf, spansOf, type CostCell, type CostedMachine } from "../../src/domain/costs.ts";
import { costMicro } from "../../src/domain/billing.ts";
import { costsCsv } from "../../src/domain/cost-csv.ts";

const HOUR = 3_600_000;
const zone = process.env["TZ"];
afterEach(() => {
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
});

const machine = (patch: Partial<CostedMachine> = {}): CostedMachine => ({
  provider: "podhost",
  bills: true,
  state: "released",
  price_micro: 3_600_000,
  spent_micro: 0,
  priced_at: null,
  created_at: 0,
  held_at: 1,
  released_at: 10 * HOUR,
  ...patch,
});
const sum = (cells: readonly CostCell[], of: (cell: CostCell) => number): number =>
  cells.reduce((all, cell) => all + of(cell), 0);

/** Mulberry32: a small generator with a seed. */
function randomOf(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

describe("the pieces of a machine's time", () => {
  for (const tz of ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe"])
    it(`sum to the ledger's cost of the row in ${tz}, whatever the price did`, () => {
      process.env["TZ"] = tz;
      const seed = Date.now() % 1_000_000;
      const random = randomOf(seed);
      const within = (max: number): number => Math.floor(random() * max);
      for (let n = 0; n < 400; n++) {
        const created_at = Date.UTC(2026, within(12), 1 + within(28), within(24), within(60));
        const released_at = created_at + within(9 * 24 * HOUR);
        const isRepriced = random() < 0.4;
        const priced_at = isRepriced ? created_at + within(released_at - created_at + 1) : null;
        const row = machine({
          // Its provider has a minimum.
          provider: n % 2 === 0 ? "podhost" : "cloudvm",
          created_at,
          held_at: created_at,
          released_at: random() < 0.2 ? null : released_at,
          price_micro: random() < 0.1 ? null : within(12_000_000),
          spent_micro: isRepriced ? within(40_000_000) : 0,
          priced_at,
        });
        const at = (): number | null => (random() < 0.3 ? null : created_at + within(released_at - created_at + 1));
        const [startedAt = null, endedAt = null, endingAt = null] = [at(), at(), at()].toSorted(
          (a, b) => (a ?? Infinity) - (b ?? Infinity),
        );
        const idleFrom = (startedAt ?? created_at) + within(HOUR);
        const spans = spansOf({
          createdAt: created_at,
          startedAt,
          endedAt,
          endingAt,
          lostMs: random() < 0.3 ? within(5 * HOUR) : 0,
          failed: random() < 0.3,
          idle: random() < 0.4 ? [[idleFrom, idleFrom + within(30 * HOUR)]] : [],
        });
        const now = released_at + 5 * 24 * HOUR;
        const cells = cellsOf(row, spans, null, now, localCalendar);
        const about = `seed ${seed}, ${tz}, row ${n}: ${JSON.stringify({ row, spans })}`;
        expect(
          sum(cells, ({ micro }) => micro),
          about,
        ).toBe(costMicro(row, now));
        expect(
          sum(cells, ({ ms }) => ms),
          about,
        ).toBe((row.released_at ?? now) - created_at);
        expect(
          sum(cells, ({ machines }) => machines),
          about,
        ).toBe(1);
        expect(Math.min(...cells.map(({ micro }) => micro)), about).toBeGreaterThanOrEqual(0);
      }
    });

  it("are cut at local midnight, also on the days of 23 and 25 hours", () => {
    process.env["TZ"] = "Europe/Berlin";
    const hours = (from: number, to: number): [string, number][] =>
      cellsOf(
        machine({ created_at: from, held_at: from, released_at: to }),
        [{ kind: "work", from }],
        null,
        to,
        localCalendar,
      ).map(({ day, ms }) => [day, ms / HOUR]);
    const spring = new Date(2026, 2, 28, 12).getTime();
    expect(hours(spring, new Date(2026, 2, 30, 12).getTime())).toEqual([
      ["2026-03-28", 12],
      ["2026-03-29", 23],
      ["2026-03-30", 12],
    ]);
    const autumn = new Date(2026, 9, 24, 12).getTime();
    expect(hours(autumn, new Date(2026, 9, 26, 12).getTime())).toEqual([
      ["2026-10-24", 12],
      ["2026-10-25", 25],
      ["2026-10-26", 12],
    ]);
  });

  it("have one activity each, from the order to the proof", () => {
    const use = { createdAt: 0, startedAt: 10, endedAt: 100, endingAt: 120, lostMs: 0, failed: false, idle: [] };
    const kinds = (patch: Partial<Parameters<typeof spansOf>[0]>): string[] =>
      spansOf({ ...use, ...patch }).map(({ kind, from }) => `${kind} ${from}`);
    expect(kinds({})).toEqual(["starting 0", "work 10", "held 100", "proof 120"]);
    expect(kinds({ lostMs: 30 })).toEqual(["starting 0", "work 10", "lost 70", "held 100", "proof 120"]);
    expect(kinds({ failed: true })).toEqual(["starting 0", "failed 10", "held 100", "proof 120"]);
    expect(kinds({ startedAt: null })).toEqual(["starting 0", "proof 120"]);
    expect(kinds({ idle: [[20, 50]] })).toEqual([
      "starting 0",
      "work 10",
      "idle_gpu 20",
      "work 50",
      "held 100",
      "proof 120",
    ]);
  });

  it("add time and a count for a machine without a price, and dollars only to the estimate", () => {
    const row = machine({ price_micro: null });
    const rated = cellsOf(row, [{ kind: "work", from: 0 }], 2_000_000, 0, localCalendar);
    expect([sum(rated, ({ micro }) => micro), sum(rated, (cell) => cell.estimateMicro)]).toEqual([0, 20_000_000]);
    const plain = cellsOf(row, [{ kind: "work", from: 0 }], null, 0, localCalendar);
    expect([sum(plain, (cell) => cell.unpriced), sum(plain, (cell) => cell.unratedMs)]).toEqual([1, 10 * HOUR]);
  });

  it("do not exist for a refused order", () => {
    const refused = machine({ held_at: null, price_micro: null });
    expect(cellsOf(refused, [{ kind: "starting", from: 0 }], null, 0, localCalendar)).toEqual([]);
  });
});

it("A GPU is idle after five minutes without work, and a gap without samples says nothing", () => {
  const minute = (at: number, use: number): { at: number; use: number } => ({ at: at * 60_000, use });
  const minutes = idleOf([0, 1, 2, 3, 4, 5, 6].map((at) => minute(at, 1)).concat(minute(7, 90), minute(8, 0)));
  expect(minutes).toEqual([[0, 6 * 60_000]]);
  expect(idleOf([minute(0, 0), minute(4, 0), minute(30, 0), minute(33, 0)])).toEqual([]);
});

it("A label that a spreadsheet would calculate is exported as text", () => {
  const none = { starting: 0, idle_gpu: 0, held: 0, lost: 0, failed: 0, proof: 0 };
  const total = {
    cost_usd: null,
    cost_estimate_usd: null,
    work_usd: 0,
    waste: none,
    hours: 1,
    hours_without_price: 1,
    machines: 1,
    machines_without_price: 1,
  };
  const report = { by: "label" as const, from: null, to: null, time_zone: "UTC", total };
  const csv = costsCsv({ ...report, groups: [{ key: '=1+1,"x"', ...total }] });
  expect(csv.split("\r\n")[1]).toBe(`"'=1+1,""x""",,,0,0,0,0,0,0,0,1,1,1,1`);
  // Where the decimal sign is a comma, spreadsheets split at semicolons, and quotes in the middle of a field are text.
  const split = costsCsv({ ...report, groups: [{ key: "a; =1+1;\t-2;＝3 b=c", ...total }] });
  expect(split.split("\r\n")[1]).toMatch(/^"?a;' =1\+1;\t'-2;'＝3 b=c/);
});
