import { expect, it } from "vitest";
import { MachineClock } from "../../src/domain/machine-clock.ts";

const NOW = Date.parse("2026-11-26T00:00:00Z");
const HOUR = 3_600_000;

it("A correct clock, apart from network latency, needs no correction", () => {
  const clock = new MachineClock();
  for (const off of [0, -150, 900, -1_900]) expect(clock.ahead(NOW + off, NOW)).toBe(0);
});

it("A wrong clock has one correction until the user sets it, so that times keep their order", () => {
  const clock = new MachineClock();
  expect(clock.ahead(NOW + HOUR, NOW)).toBe(HOUR);
  for (const jitter of [-300, 700, -1_500]) expect(clock.ahead(NOW + HOUR + jitter, NOW)).toBe(HOUR);
  expect(clock.ahead(NOW + 40, NOW)).toBe(0);
  expect(clock.ahead(NOW - 5 * HOUR, NOW)).toBe(-5 * HOUR);
});
